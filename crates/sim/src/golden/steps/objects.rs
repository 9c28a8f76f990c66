//! Steps that create, change and delete objects as a user would.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::arguments::{Delete, Generate, Patch, PatchKind, Place, Raw, Refused, Scale, Variables};
use crate::api::{Call, Content, Error, message};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::dig::dig;
use crate::golden::normalise::{items, text};
use crate::golden::run::Run;
use crate::golden::scenario::OneOrMany;

/// Quota and the storage of custom resources may lag behind a little.
const LAG_ATTEMPTS: usize = 20;
const LAG: Duration = Duration::from_millis(250);
const CONFLICT_ATTEMPTS: usize = 5;

pub(super) async fn apply<B: Backend>(run: &mut Run<'_, B>, manifests: &OneOrMany) -> Result<(), StepError> {
    for manifest in manifests.iter() {
        let object = run.fill(manifest);
        let resource = run.api.resource_of(&object).await?;
        let applied = apply_one(run, object).await?;
        // In the order of the scenario, which may matter.
        if let Ok(version) = text(&applied["metadata"]["resourceVersion"]).parse() {
            run.backend.seen(&resource, version).await;
        }
    }
    Ok(())
}

pub(super) async fn generate<B: Backend>(run: &mut Run<'_, B>, step: &Generate) -> Result<(), StepError> {
    for i in step.from..=step.to {
        let number = |name: &str, value: i64| (name.to_owned(), Value::from(value));
        let numbers = Variables::from([number("i", i), number("hi", i / 250), number("lo", i % 250 + 1)]);
        for manifest in step.manifest.iter() {
            let object = run.fill_with(manifest, &numbers);
            apply_one(run, object).await?;
        }
    }
    Ok(())
}

pub(super) async fn refused<B: Backend>(run: &mut Run<'_, B>, step: &Refused) -> Result<(), StepError> {
    let (mut object, url, _) = locate(run, run.fill(&step.manifest)).await?;
    take_status(&mut object);
    let (code, answer) = create(run, &url, &object).await?;
    if code == step.code {
        return Ok(());
    }
    let (kind, said) = (text(&object["kind"]), message(&answer));
    Err(StepError::failed(format!("create {kind}: expected {}, got {code} {said}", step.code)))
}

/// Creates an object, or merges it into the existing one; its status goes through the subresource. Returns the resulting
/// object.
pub(super) async fn apply_one<B: Backend>(run: &mut Run<'_, B>, object: Value) -> Result<Value, StepError> {
    let (mut object, url, elsewhere) = locate(run, object).await?;
    let status = take_status(&mut object);
    let mut attempt = 1;
    let (code, mut answer) = loop {
        let (code, answer) = create(run, &url, &object).await?;
        let lagging = matches!(code, 404 | 500) || code == 403 && message(&answer).contains("quota");
        if !lagging || attempt == LAG_ATTEMPTS {
            break (code, answer);
        }
        attempt += 1;
        tokio::time::sleep(LAG).await;
    };
    let name = text(&object["metadata"]["name"]);
    if code == 409 && !name.is_empty() {
        let path = format!("{url}/{name}");
        answer = run.api.send(Call::new(Method::PATCH, &path).body(&object, Content::MergePatch)).await?.1;
    } else if code >= 400 {
        return Err(Error::Status { code, method: Method::POST, path: url, message: message(&answer) }.into());
    }
    let path = format!("{url}/{}", text(&answer["metadata"]["name"]));
    if elsewhere {
        run.tracked.push(path.clone());
    }
    if let Some(status) = status {
        let path = format!("{path}/status");
        let body = json!({"status": status});
        answer = run.api.send(Call::new(Method::PATCH, &path).body(&body, Content::MergePatch)).await?.1;
    }
    if object["kind"] == "CustomResourceDefinition" {
        until_established(run, &path).await?;
    }
    Ok(answer)
}

/// The object with its namespace, the URL of its collection, and whether that is outside of the scenario's namespace.
async fn locate<B: Backend>(run: &Run<'_, B>, mut object: Value) -> Result<(Value, String, bool), StepError> {
    let resource = run.api.resource_of(&object).await?;
    if !object["metadata"].is_object() {
        return Err(StepError::failed(format!("{} without metadata", text(&object["kind"]))));
    }
    let namespace = match text(&object["metadata"]["namespace"]) {
        "" => run.stage.namespace.clone(),
        given => given.to_owned(),
    };
    let elsewhere = !resource.namespaced || namespace != run.stage.namespace;
    let url = resource.url(Some(&namespace), None, None);
    if resource.namespaced {
        object["metadata"]["namespace"] = namespace.into();
    }
    Ok((object, url, elsewhere))
}

