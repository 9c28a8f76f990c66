//! Mutating and validating webhooks: which are called, in which order, and what their answers mean.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::Dynamic;
use super::attributes::Objects;
use super::expressions::{Compiler, Inputs};
use super::matching::Constraints;
use super::policy::{Conditions, OnFailure};
use super::review::{self, Answer};
use crate::error::ApiError;
use crate::resource::Resource;
use crate::webhook::Client;

/// One webhook of a configuration.
pub(super) struct Webhook {
    configuration: String,
    name: String,
    /// Unique also among webhooks of the same name.
    id: String,
    client: Client,
    constraints: Constraints,
    compiler: Compiler,
    conditions: Conditions,
    on_failure: OnFailure,
    timeout: Option<Duration>,
    /// The version of `AdmissionReview` that it is sent.
    review: Option<&'static str>,
    has_side_effects: bool,
    sees_later_changes: bool,
}

impl Webhook {
    /// The webhooks of a configuration.
    pub(super) fn read(configuration: &Value) -> Vec<Self> {
        let name = crate::meta::text(configuration, "name");
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten().enumerate();
        webhooks.map(|(at, webhook)| Self::of(name, at, webhook)).collect()
    }

    fn of(configuration: &str, at: usize, webhook: &Value) -> Self {
        let name = webhook["name"].as_str().unwrap_or_default().to_owned();
        let compiler = Compiler::plain(false);
        let on_failure = OnFailure::read(webhook);
        let versions = webhook["admissionReviewVersions"].as_array().into_iter().flatten();
        let review = versions.filter_map(Value::as_str).find_map(|version| match version {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        Self {
            configuration: configuration.to_owned(),
            id: format!("{configuration}/{name}/{at}"),
            name,
            client: Client::read(&webhook["clientConfig"]),
            constraints: Constraints::of_webhook(webhook),
            conditions: Conditions::read(&webhook["matchConditions"], &compiler, on_failure),
            compiler,
            on_failure,
            timeout: webhook["timeoutSeconds"].as_u64().map(Duration::from_secs),
            review,
            has_side_effects: !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            sees_later_changes: webhook["reinvocationPolicy"] == "IfNeeded",
        }
    }

    /// The resource in whose version it is sent the objects; none if it is not called.
    async fn matched(
        &self,
        dynamic: &Dynamic<'_>,
        objects: &Objects<'_>,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        let Some(matched) = self.constraints.matched(dynamic.server, &dynamic.attributes, objects)? else {
            return Ok(None);
        };
        if self.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let attributes = &dynamic.attributes;
        let shown = dynamic.shown(objects, &matched).await?;
        let request = attributes.request(objects, &attributes.resource);
        let checks = dynamic.checks(objects);
        let inputs = Inputs {
            object: shown.new.as_ref(),
            old: shown.old.as_ref(),
            request: &request,
            params: None,
            namespace: None,
            authorizer: Some(&checks),
        };
        match self.conditions.hold(&self.compiler, &inputs) {
            Ok(holds) => Ok(holds.then_some(matched)),
            Err(why) => Err(ApiError::forbidden(attributes.resource.named(&objects.name), &why)),
        }
    }

    /// Asks the webhook about a request.
    async fn call(
        &self,
        dynamic: &Dynamic<'_>,
        objects: &Objects<'_>,
        matched: &Resource,
        mutates: bool,
    ) -> Result<Answer, Refusal> {
        if dynamic.attributes.dry_run && self.has_side_effects {
            let why = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(Refusal::Denied(ApiError::bad_request(why)));
        }
        let Some(version) = self.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return Err(Refusal::Failed(why.to_owned()));
        };
        let shown = dynamic.shown(objects, matched).await.map_err(Refusal::Denied)?;
        let mut request = dynamic.attributes.request(objects, matched);
        let uid = crate::meta::uuid(&mut *dynamic.server.rng.lock());
        request["uid"] = json!(uid);
        request["object"] = shown.new.unwrap_or_default();
        request["oldObject"] = shown.old.unwrap_or_default();
        let body = review::request(version, request);
        let given = self.client.post(dynamic.server, &body, self.timeout).await;
        let given = given.map_err(|why| Refusal::Failed(format!("failed to call webhook: {why}")))?;
        let invalid = |why| Refusal::Failed(format!("received invalid webhook response: {why}"));
        let answer = review::verified(&given, version, &uid, mutates).map_err(invalid)?;
        for (key, value) in &answer.annotations {
            dynamic.notes.annotate(format!("{}/{key}", self.name), value.clone());
        }
        dynamic.notes.warn(answer.warnings.clone());
        match answer.is_allowed {
            true => Ok(answer),
            false => Err(Refusal::Denied(review::denial(&self.name, &answer.result))),
        }
    }

    /// What a call that failed means for the request.
    fn failed(&self, why: &str) -> Result<(), ApiError> {
        let name = &self.name;
        match self.on_failure {
            OnFailure::Ignore => {
                tracing::warn!(
                    webhook = name,
                    why,
                    "cannot call a webhook; ignored, as its failurePolicy says"
                );
                Ok(())
            }
            OnFailure::Fail => Err(ApiError::internal(format!("failed calling webhook {name:?}: {why}"))),
        }
    }
}

