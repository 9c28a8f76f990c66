//! The revisions of a set: which one its template is, and which ones are kept. Pure.

use std::sync::Arc;

use flyball_api::{ControllerRevision, Labels, ObjectMeta, RawJson, StatefulSet};
use flyball_common::adoption::controller_reference;
use flyball_common::revisions::{self, Place};
use flyball_runtime::Write;

use super::identity;
use super::sameness::is_same;
use super::view::View;

/// The label that holds a revision's hash.
const HASH: &str = "controller.kubernetes.io/hash";
/// The limit on name collisions in a row: more cannot be by chance.
const MOST_COLLISIONS: i32 = 100;

/// How many collisions beyond the count of the status are tried when the name of a revision is recognized.
const MOST_UNNOTED: i32 = 3;

/// The revisions of the pods of a set.
#[derive(Debug)]
pub struct Revisions {
    /// The revision that pods are updated from.
    pub current: Arc<ControllerRevision>,
    /// The revision that pods are updated to.
    pub update: Arc<ControllerRevision>,
    pub collisions: i32,
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
            owner_references: [controller_reference(set)].into(),
            ..ObjectMeta::default()
        },
        data,
        revision: number,
    }
}

/// The same revision under its name after `collisions`. The label keeps the first hash.
pub fn renamed(set: &StatefulSet, revision: ControllerRevision, collisions: i32) -> ControllerRevision {
    let hash = revisions::hash_of(&revision.data, collisions);
    let name = revisions::name(&set.metadata.name, &hash).as_str().into();
    ControllerRevision { metadata: ObjectMeta { name, ..revision.metadata }, ..revision }
}

/// What is tried after the name of a revision was found taken: the same revision under its name after one more collision.
///
/// # Errors
/// There were too many, for people.
pub fn after_collision(
    set: &StatefulSet,
    revision: ControllerRevision,
    collisions: i32,
) -> Result<(ControllerRevision, i32), &'static str> {
    if collisions >= MOST_COLLISIONS {
        return Err("too many names are taken by other revisions");
    }
    Ok((renamed(set, revision, collisions + 1), collisions + 1))
}

/// The write that makes an earlier revision the latest.
pub fn renumber(revision: &ControllerRevision) -> Write {
    Write::replace(revision).why("the template is equal to this earlier revision")
}

/// The collision count with which a revision of `data` got its name: the `recorded` count of the status, or a higher one
/// that matches the name. The status may not have been written since then, and the next revision would have the same
/// collisions again.
pub fn collisions_of(set: &StatefulSet, name: &str, data: &RawJson, recorded: i32) -> i32 {
    let explains =
        |count: &i32| revisions::name(&set.metadata.name, &revisions::hash_of(data, *count)) == name;
    (recorded..=recorded.saturating_add(MOST_UNNOTED)).find(explains).unwrap_or(recorded)
}

/// The revision of a set's template, and what is needed to store it.
#[derive(Debug, PartialEq)]
pub enum Template<'a> {
    /// It is in the history.
    Known(&'a Arc<ControllerRevision>),
    /// It is an earlier revision, and gets the next number.
    Renumbered(ControllerRevision),
    New(ControllerRevision),
}

/// Finds the revision of the template in the sorted history, and the collision count. With `by_meaning` the latest revision
/// is also found if it is only semantically equal.
pub fn of_template<'a>(
    set: &StatefulSet,
    history: &'a [Arc<ControllerRevision>],
    by_meaning: bool,
) -> (Template<'a>, i32) {
    let (data, number) = (revisions::data_of(set.spec.template.raw()), revisions::next_number(history));
    let collisions = set.status.collision_count.unwrap_or(0);
    match revisions::place(history, &data) {
        Place::Latest(latest) => {
            (Template::Known(latest), collisions_of(set, &latest.metadata.name, &data, collisions))
        }
        Place::Earlier(earlier) => {
            let renumbered = ControllerRevision { revision: number, ..(**earlier).clone() };
            (Template::Renumbered(renumbered), collisions)
        }
        Place::Nowhere => match history.last().filter(|latest| by_meaning && means(latest, &data)) {
            Some(latest) => (Template::Known(latest), collisions),
            None => (Template::New(revision(set, data, number, collisions)), collisions),
        },
    }
}

/// The current revision: the one that the status names, if it exists.
pub fn current<'a>(
    set: &StatefulSet,
    history: &'a [Arc<ControllerRevision>],
) -> Option<&'a Arc<ControllerRevision>> {
    history.iter().find(|revision| revision.metadata.name == set.status.current_revision)
}

/// Whether a revision has the same template as `data`, although the bytes differ.
fn means(revision: &ControllerRevision, data: &RawJson) -> bool {
    is_same(&revision.data.to_value(), &data.to_value())
}

/// The revisions beyond the limit that no pod has, from the oldest.
pub fn obsolete<'a>(
    view: &View<'_>,
    history: &'a [Arc<ControllerRevision>],
) -> Vec<&'a Arc<ControllerRevision>> {
    let limit = view.set.spec.revision_history_limit.unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return vec![] };
    let is_live = |name: &str| {
        name == view.current()
            || name == view.update()
            || view.pods.iter().any(|pod| identity::revision(pod) == name)
    };
    let idle: Vec<_> = history.iter().filter(|revision| !is_live(&revision.metadata.name)).collect();
    let surplus = idle.len().saturating_sub(limit);
    idle.into_iter().take(surplus).collect()
}
