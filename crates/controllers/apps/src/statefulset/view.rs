//! The input of the decisions, borrowed from one snapshot, with the pods of a set by ordinal. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::pod::{Phase, Pod};
use flyball_api::{PersistentVolumeClaim, PodTemplate, StatefulSet, Timestamp, Uid};
use flyball_common::revisions::template_of;
use smol_str::SmolStr;

use super::history::Revisions;
use super::identity::{self, pod_name};
use super::retention::{self, Holder};

/// The existing claims of the pods of a set, by name.
pub type Claims = BTreeMap<SmolStr, Arc<PersistentVolumeClaim>>;

/// Everything that the decisions depend on.
pub struct View<'a> {
    pub set: &'a StatefulSet,
    /// Its pods, with any ordinal and in any state.
    pub pods: &'a [Arc<Pod>],
    /// The claims of these pods and of those to be created.
    pub claims: &'a Claims,
    /// The revisions that pods are updated from and to.
    pub revisions: &'a Revisions,
    /// Whether `maxUnavailable` is in force (the gate `MaxUnavailableStatefulSet`).
    pub obeys_max_unavailable: bool,
    pub now: Timestamp,
}

impl<'a> View<'a> {
    /// Whether pods are created and deleted one after the other.
    pub fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy != "Parallel"
    }

    /// Whether the update strategy is RollingUpdate.
    pub fn is_rolling(&self) -> bool {
        self.set.spec.update_strategy.type_ == "RollingUpdate"
    }

    /// `spec.replicas`.
    pub fn wanted(&self) -> i32 {
        self.set.spec.replicas.unwrap_or(1).max(0)
    }

    /// The ordinals that the set should have.
    pub fn ordinals(&self) -> Range<i32> {
        ordinals(self.set)
    }

    /// The first ordinal that is updated; those below keep the current revision.
    pub fn first_updated(&self) -> i32 {
        let rolling = self.set.spec.update_strategy.rolling_update.as_ref();
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        start(self.set).saturating_add(partition)
    }

    /// The revision for a new pod with this ordinal.
    pub fn revision_for(&self, ordinal: i32) -> &'a str {
        let is_old = match &self.set.spec.update_strategy.rolling_update {
            Some(_) => ordinal < self.first_updated(),
            None => {
                let olds = start(self.set).saturating_add(self.set.status.current_replicas);
                self.is_rolling() && ordinal < olds
            }
        };
        if is_old { self.current() } else { self.update() }
    }

    /// The name of the revision that pods are updated from.
    pub fn current(&self) -> &'a str {
        &self.revisions.current.metadata.name
    }

    /// The name of the revision that pods are updated to.
    pub fn update(&self) -> &'a str {
        &self.revisions.update.metadata.name
    }

    /// The template of a revision; the template of the set if the revision is invalid.
    pub fn template(&self, revision: &str) -> PodTemplate {
        let Revisions { current, update, .. } = self.revisions;
        let of = [update, current].into_iter().find(|known| known.metadata.name == revision);
        of.and_then(|known| template_of(known)).unwrap_or_else(|| self.set.spec.template.clone())
    }

    /// How many pods may be unavailable during an update.
    ///
    /// # Errors
    /// `maxUnavailable` is neither a number nor a percentage.
    pub fn max_unavailable(&self) -> Result<i64, InvalidPercentage> {
        let rolling = self.set.spec.update_strategy.rolling_update.as_ref();
        match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            Some(most) if self.obeys_max_unavailable => {
                Ok(most.resolve(self.wanted().into(), Rounding::Down)?.max(1))
            }
            _ => Ok(1),
        }
    }

    /// Whether a pod has been ready for long enough.
    pub fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Whether a pod is unavailable or terminating.
    pub fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.metadata.is_deleting()
    }

    /// The pod with this ordinal as the owner of its claims.
    pub fn holder(&self, ordinal: i32, pod: Option<&Pod>) -> Holder {
        Holder {
            name: pod.map_or_else(|| pod_name(self.set, ordinal), |pod| pod.metadata.name.clone()),
            uid: pod.map_or_else(Uid::default, |pod| pod.metadata.uid.clone()),
            wanted: self.ordinals().contains(&ordinal),
        }
    }

    /// Whether the claims of a pod have the owners that the retention policy requires.
    pub fn has_right_owners(&self, ordinal: i32, pod: &Pod) -> bool {
        let holder = self.holder(ordinal, Some(pod));
        let claims = identity::claim_names(self.set, ordinal).filter_map(|name| self.claims.get(&name));
        claims.into_iter().all(|claim| retention::ownership(claim, self.set, &holder).correction.is_none())
    }

    /// A claim of an earlier pod that has to be deleted before a new pod can be created.
    pub fn left_over(&self, ordinal: i32) -> Option<&'a PersistentVolumeClaim> {
        let (holder, existing) = (self.holder(ordinal, None), self.claims);
        let mut claims = identity::claim_names(self.set, ordinal).filter_map(|name| existing.get(&name));
        claims.find(|claim| retention::is_left_over(claim, self.set, &holder)).map(|claim| &**claim)
    }
}

/// The first ordinal of a set.
pub fn start(set: &StatefulSet) -> i32 {
    set.spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start.max(0))
}

/// Whether a pod is running and ready.
pub fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == Phase::Running && pod.is_ready()
}

/// The ordinals whose claims a plan may need: those of all pods, and of the first `most` missing pods.
pub fn ordinals_in_play(set: &StatefulSet, pods: &[Arc<Pod>], most: usize) -> BTreeSet<i32> {
    let present: BTreeSet<i32> = pods.iter().filter_map(|pod| identity::ordinal(pod)).collect();
    let missing = ordinals(set).filter(|ordinal| !present.contains(ordinal)).take(most);
    let missing: Vec<i32> = missing.collect();
    present.into_iter().chain(missing).collect()
}

/// The ordinals that a set should have.
fn ordinals(set: &StatefulSet) -> Range<i32> {
    let start = start(set);
    start..start.saturating_add(set.spec.replicas.unwrap_or(1).max(0))
}

/// The pods of a set by ordinal. Pods without a valid ordinal are ignored.
pub struct Roster<'a> {
    /// Pods with an ordinal that the set should have.
    pub replicas: BTreeMap<i32, &'a Pod>,
    /// Pods with another ordinal.
    pub condemned: BTreeMap<i32, &'a Pod>,
}

impl<'a> Roster<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let mut roster = Self { replicas: BTreeMap::new(), condemned: BTreeMap::new() };
        for pod in view.pods {
            let Some(ordinal) = identity::ordinal(pod) else { continue };
            let wanted = view.ordinals().contains(&ordinal);
            let row = if wanted { &mut roster.replicas } else { &mut roster.condemned };
            // `db-0` and `db-00` have the same ordinal; the canonical name comes first.
            let is_canonical = pod.metadata.name == pod_name(view.set, ordinal);
            if is_canonical || !row.contains_key(&ordinal) {
                row.insert(ordinal, pod);
            }
        }
        roster
    }
}
