//! TokenRequest: a signed token for a service account, bound to an object if the request names one.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::authn::{Bound, Claims};
use crate::error::{ApiError, Named};
use crate::invalid::Cause;
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};
use crate::verbs::{Answer, Call};

const GROUP: &str = "authentication.k8s.io";
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

pub(crate) async fn create(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut request = call.json_body("TokenRequest")?;
    let key = call.key();
    let invalid = |name: &str, cause: Cause| {
        ApiError::invalid(Named { group: GROUP, what: "TokenRequest", name }, &[cause])
    };
    for (field, wanted, what) in [("name", &key.name, "name"), ("namespace", &key.namespace, "namespace")] {
        let given = meta::text(&request, field);
        if !given.is_empty() && given != wanted {
            let detail = format!("must match the service account {what} if specified");
            return Err(invalid(&key.name, Cause::invalid(format!("metadata.{field}"), given, &detail)));
        }
    }
    let mut ops = call.ops()?;
    let sub = (Operation::Create, Some(Subresource::Token));
    admission::pass(&mut ops, sub, &key, &mut request).await?;
    let account = ops.get(&key)?.value();
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    if seconds < MIN_SECONDS {
        let detail = "may not specify a duration less than 10 minutes";
        return Err(invalid("", Cause::invalid("spec.expirationSeconds", seconds, detail)));
    }
    if seconds > MAX_SECONDS {
        let detail = "may not specify a duration larger than 2^32 seconds";
        return Err(invalid("", Cause::invalid("spec.expirationSeconds", seconds, detail)));
    }
    let bound = bound(call, &key, &request["spec"]["boundObjectRef"])?;
    let listed = request["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = listed.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(call.server.options.issuer.clone());
    }
    let uid = meta::text(&account, "uid");
    let claims = Claims {
        issuer: &call.server.options.issuer,
        audiences: audiences.clone(),
        issued: call.now.as_second(),
        expires: call.now.as_second() + seconds,
        namespace: &key.namespace,
        account: &key.name,
        uid,
        id: meta::uuid(&mut *call.server.rng.lock()),
        bound,
    };
    let token = call.server.authn.keys.sign(&claims.to_json());
    let token = token.ok_or_else(|| ApiError::internal("failed to generate token: no randomness"))?;
    let ends = call.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(call.now);
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    let metadata = meta::of(&mut request);
    metadata.insert("name".to_owned(), json!(key.name));
    metadata.insert("namespace".to_owned(), json!(key.namespace));
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(time(call.now)));
    let spec = meta::child(&mut request, "spec");
    spec.insert("audiences".to_owned(), json!(audiences));
    spec.insert("expirationSeconds".to_owned(), json!(seconds));
    spec.entry("boundObjectRef").or_insert(Value::Null);
    request["status"] = json!({"token": token, "expirationTimestamp": time(ends)});
    Ok(call.done(call.value(201, &request), &ops))
}

fn bound(call: &Call<'_>, account: &Key, reference: &Value) -> Result<Option<Bound>, ApiError> {
    if !reference.is_object() {
        return Ok(None);
    }
    let name = reference["name"].as_str().unwrap_or_default();
    let kind = reference["kind"].as_str().unwrap_or_default();
    let (what, plural, namespace) = match kind {
        "Pod" => ("pod", "pods", account.namespace.as_str()),
        "Secret" => ("secret", "secrets", account.namespace.as_str()),
        "Node" => ("node", "nodes", ""),
        _ => {
            let version = reference["apiVersion"].as_str().unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {version}, Kind={kind}"
            )));
        }
    };
    let entry = call.server.store.get(&ShelfId::new("", plural), &Key::new(namespace, name));
    let object = entry.ok_or_else(|| ApiError::not_found(Named { group: "", what: plural, name }))?.value();
    if what == "pod" && object["spec"]["serviceAccountName"] != account.name.as_str() {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            account.name
        )));
    }
    let uid = meta::text(&object, "uid");
    if let Some(wanted) = reference["uid"].as_str().filter(|wanted| !wanted.is_empty() && *wanted != uid) {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(ApiError::conflict(Named { group: "", what: kind, name }, &why));
    }
    Ok(Some(Bound { what, name: name.to_owned(), uid: uid.to_owned() }))
}
