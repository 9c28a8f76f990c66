//! Reviews of tokens and of permissions, which are answered at once and not stored.

use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::authz::Attributes;
use crate::error::ApiError;
use crate::meta;
use crate::registry::{User, Verbs};
use crate::store::Key;
use crate::verbs::{Answer, Call};

/// Answers a review; `None` if the resource is not a review.
pub(crate) async fn answer(call: &Call<'_>) -> Result<Option<Answer>, ApiError> {
    if call.resource.verbs != Verbs::CreateOnly || call.info.verb != "create" {
        return Ok(None);
    }
    let mut ops = call.ops()?;
    let mut review = call.object(&mut ops)?;
    if call.resource.kind != "Binding" {
        let key = Key::new(call.namespace(), "");
        admission::pass(&mut ops, (Operation::Create, None), &key, &mut review).await?;
    }
    match call.resource.kind.as_str() {
        "TokenReview" => token_review(call, &mut review),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let user = subject(&review["spec"]);
            access_review(call, &user, &mut review);
        }
        "SelfSubjectAccessReview" => access_review(call, call.user, &mut review),
        "SelfSubjectReview" => review["status"] = json!({"userInfo": user_info(call.user)}),
        "SelfSubjectRulesReview" => {
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
            let (resources, urls) = call.server.authz.rules_of(call.server, call.user, &namespace);
            review["status"] =
                json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": false});
            if call.server.authz.node(call.user).is_some() {
                review["status"]["incomplete"] = json!(true);
                review["status"]["evaluationError"] =
                    json!("node authorizer does not support user rule resolution");
            }
        }
        "Binding" => return crate::pods::bind_from_collection(call, &review).await.map(Some),
        _ => return Ok(None),
    }
    meta::of(&mut review);
    Ok(Some(call.done(call.value(201, &review), &ops)))
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn token_review(call: &Call<'_>, review: &mut Value) {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    let wanted: Vec<&str> =
        review["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let issuer = call.server.options.issuer.as_str();
    let audiences = if wanted.is_empty() { vec![issuer] } else { wanted };
    let status = match call.server.authn.user_of_token(call.server, token, &audiences) {
        Some(mut user) => {
            user.groups.push("system:authenticated".to_owned());
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "[invalid bearer token]"}),
    };
    review["status"] = status;
}

fn subject(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    }
}

/// The fields that a selector in a review requires to have one value.
fn selected(selector: &Value) -> Vec<(String, String)> {
    if let Some(raw) = selector["rawSelector"].as_str() {
        return crate::selector::required(raw);
    }
    let one = |requirement: &Value| {
        let values = requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [value] = values else { return None };
        let is_it = requirement["operator"] == "In";
        Some((requirement["key"].as_str()?.to_owned(), value.as_str()?.to_owned())).filter(|_| is_it)
    };
    selector["requirements"].as_array().into_iter().flatten().filter_map(one).collect()
}

fn access_review(call: &Call<'_>, user: &User, review: &mut Value) {
    let spec = &review["spec"];
    let selected = selected(&spec["resourceAttributes"]["fieldSelector"]);
    let wanted = match spec.get("nonResourceAttributes") {
        Some(asked) if asked.is_object() => Attributes {
            verb: asked["verb"].as_str().unwrap_or_default(),
            path: Some(asked["path"].as_str().unwrap_or_default()),
            ..Attributes::default()
        },
        _ => {
            let get = |field: &str| spec["resourceAttributes"][field].as_str().unwrap_or_default();
            Attributes {
                verb: get("verb"),
                namespace: get("namespace"),
                group: get("group"),
                resource: get("resource"),
                subresource: get("subresource"),
                name: get("name"),
                path: None,
                selected: &selected,
            }
        }
    };
    review["status"] = match call.server.authz.decide(call.server, user, &wanted) {
        Ok(()) => json!({"allowed": true}),
        Err(reason) if reason.is_empty() => json!({"allowed": false}),
        Err(reason) => json!({"allowed": false, "reason": reason}),
    };
}
