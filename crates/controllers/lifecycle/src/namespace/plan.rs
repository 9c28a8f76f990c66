//! The writes that delete the content of a namespace, report what is left, and finalize it. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use flyball_api::namespace::NamespaceStatus;
use flyball_api::{Key, Namespace, Object, ObjectMeta, Resource, ResourceType, Timestamp};
use flyball_client::{DeleteOptions, Propagation};
use flyball_runtime::decisions::Subject;
use flyball_runtime::plan::Operation;
use flyball_runtime::{Effect, ErrorKinds, Outcome, Plan, SyncError, Waiting, Write};
use serde_json::{Value, json};

use super::FINALIZER;
use super::content::{Collection, Remains};
use super::status::Findings;

const TERMINATING: &str = "Terminating";
/// How many times a namespace is finalized that other clients change at the same time.
pub const ATTEMPTS: u32 = 5;
const WHY_CONTENT: &str = "its namespace is being deleted";

/// Sets the phase of a namespace that is being deleted to Terminating, unless it is set already.
pub fn mark_terminating(namespace: &Namespace) -> Option<Write> {
    let status = NamespaceStatus { phase: TERMINATING.into(), ..namespace.status.clone() };
    let is_due = namespace.is_deleting() && !namespace.is_terminating();
    is_due.then(|| {
        Write::status(namespace, &status).why("its deletion was requested").ignore_only(ErrorKinds::NONE)
    })
}

/// Whether the content of a namespace is to be deleted.
pub fn is_to_be_emptied(namespace: &Namespace) -> bool {
    namespace.is_deleting() && !namespace.spec.finalizers.is_empty()
}

/// Deletes all objects of a collection with one request, if the resource has that verb.
pub fn delete_collection(collection: &Collection, namespace: &str) -> Option<Write> {
    collection.can_delete_collection.then(|| {
        Write::delete_collection(
            collection.resource.clone(),
            namespace,
            in_background(DeleteOptions::default()),
        )
        .why(WHY_CONTENT)
        // Discovery may list resources that the server does not serve any more, or not with this verb.
        .ignore(ErrorKinds::NOT_FOUND | ErrorKinds::METHOD_NOT_SUPPORTED)
    })
}

/// Deletes one object of a collection.
pub fn delete(resource: &ResourceType, object: &ObjectMeta) -> Write {
    let options = in_background(DeleteOptions::uid(&object.uid));
    Write::of(resource.clone(), object.key(), Operation::Delete(options))
        .why(WHY_CONTENT)
        // If another object has the name by now, the next sync finds it.
        .ignore(ErrorKinds::NOT_FOUND | ErrorKinds::METHOD_NOT_SUPPORTED | ErrorKinds::CONFLICT)
}

/// Dependents are deleted, too, also for resources that orphan them by default.
fn in_background(options: DeleteOptions) -> DeleteOptions {
    options.propagation(Propagation::Background)
}

/// Everything that the plan may look at, once all content was deleted.
pub struct View<'a> {
    pub namespace: &'a Namespace,
    pub findings: &'a Findings,
    /// What remains of each collection.
    pub remains: &'a [(Collection, Remains)],
    pub now: Timestamp,
}

/// Reports what remains. If there was an error, the sync fails; if objects need time to terminate, the namespace is synced again
/// later; if nothing remains, it is finalized.
pub fn plan(view: &View<'_>) -> Plan {
    let View { namespace, findings, remains, now } = view;
    let conditions = findings.update(&namespace.status.conditions, *now);
    let report = conditions.map(|conditions| {
        let status = NamespaceStatus { phase: TERMINATING.into(), conditions };
        let body = flyball_api::manifest_with_status(*namespace, &status);
        let report = Write::update_after_write::<Namespace>(namespace.key(), body).subresource("status");
        // The conditions only inform. If the server refuses them, the deletion continues, and the next sync writes them. Without a
        // response etcd may have been restored, and the content may be back.
        Effect::from(report.why("what is left in it has changed").ignore(ErrorKinds::ANSWERED))
    });
    let wait = remains.iter().map(|(_, remains)| remains.wait).max().unwrap_or_default();
    let end = match findings.failure() {
        Some(failure) => Some(Effect::Fail(failure)),
        None if wait.is_zero() => Some(finalize(namespace).into()),
        None => None,
    };
    let waiting = remains.iter().filter(|(_, remains)| remains.objects > 0);
    let waiting = waiting.map(|(collection, remains)| waiting_for(namespace, &collection.resource, remains));
    let requeue = end.is_none().then(|| check_again_after(wait));
    Plan::of(report.into_iter().chain(end)).again_after(requeue).waiting_for(waiting)
}

/// Removes the finalizer `kubernetes`.
pub fn finalize(namespace: &Namespace) -> Write {
    let others: BTreeSet<_> = namespace.spec.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    let body: Value = json!({
        "apiVersion": Namespace::TYPE.api_version(),
        "kind": Namespace::TYPE.kind,
        "metadata": namespace.metadata,
        "spec": {"finalizers": others},
    });
    Write::update_after_write::<Namespace>(namespace.key(), body)
        .subresource("finalize")
        .why("it is empty")
        .ignore(ErrorKinds::NOT_FOUND)
}

/// Finalizes a namespace that has `changed` since it was read and emptied, given what it is `now`. `None` if it is another one of that
/// name, or of an earlier time: a restore of etcd causes a conflict, too, and what was deleted may be back.
pub fn finalize_again(changed: &Namespace, now: &Namespace) -> Option<Write> {
    let (changed, meta) = (&changed.metadata, &now.metadata);
    let is_successor = meta.uid == changed.uid
        && meta.deletion_timestamp == changed.deletion_timestamp
        && meta.resource_version >= changed.resource_version;
    is_successor.then(|| finalize(now))
}

/// What follows an attempt to finalize a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAttempt {
    /// The outcome of the attempt is that of the sync.
    End,
    /// Another client has changed the namespace since it was read: read it, and finalize it again.
    Again,
}

/// What follows attempt number `attempt` (from 1, which is that of [`plan`]).
///
/// # Errors
/// The namespace has changed at each attempt.
pub fn after_attempt(
    namespace: &Namespace,
    attempt: u32,
    outcome: &Outcome,
) -> Result<AfterAttempt, SyncError> {
    match outcome.failure() {
        Some(failure) if failure.is_one_of(ErrorKinds::CONFLICT) => match attempt < ATTEMPTS {
            true => Ok(AfterAttempt::Again),
            false => Err(not_finalized(namespace)),
        },
        _ => Ok(AfterAttempt::End),
    }
}

/// The error of a sync that has to be repeated from the start, since the namespace has changed.
pub fn not_finalized(namespace: &Namespace) -> SyncError {
    SyncError::other(format!("finalizing namespace {}", namespace.metadata.name), "it has changed").expected()
}

/// The delay before the next sync of a namespace whose content needs `wait` to terminate.
pub fn check_again_after(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() / 2 + 1)
}

fn waiting_for(namespace: &Namespace, resource: &ResourceType, remains: &Remains) -> Waiting {
    let Remains { objects, finalizers, .. } = remains;
    let all = Key::new(namespace.metadata.name.as_str(), "*");
    let held = match finalizers.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = finalizers.keys().map(|finalizer| finalizer.as_str()).collect();
            format!(", with finalizers {}", names.join(", "))
        }
    };
    let until = format!("to be deleted: {objects} left{held}");
    Waiting::Object { object: Subject::new(resource.kind.clone(), &all), until: until.into() }
}
