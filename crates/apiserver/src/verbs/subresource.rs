//! Subresources: status and similar ones are updates with other rules; scale, eviction, binding and token have their own
//! objects.

use serde_json::{Value, json};

use super::patch::Change;
use super::{Answer, Call, logs, patch, read, subresource_of, write};
use crate::admission::{self, Operation};
use crate::error::{ApiError, Named};
use crate::http::respond;
use crate::http::websocket::Channel;
use crate::invalid::Cause;
use crate::life::{Ops, Target};
use crate::meta;
use crate::options::InPod;
use crate::registry::{ScalePaths, Subresource};
use crate::resource::Resource;
use crate::store::Key;

/// The error for an unknown subresource; for a custom resource, that the object was not found.
fn unknown(call: &Call<'_>) -> ApiError {
    let Resource { group, plural, custom, .. } = &*call.resource;
    match custom {
        Some(_) => ApiError::not_found(Named {
            group,
            what: plural,
            name: call.info.name.as_deref().unwrap_or_default(),
        }),
        None => ApiError::no_such_resource(),
    }
}

pub(super) async fn dispatch(call: &Call<'_>) -> Result<Answer, ApiError> {
    let sub = subresource_of(&call.resource, &call.info.subresource).ok_or_else(|| unknown(call))?;
    match (sub, call.info.verb) {
        (Subresource::Eviction, "create") => crate::pods::evict(call).await,
        (Subresource::Binding, "create") => crate::pods::bind(call).await,
        (Subresource::Token, "create") => crate::tokens::create(call).await,
        (Subresource::Scale, "get") => scale(call).await,
        (Subresource::Scale, "update") => update_scale(call).await,
        (Subresource::Scale, "patch") => patch_scale(call).await,
        (Subresource::Finalize, "update") => write::update(call, Some(sub)).await,
        (
            Subresource::Status
            | Subresource::Approval
            | Subresource::EphemeralContainers
            | Subresource::Resize,
            verb,
        ) => match verb {
            "get" => read::get(call).await,
            "update" => write::update(call, Some(sub)).await,
            "patch" => patch::patch(call, Some(sub)).await,
            _ => Err(ApiError::method_not_allowed()),
        },
        (Subresource::Log, "get") => logs(call),
        (Subresource::Exec | Subresource::Attach, "get" | "create") => remote_command(call, sub).await,
        (Subresource::PortForward | Subresource::Proxy, _) => no_runtime(call, sub.segment()),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// A container's log.
fn logs(call: &Call<'_>) -> Result<Answer, ApiError> {
    let Some(kubelet) = &call.server.options.kubelet else { return no_runtime(call, "log") };
    let key = call.key();
    call.ops()?.get(&key)?;
    logs::answer(call, &**kubelet, &in_pod(call, &key))
}

fn in_pod<'a>(call: &'a Call<'_>, key: &'a Key) -> InPod<'a> {
    let container = call.query.get("container").filter(|name| !name.is_empty());
    InPod { namespace: &key.namespace, pod: &key.name, container }
}

/// Runs a command in a container. It has no input and returns all output at once, so there
/// is nothing to stream.
async fn remote_command(call: &Call<'_>, sub: Subresource) -> Result<Answer, ApiError> {
    let (Some(kubelet), Some(websocket)) = (&call.server.options.kubelet, &call.websocket) else {
        return no_runtime(call, sub.segment());
    };
    let key = call.key();
    let mut ops = call.ops()?;
    ops.get(&key)?;
    admission::pass(&mut ops, (Operation::Connect, Some(sub)), &key, &mut connection(call, sub)).await?;
    let command: Vec<&str> = match sub {
        Subresource::Exec => call.query.all("command").collect(),
        _ => Vec::new(),
    };
    if sub == Subresource::Exec && command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
    }
    let ran = kubelet.exec(&in_pod(call, &key), &command).map_err(ApiError::bad_request)?;
    let status = ended(ran.code).to_string();
    let said = [(Channel::Stdout, ran.stdout), (Channel::Stderr, ran.stderr), (Channel::Error, status)];
    let said = said.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    Ok(websocket.clone().say(said).into())
}

/// The options of a connection to a container, as policies and webhooks see them.
fn connection(call: &Call<'_>, sub: Subresource) -> Value {
    let mut options = json!({});
    for stream in ["stdin", "stdout", "stderr", "tty"] {
        if call.query.flag(stream) == Some(true) {
            options[stream] = json!(true);
        }
    }
    if let Some(container) = call.query.get("container") {
        options["container"] = json!(container);
    }
    if sub == Subresource::Exec {
        options["command"] = call.query.all("command").collect();
    }
    options
}

