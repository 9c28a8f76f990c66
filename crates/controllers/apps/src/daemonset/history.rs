//! The revisions of a set: which one its template is, and which ones are kept. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, DaemonSet, ObjectMeta, RawJson};
use flyball_client::Patch;
use flyball_common::adoption::controller_reference;
use flyball_common::revisions;
use flyball_runtime::{Effect, Outcome, Plan, Write};
use serde_json::json;

use super::manifests::HASH;

/// The longest name that the server accepts.
const LONGEST_NAME: usize = 253;

/// The revision that holds `data`, the set's template.
pub fn revision(set: &DaemonSet, data: RawJson, number: i64) -> ControllerRevision {
    let hash = set.spec.template.hash(set.status.collision_count);
    ControllerRevision {
        metadata: ObjectMeta {
            name: name(&set.metadata.name, &hash).as_str().into(),
            namespace: set.metadata.namespace.clone(),
            labels: set.spec.template.metadata.labels.with(HASH, &hash),
            annotations: set.metadata.annotations.clone(),
            owner_references: [controller_reference(set)].into(),
            ..ObjectMeta::default()
        },
        data,
        revision: number,
    }
}

/// Upstream never cuts the name of the set, so that one with a long name has no revision and no pods; here it is cut if the
/// server would not take it.
fn name(set: &str, hash: &str) -> String {
    match format!("{set}-{hash}") {
        name if name.len() <= LONGEST_NAME => name,
        _ => revisions::name(set, hash),
    }
}

/// A revision from before the label for the hash existed, with its name as that label; `None` if it has the label.
pub fn labelled(revision: &ControllerRevision) -> Option<ControllerRevision> {
    let mut labelled = (!revision.metadata.labels.contains_key(HASH)).then(|| revision.clone())?;
    labelled.metadata.labels = labelled.metadata.labels.with(HASH, &revision.metadata.name);
    Some(labelled)
}

/// The writes that label all such revisions, each tagged with its position in the history.
pub fn label(history: &[Arc<ControllerRevision>]) -> Vec<Write<usize>> {
    let labelled = history.iter().enumerate().filter_map(|(at, revision)| Some((at, labelled(revision)?)));
    labelled
        .map(|(at, labelled)| Write::replace(&labelled).why("its hash label is missing").tag(at))
        .collect()
}

/// The history after these writes: later ones need the new versions.
pub fn after_label(history: &mut [Arc<ControllerRevision>], outcome: &Outcome<usize>) {
    for done in &outcome.done {
        let Some(labelled) = history.get(done.tag).and_then(|revision| labelled(revision)) else { continue };
        history[done.tag] = Arc::new(revisions::as_written(labelled, &done.answer));
    }
}

/// The revision of the set's template among those of its history.
#[derive(Debug)]
pub struct Template {
    pub revision: Arc<ControllerRevision>,
    /// Whether it has to be created.
    pub is_new: bool,
    /// The revisions of other templates, from the oldest.
    pub old: Vec<Arc<ControllerRevision>>,
    /// The writes that make it the only revision of the template, and the latest.
    pub effects: Vec<Effect>,
}

/// Finds the revision of the template in the sorted history. Of several equal ones the latest is kept, and pods of the
/// others get its label.
pub fn of_template(set: &DaemonSet, history: Vec<Arc<ControllerRevision>>, pods: &[Arc<Pod>]) -> Template {
    let data = revisions::data_of(set.spec.template.raw());
    let (mut same, old): (Vec<_>, Vec<_>) = history.into_iter().partition(|revision| revision.data == data);
    let number = revisions::next_number(&old);
    let Some(latest) = same.pop() else {
        let revision = Arc::new(revision(set, data, number));
        return Template { revision, is_new: true, old, effects: vec![] };
    };
    let mut effects = if same.is_empty() { vec![] } else { merge(&latest, &same, pods) };
    if latest.revision < number {
        let renumbered = ControllerRevision { revision: number, ..(*latest).clone() };
        let why = "the template is equal to this earlier revision";
        effects.push(Write::replace(&renumbered).why(why).into());
    }
    Template { revision: latest, is_new: false, old, effects }
}

/// Labels the pods of equal revisions with the one that is kept, and deletes the others.
fn merge(kept: &ControllerRevision, others: &[Arc<ControllerRevision>], pods: &[Arc<Pod>]) -> Vec<Effect> {
    let hash = kept.metadata.labels.get(HASH).unwrap_or_default();
    let patch = || Patch::Merge(json!({"metadata": {"labels": {HASH: hash}}}));
    let relabel = |pod: &Arc<Pod>| {
        Write::patch::<Pod>(pod.metadata.key(), patch()).why("several revisions have the same template")
    };
    let delete =
        |other: &Arc<ControllerRevision>| Write::delete(&**other).why("it is equal to a later revision");
    let outdated = pods.iter().filter(|pod| pod.metadata.labels.get(HASH) != Some(hash));
    outdated.map(relabel).chain(others.iter().map(delete)).map(Effect::from).collect()
}

/// What follows when another revision has the name of the new one: the collision is counted, so that the next sync uses another name.
pub fn collision(set: &DaemonSet) -> Plan {
    let mut status = set.status.clone();
    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    let count = Write::status(set, &status).why("another revision has the name of this hash");
    let next = "the name of the new revision is taken; another is tried".to_owned();
    Plan::of([Effect::from(count), Effect::Fail(next)])
}

/// The old revisions beyond the limit that no pod has, from the oldest.
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