/// Why a webhook did not allow a request.
enum Refusal {
    Denied(ApiError),
    /// It could not be called, or it answered with something invalid.
    Failed(String),
}

/// Lets mutating webhooks change an object, one after the other. Returns whether one did.
pub(super) async fn mutate(
    dynamic: &mut Dynamic<'_>,
    mut object: Option<&mut Value>,
    old: Option<&Value>,
) -> Result<bool, ApiError> {
    let set = Arc::clone(&dynamic.set);
    dynamic.webhooks.begins(object.as_deref());
    let round = dynamic.webhooks.round();
    let mut is_changed = false;
    for (index, webhook) in set.mutating_webhooks.iter().enumerate() {
        let matched = {
            let objects = dynamic.attributes.objects(object.as_deref(), old);
            webhook.matched(dynamic, &objects).await?
        };
        let Some(matched) = matched.filter(|_| dynamic.webhooks.calls(&webhook.id)) else { continue };
        let response = {
            let objects = dynamic.attributes.objects(object.as_deref(), old);
            webhook.call(dynamic, &objects, &matched, true).await
        };
        let patched = match response {
            Ok(answer) => webhook.patched(dynamic, answer, object.as_deref(), &matched).await,
            Err(refusal) => Err(refusal),
        };
        let place = format!("round_{round}_index_{index}");
        let has_mutated = matches!(&patched, Ok(Some(new)) if Some(new) != object.as_deref());
        let note = format!(
            "{{\"configuration\":{},\"webhook\":{},\"mutated\":{has_mutated}}}",
            json!(webhook.configuration),
            json!(webhook.name)
        );
        dynamic.notes.annotate(format!("mutation.webhook.admission.k8s.io/{place}"), note);
        if has_mutated {
            is_changed = true;
            dynamic.webhooks.changed();
        }
        if webhook.sees_later_changes {
            dynamic.webhooks.called(&webhook.id);
        }
        match (patched, &mut object) {
            (Ok(Some(new)), Some(object)) => **object = new,
            (Ok(_), _) => {}
            (Err(Refusal::Denied(error)), _) => return Err(error),
            (Err(Refusal::Failed(why)), _) => {
                webhook.failed(&why)?;
                let key = format!("failed-open.mutation.webhook.admission.k8s.io/{place}");
                dynamic.notes.annotate(key, webhook.name.clone());
            }
        }
    }
    dynamic.webhooks.ends(object.as_deref());
    Ok(is_changed)
}

impl Webhook {
    /// The object with the patch of an answer; none if there is no patch.
    async fn patched(
        &self,
        dynamic: &Dynamic<'_>,
        answer: Answer,
        object: Option<&Value>,
        matched: &Arc<Resource>,
    ) -> Result<Option<Value>, Refusal> {
        let Some(patch) = answer.patch else { return Ok(None) };
        let undecodable =
            |error| Refusal::Failed(format!("received undecodable patch in webhook response: {error}"));
        let patch: json_patch::Patch = serde_json::from_slice(&patch).map_err(undecodable)?;
        if patch.0.is_empty() {
            return Ok(None);
        }
        let Some(object) = object else {
            let why = format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                self.name
            );
            return Err(Refusal::Denied(ApiError::internal(why)));
        };
        if answer.patch_type != "JSONPatch" {
            return Err(Refusal::Failed(format!("unsupported patch type {:?}", answer.patch_type)));
        }
        let objects = dynamic.attributes.objects(Some(object), None);
        let shown = dynamic.shown(&objects, matched).await.map_err(Refusal::Denied)?;
        let mut shown = shown.new.unwrap_or_default();
        let failed = |error: json_patch::PatchError| Refusal::Denied(ApiError::internal(error));
        json_patch::patch(&mut shown, &patch).map_err(failed)?;
        dynamic.taken(object, shown, matched).await.map(Some).map_err(Refusal::Denied)
    }
}

/// Lets validating webhooks refuse a request, all at once. Of several refusals the first webhook's counts.
pub(super) async fn judge(dynamic: &Dynamic<'_>, objects: &Objects<'_>) -> Result<(), ApiError> {
    let mut called = Vec::new();
    for webhook in &dynamic.set.validating_webhooks {
        if let Some(matched) = webhook.matched(dynamic, objects).await? {
            called.push((webhook, matched));
        }
    }
    let calls = called.iter().map(|(webhook, matched)| webhook.call(dynamic, objects, matched, false));
    let answers = join_all(calls).await;
    let mut refused = None;
    for (index, ((webhook, _), answer)) in called.iter().zip(answers).enumerate() {
        let outcome = match answer {
            Ok(_) => Ok(()),
            Err(Refusal::Denied(error)) => Err(error),
            Err(Refusal::Failed(why)) => webhook.failed(&why).map(|()| {
                let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
                dynamic.notes.annotate(key, webhook.name.clone());
            }),
        };
        refused = refused.or(outcome.err());
    }
    refused.map_or(Ok(()), Err)
}
