//! The revisions of a set: which one its template is, and which ones are kept. Decisions here are pure; the
//! writes go through [`flyball_common::revisions`].

use std::sync::Arc;

use flyball_api::{ControllerRevision, Labels, ObjectMeta, RawJson, StatefulSet};
use flyball_common::claim::controller_reference;
use flyball_common::revisions::{self, Created, Place};
use flyball_runtime::{Context, SyncError};

use super::identity;
use super::sameness::is_same;
use super::view::View;

/// The label that holds a revision's hash.
const HASH: &str = "controller.kubernetes.io/hash";
/// More revisions than this under names that ours would have is no accident.
const MOST_COLLISIONS: i32 = 100;

/// More collisions than this go unnoted only by design.
const MOST_UNNOTED: i32 = 3;

/// The two revisions that the pods of a set are of, once all is in order.
pub(super) struct Revisions {
    /// Where pods come from.
    pub(super) current: Arc<ControllerRevision>,
    /// Where pods go to.
    pub(super) update: Arc<ControllerRevision>,
    /// How often the name of a revision was taken.
    pub(super) collisions: i32,
}

/// The revision that holds `data`, the set's template, after `collisions`.
pub fn revision(set: &StatefulSet, data: RawJson, number: i64, collisions: i32) -> ControllerRevision {
    let hash = revisions::hash_of(&data, collisions);
    ControllerRevision {
        metadata: ObjectMeta {
            name: revisions::name(&set.metadata.name, &hash).as_str().into(),
            namespace: set.metadata.namespace.clone(),
            labels: set.spec.template.metadata.labels.with(HASH, &hash),
            annotations: Labels::clone(&set.metadata.annotations),
            owner_references: Box::new([controller_reference(set)]),
            ..ObjectMeta::default()
        },
        data,
        revision: number,
    }
}

/// The same revision under the name that it gets after `collisions`. The label keeps the hash that was first thought of.
pub fn renamed(set: &StatefulSet, revision: ControllerRevision, collisions: i32) -> ControllerRevision {
    let hash = revisions::hash_of(&revision.data, collisions);
    let name = revisions::name(&set.metadata.name, &hash).as_str().into();
    ControllerRevision { metadata: ObjectMeta { name, ..revision.metadata }, ..revision }
}

/// How often names were taken when a revision of `data` got its own: what the set has noted, or some more if that tells so.
/// Whoever made it did not come to note them then, and the next revision would meet them again.
pub fn collisions_of(set: &StatefulSet, name: &str, data: &RawJson, noted: i32) -> i32 {
    let explains =
        |count: &i32| revisions::name(&set.metadata.name, &revisions::hash_of(data, *count)) == name;
    (noted..=noted.saturating_add(MOST_UNNOTED)).find(explains).unwrap_or(noted)
}

/// Finds the revision of the set's template in its sorted history, or makes it: by a new number for an old one,
/// or as a new one. `by_meaning` spares a template whose latest revision only looks different.
pub(super) async fn of_template(
    cx: &Context,
    set: &StatefulSet,
    history: &[Arc<ControllerRevision>],
    by_meaning: bool,
) -> Result<Revisions, SyncError> {
    let (key, number) = (set.metadata.key(), revisions::next_number(history));
    let data = revisions::data_of(set.spec.template.raw());
    let mut collisions = set.status.collision_count.unwrap_or(0);
    let update = match revisions::place(history, &data) {
        Place::Latest(revision) => {
            collisions = collisions_of(set, &revision.metadata.name, &data, collisions);
            revision.clone()
        }
        Place::Earlier(revision) => {
            let renumbered = ControllerRevision { revision: number, ..(**revision).clone() };
            let why = "the template is again what it was in this revision";
            Arc::new(revisions::update(cx, &key, &renumbered, why).await?)
        }
        Place::Nowhere => match history.last().filter(|latest| by_meaning && means(latest, &data)) {
            Some(latest) => latest.clone(),
            None => create(cx, set, &data, number, &mut collisions).await?,
        },
    };
    let is_current =
        |revision: &&Arc<ControllerRevision>| revision.metadata.name == set.status.current_revision;
    let current = history.iter().find(is_current).unwrap_or(&update).clone();
    Ok(Revisions { current, update, collisions })
}

/// Makes a new revision, under another name as long as other revisions have the one that the hash gives.
async fn create(
    cx: &Context,
    set: &StatefulSet,
    data: &RawJson,
    number: i64,
    collisions: &mut i32,
) -> Result<Arc<ControllerRevision>, SyncError> {
    let key = set.metadata.key();
    let mut new = revision(set, data.clone(), number, *collisions);
    loop {
        match revisions::create(cx, &key, &new, "the template is new").await? {
            Created::There(revision) => return Ok(Arc::from(revision)),
            Created::NameTaken if *collisions < MOST_COLLISIONS => {
                *collisions += 1;
                new = renamed(set, new, *collisions);
            }
            Created::NameTaken => {
                let doing = format!("naming the revision of {key}");
                return Err(SyncError::other(doing, "too many names are taken by other revisions"));
            }
        }
    }
}

/// Whether a revision stands for the same template as `data`, although the bytes differ.
fn means(revision: &ControllerRevision, data: &RawJson) -> bool {
    is_same(&revision.data.to_value(), &data.to_value())
}

/// The revisions that nothing runs any more and that exceed the limit, from the oldest.
pub fn obsolete<'a>(
    view: &View<'_>,
    history: &'a [Arc<ControllerRevision>],
) -> Vec<&'a Arc<ControllerRevision>> {
    let limit = view.set.spec.revision_history_limit.unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return vec![] };
    let is_live = |name: &str| {
        name == view.current
            || name == view.update
            || view.pods.iter().any(|pod| identity::revision(pod) == name)
    };
    let idle: Vec<_> = history.iter().filter(|revision| !is_live(&revision.metadata.name)).collect();
    let surplus = idle.len().saturating_sub(limit);
    idle.into_iter().take(surplus).collect()
}