/// How a command ended, in the words that clients look for.
fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// Port forwarding and proxies are not supported.
fn no_runtime(call: &Call<'_>, what: &str) -> Result<Answer, ApiError> {
    call.ops()?.get(&call.key())?;
    let message = match &call.server.options.kubelet {
        Some(kubelet) => kubelet.refusal(what),
        None => format!("{what} is not available: this server has no kubelet to ask"),
    };
    Ok(respond::refusal(&ApiError { code: 501, ..ApiError::unexplained(message) }, call.accept).into())
}

fn paths(resource: &Resource) -> ScalePaths<'_> {
    match &resource.custom {
        Some(custom) => custom.scale_paths(),
        None => resource.strategy.scale_paths(),
    }
}

/// The Scale of an object.
pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Value {
    let paths = paths(resource);
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let mut spec = json!({});
    if let Some(replicas) = number(paths.spec).filter(|n| *n != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": number(paths.status).unwrap_or(0)});
    if let Some(selector) = object.pointer(paths.selector).map(selector_text).filter(|text| !text.is_empty())
    {
        status["selector"] = json!(selector);
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A selector as text, whatever form it has.
fn selector_text(selector: &Value) -> String {
    let Value::Object(map) = selector else { return selector.as_str().unwrap_or_default().to_owned() };
    if !map.contains_key("matchLabels") && !map.contains_key("matchExpressions") {
        let pairs = map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        return pairs.collect::<Vec<_>>().join(",");
    }
    let mut terms: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for each in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = each["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            each["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        terms.push(match each["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort();
    terms.join(",")
}

async fn scale(call: &Call<'_>) -> Result<Answer, ApiError> {
    let ops = call.ops()?;
    let entry = ops.get(&call.key())?;
    Ok(call.value(200, &scale_of(&call.resource, &ops.current(&entry).await?)).into())
}

async fn update_scale(call: &Call<'_>) -> Result<Answer, ApiError> {
    let wanted = call.json_body("Scale")?;
    change_scale(call, |_| Ok(wanted.clone())).await
}

async fn patch_scale(call: &Call<'_>) -> Result<Answer, ApiError> {
    let change = Change::read(call)?;
    let kind = crate::kinds::schema::builtin().kind("autoscaling/v1", "Scale");
    change_scale(call, |current| change.on(current, kind)).await
}

async fn change_scale(
    call: &Call<'_>,
    mut change: impl FnMut(Value) -> Result<Value, ApiError> + Send,
) -> Result<Answer, ApiError> {
    let mut ops = call.ops()?;
    let target = Target { sub: Some(Subresource::Scale), repeatable: true, ..Target::default() };
    let resource = &call.resource;
    let change = |_: &mut Ops<'_>, old: Option<&Value>| {
        let mut object = old.cloned().unwrap_or_default();
        let wanted = change(scale_of(resource, &object))?;
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        let name = meta::text(&object, "name").to_owned();
        if replicas < 0 {
            let cause = Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            let named = Named { group: "autoscaling", what: "Scale", name: &name };
            return Err(ApiError::invalid(named, &[cause]));
        }
        for (field, missing) in [("uid", "uid"), ("resourceVersion", "resourceVersion")] {
            match meta::text(&wanted, field) {
                "" => {
                    if missing == "resourceVersion" {
                        meta::of(&mut object).remove("resourceVersion");
                    }
                }
                given => {
                    let given = json!(given);
                    meta::of(&mut object).insert(field.to_owned(), given);
                }
            }
        }
        set_pointer(&mut object, paths(resource).spec, json!(replicas));
        Ok(object)
    };
    let updated = ops.update(&call.key(), target, change).await?;
    let scale = scale_of(resource, &ops.current(&updated.entry).await?);
    Ok(call.done(call.value(200, &scale), &ops))
}

/// An object with the number of replicas of a Scale.
pub(crate) fn scaled(resource: &Resource, object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    set_pointer(&mut object, paths(resource).spec, json!(replicas));
    object
}

fn set_pointer(object: &mut Value, pointer: &str, value: Value) {
    let mut parts: Vec<&str> = pointer.split('/').filter(|part| !part.is_empty()).collect();
    let Some(last) = parts.pop() else { return };
    let mut at = object;
    for part in parts {
        if !at[part].is_object() {
            at[part] = json!({});
        }
        at = &mut at[part];
    }
    at[last] = value;
}
