//! The revisions of a set: which one its template is, and which ones are kept.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, DaemonSet, Key, ObjectMeta, RawJson, manifest_with_status};
use flyball_client::Patch;
use flyball_common::claim::controller_reference;
use flyball_common::revisions::{self, Created};
use flyball_runtime::{Context, SyncError};
use serde_json::json;

use super::manifests::HASH;

/// The revision that holds `data`, the set's template.
pub fn revision(set: &DaemonSet, data: RawJson, number: i64) -> ControllerRevision {
    let hash = revisions::hash_of(&data, set.status.collision_count.unwrap_or(0));
    ControllerRevision {
        metadata: ObjectMeta {
            name: revisions::name(&set.metadata.name, &hash).as_str().into(),
            namespace: set.metadata.namespace.clone(),
            labels: set.spec.template.metadata.labels.with(HASH, &hash),
            annotations: set.metadata.annotations.clone(),
            owner_references: Box::new([controller_reference(set)]),
            ..ObjectMeta::default()
        },
        data,
        revision: number,
    }
}

/// Finds the revision of the set's template, or makes it, and returns it with all others. Of several equal ones the
/// latest stays, and pods of the others are counted to it.
pub(super) async fn of_template(
    cx: &Context,
    set: &DaemonSet,
    history: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
) -> Result<(Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>), SyncError> {
    let key = set.metadata.key();
    let history = with_hashes(cx, &key, history).await?;
    let data = revisions::data_of(set.spec.template.raw());
    let (mut same, old): (Vec<_>, Vec<_>) = history.into_iter().partition(|revision| revision.data == data);
    let number = revisions::next_number(&old);
    let Some(current) = same.pop() else {
        return Ok((create(cx, set, &key, &revision(set, data, number)).await?, old));
    };
    if !same.is_empty() {
        merge(cx, &key, &current, &same, pods).await?;
    }
    if current.revision < number {
        let renumbered = ControllerRevision { revision: number, ..(*current).clone() };
        let why = "the template is again what it was in this revision";
        revisions::update(cx, &key, &renumbered, why).await?;
    }
    Ok((current, old))
}

/// Revisions from before there was a label for the hash get their name as one.
async fn with_hashes(
    cx: &Context,
    key: &Key,
    mut history: Vec<Arc<ControllerRevision>>,
) -> Result<Vec<Arc<ControllerRevision>>, SyncError> {
    revisions::sort(&mut history);
    for revision in &mut history {
        if !revision.metadata.labels.contains_key(HASH) {
            let mut labelled = ControllerRevision::clone(revision);
            labelled.metadata.labels = labelled.metadata.labels.with(HASH, &revision.metadata.name);
            let why = "its label for the hash is missing";
            *revision = Arc::new(revisions::update(cx, key, &labelled, why).await?);
        }
    }
    Ok(history)
}

async fn create(
    cx: &Context,
    set: &DaemonSet,
    key: &Key,
    revision: &ControllerRevision,
) -> Result<Arc<ControllerRevision>, SyncError> {
    match revisions::create(cx, key, revision, "the template is new").await? {
        Created::There(revision) => Ok(Arc::from(revision)),
        Created::NameTaken => {
            let mut status = set.status.clone();
            status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
            let body = manifest_with_status(set, &status);
            let why = "another revision has the name that the hash gives";
            let doing = format!("counting a collision of revisions of {key}");
            let written = cx.writer(key).update::<DaemonSet>(key, Some("status"), &body, why).await;
            written.map_err(SyncError::api(doing.clone()))?;
            Err(SyncError::other(doing, "the name of the new revision is taken; another is tried"))
        }
    }
}

/// Counts the pods of equal revisions to the one that stays, and deletes the others.
async fn merge(
    cx: &Context,
    key: &Key,
    kept: &ControllerRevision,
    others: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
) -> Result<(), SyncError> {
    let hash = kept.metadata.labels.get(HASH).unwrap_or_default();
    for pod in pods.iter().filter(|pod| pod.metadata.labels.get(HASH) != Some(hash)) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {HASH: hash}}}));
        let why = "two revisions of the same template become one";
        let doing = format!("relabelling the pod {}", pod.metadata.key());
        let patched = cx.writer(key).patch::<Pod>(&pod.metadata.key(), None, patch, why).await;
        patched.map_err(SyncError::api(doing))?;
    }
    for revision in others {
        revisions::delete(cx, key, revision, "it is equal to a later one").await?;
    }
    Ok(())
}

/// The old revisions that exceed the limit and that no pod is of, from the oldest.
pub fn obsolete<'a>(
    set: &DaemonSet,
    old: &'a [Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
) -> Vec<&'a Arc<ControllerRevision>> {
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let is_live = |revision: &ControllerRevision| {
        let hash = revision.metadata.labels.get(HASH).filter(|hash| !hash.is_empty());
        hash.is_some() && pods.iter().any(|pod| pod.metadata.labels.get(HASH) == hash)
    };
    let surplus = old.len().saturating_sub(limit);
    old.iter().filter(|revision| !is_live(revision)).take(surplus).collect()
}