fn take_status(object: &mut Value) -> Option<Value> {
    object.as_object_mut()?.remove("status")
}

async fn create<B: Backend>(run: &Run<'_, B>, url: &str, object: &Value) -> Result<(u16, Value), Error> {
    const ANSWERS: &[u16] = &[400, 403, 404, 409, 422, 500];
    run.api.send(Call::new(Method::POST, url).body(object, Content::Json).tolerate(ANSWERS)).await
}

async fn until_established<B: Backend>(run: &Run<'_, B>, path: &str) -> Result<(), StepError> {
    for _ in 0..60 {
        let definition = run.api.get(path).await?;
        let mut conditions = items(&definition["status"]["conditions"]).iter();
        if conditions.any(|c| c["type"] == "Established" && c["status"] == "True") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Established, but not served yet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(run.api.refresh().await?)
}

pub(super) async fn patch<B: Backend>(run: &Run<'_, B>, step: &Patch) -> Result<(), StepError> {
    let target = run.target(&step.target).await?;
    let path = target.url(step.subresource.as_deref());
    let content = match step.kind {
        PatchKind::Merge => Content::MergePatch,
        PatchKind::Json => Content::JsonPatch,
        PatchKind::Strategic => Content::StrategicPatch,
    };
    let body = run.fill(&step.body);
    for _ in 1..CONFLICT_ATTEMPTS {
        let call = Call::new(Method::PATCH, &path).body(&body, content).tolerate(&[409]);
        if run.api.send(call).await?.0 != 409 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run.api.send(Call::new(Method::PATCH, &path).body(&body, content)).await?;
    Ok(())
}

pub(super) async fn scale<B: Backend>(run: &Run<'_, B>, step: &Scale) -> Result<(), StepError> {
    let path = run.target(&step.target).await?.url(Some("scale"));
    let body = json!({"spec": {"replicas": step.replicas}});
    run.api.send(Call::new(Method::PATCH, &path).body(&body, Content::MergePatch)).await?;
    Ok(())
}

pub(super) async fn delete<B: Backend>(run: &Run<'_, B>, step: &Delete) -> Result<(), StepError> {
    let path = run.target(&step.target).await?.url(None);
    let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if let Some(propagation) = &step.propagation {
        body["propagationPolicy"] = propagation.as_str().into();
    }
    if let Some(grace) = step.grace {
        body["gracePeriodSeconds"] = grace.into();
    }
    run.api.send(Call::new(Method::DELETE, &path).body(&body, Content::Json)).await?;
    Ok(())
}

pub(super) async fn remember<B: Backend>(
    run: &mut Run<'_, B>,
    places: &BTreeMap<String, Place>,
) -> Result<(), StepError> {
    for (name, place) in places {
        let path = run.target(&place.target).await?.url(None);
        let value = dig(&run.api.get(&path).await?, &place.path);
        run.variables.insert(name.clone(), value);
    }
    Ok(())
}

pub(super) async fn raw<B: Backend>(run: &Run<'_, B>, step: &Raw) -> Result<(), StepError> {
    let path = run.filled(&step.path);
    let method: Method = step.method.as_deref().unwrap_or("POST").parse().map_err(|_| {
        StepError::failed(format!("{:?} is not a method", step.method.as_deref().unwrap_or_default()))
    })?;
    let all_errors: Vec<u16> = (400..600).collect();
    let mut call = Call::new(method, &path).tolerate(&all_errors);
    let media_type = step.media_type.as_deref().unwrap_or("application/json");
    match run.fill(&step.body) {
        Value::Null => {}
        Value::String(body) => call = call.raw_body(body, media_type),
        body => call = call.raw_body(body.to_string(), media_type),
    }
    let (code, answer) = run.api.send(call).await?;
    let expected = match &step.code {
        Some(codes) => codes.contains(&code.to_string()),
        None => code < 400,
    };
    match expected {
        true => Ok(()),
        false => Err(StepError::failed(format!("{path} answered {code} {}", message(&answer)))),
    }
}
