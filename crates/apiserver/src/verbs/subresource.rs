//! Subresources: status and similar ones are updates with other rules; scale, eviction, binding and token have their own
//! objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::patch::Change;
use super::{Answer, Call, logs, patch, proxy, read, subresource_of, write};
use crate::admission::{self, Operation};
use crate::error::{ApiError, Named};
use crate::http::command::{Command, Wanted};
use crate::http::respond;
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
        (Subresource::PortForward, "create" | "get") => port_forward(call, sub).await,
        (Subresource::PortForward, _) => no_runtime(call, sub.segment()),
        (Subresource::Proxy, _) => proxy::proxy(call).await,
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

/// Runs a command in a container.
async fn remote_command(call: &Call<'_>, sub: Subresource) -> Result<Answer, ApiError> {
    let Some(kubelet) = &call.server.options.kubelet else { return no_runtime(call, sub.segment()) };
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
    let wants = |stream: &str| call.query.flag(stream) == Some(true);
    let wanted =
        Wanted { stdin: wants("stdin"), stdout: wants("stdout"), stderr: wants("stderr"), tty: wants("tty") };
    if !(wanted.stdin || wanted.stdout || wanted.stderr) {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    let process = kubelet.exec(&in_pod(call, &key), &command).map_err(ApiError::bad_request)?;
    let command = Command { process, wanted };
    match (&call.websocket, &call.spdy) {
        (Some(websocket), _) => Ok(websocket.clone().run(command)?.into()),
        (None, Some(spdy)) => Ok(spdy.clone().run(command)?.into()),
        (None, None) => Err(upgrade_required()),
    }
}

/// Forwards connections to ports of a pod.
async fn port_forward(call: &Call<'_>, sub: Subresource) -> Result<Answer, ApiError> {
    let Some(kubelet) = &call.server.options.kubelet else { return no_runtime(call, sub.segment()) };
    let key = call.key();
    let mut ops = call.ops()?;
    ops.get(&key)?;
    admission::pass(&mut ops, (Operation::Connect, Some(sub)), &key, &mut connection(call, sub)).await?;
    // What is not possible now is an answer; later, only the connection fails.
    kubelet.can_forward(&in_pod(call, &key)).map_err(ApiError::bad_request)?;
    let ports = call.query.all("ports").flat_map(|list| list.split(',')).map(|port| {
        port.parse::<u16>().map_err(|_| ApiError::bad_request(format!("ports: {port:?} is not a port")))
    });
    let ports = ports.collect::<Result<Vec<u16>, _>>()?;
    let kubelet = Arc::clone(kubelet);
    let connect = Box::new(move |port| {
        let pod = InPod { namespace: &key.namespace, pod: &key.name, container: None };
        kubelet.connect(&pod, port)
    });
    match (&call.websocket, &call.spdy) {
        (Some(websocket), _) => Ok(websocket.clone().forward(connect, ports)?.into()),
        (None, Some(spdy)) => Ok(spdy.clone().forward(connect)?.into()),
        (None, None) => Err(upgrade_required()),
    }
}

fn upgrade_required() -> ApiError {
    ApiError::bad_request("Upgrade request required")
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

/// What this server cannot do.
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
    if let Change::Apply(config) = &change {
        return apply_scale(call, config).await;
    }
    let kind = crate::kinds::schema::builtin().kind("autoscaling/v1", "Scale");
    change_scale(call, |current| change.on(current, kind)).await
}

/// Applies a Scale: its manager then owns the number of replicas of the object.
async fn apply_scale(call: &Call<'_>, config: &Value) -> Result<Answer, ApiError> {
    let Some(manager) = call.query.get("fieldManager") else { return Err(crate::apply::manager_required()) };
    let (version, kind) = (&config["apiVersion"], &config["kind"]);
    if version != "autoscaling/v1" || kind != "Scale" {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        return Err(ApiError::bad_request(format!(
            "invalid object type: {}, Kind={} (expected autoscaling/v1, Kind=Scale)",
            text(version),
            text(kind)
        )));
    }
    let resource = &call.resource;
    let mut whole = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
    for field in ["name", "resourceVersion", "uid"] {
        if let Some(given) = config["metadata"].get(field) {
            whole["metadata"][field] = given.clone();
        }
    }
    if let Some(replicas) = config["spec"].get("replicas") {
        if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            return Err(negative(replicas.clone(), &call.key().name));
        }
        set_pointer(&mut whole, paths(resource).spec, replicas.clone());
    }
    let mut ops = call.ops()?;
    let force = call.query.flag("force") == Some(true);
    let apply = crate::apply::Apply { manager, force, sub: Some(Subresource::Scale) };
    let updated = apply.run(&mut ops, &call.key(), &whole).await?;
    let scale = scale_of(resource, &ops.current(&updated.entry).await?);
    Ok(call.done(call.value(200, &scale), &ops))
}

fn negative(replicas: impl Into<Value>, name: &str) -> ApiError {
    let cause = Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    ApiError::invalid(Named { group: "autoscaling", what: "Scale", name }, &[cause])
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
            return Err(negative(replicas, &name));
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
