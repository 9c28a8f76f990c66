//! Reclaims a released volume: it is retained, deleted or recycled. Pure.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, Uid};
use flyball_client::Verb;
use flyball_runtime::{Effect, ErrorKinds, Event, Outcome, Plan, Waiting, Write};
use serde_json::Value;

use super::plugins::{self, Deleter};
use super::volume::{Need, Policy, Step, View, may_reclaim, policy, step};
use super::writes::{self, Tag};
use crate::finalizer::Kept;
use crate::migration;
use crate::names::{IN_TREE_FINALIZER, MIGRATED_TO};

const FAILED_DELETE: &str = "VolumeFailedDelete";
const FAILED_RECYCLE: &str = "VolumeFailedRecycle";

/// A volume that is to be reclaimed, as the server has it, and what is known about it.
pub(crate) struct Live {
    /// `None` if it is gone.
    pub(crate) volume: Option<PersistentVolume>,
    /// The claim of the name that it refers to.
    pub(crate) claim: Option<Arc<PersistentVolumeClaim>>,
    /// The pods that use a claim of that name.
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) recycler: Option<RecyclerPod>,
}

/// The pod that recycles a volume.
pub(crate) struct RecyclerPod {
    /// The pod to create.
    pub(crate) manifest: Value,
    pub(crate) key: Key,
    /// The pod of that name in the cache.
    pub(crate) found: Option<Arc<Pod>>,
    /// The pod that this process has created for the volume. No other is trusted.
    pub(crate) created: Option<Uid>,
    /// Whether an earlier sync saw that pod succeed, since the volume was released.
    pub(crate) is_emptied: bool,
}

/// The state of a recycler pod.
enum Progress<'a> {
    Absent,
    Running,
    /// The volume is empty. `None` for a pod that is deleted already.
    Succeeded(Option<&'a Arc<Pod>>),
    /// It has failed, was deleted, or was not created by this process.
    Failed {
        pod: Option<&'a Arc<Pod>>,
        why: String,
    },
}

/// What is needed next to reclaim a volume.
pub(super) fn need(view: &View) -> Option<Need> {
    let deleter = match policy(&view.volume) {
        _ if is_migrated(&view.volume) => return None,
        Policy::Recycle => None,
        Policy::Delete => Some(plugins::deleter(&view.volume)),
        Policy::Retain | Policy::Unknown => return None,
    };
    match (deleter, &view.live, &view.removed) {
        (Some(Err(_) | Ok(Deleter::External)), ..) => None,
        (None | Some(Ok(Deleter::HostPath(_))), ..) if view.is_backing_off => None,
        (_, None, _) => Some(Need::Volume),
        (Some(Ok(Deleter::HostPath(path))), Some(live), None) => {
            reclaimable(live).map(|_| Need::Removal(path))
        }
        _ => None,
    }
}

/// Does what the policy of a released volume says.
pub(super) fn plan(view: &View) -> Plan<Tag> {
    if is_migrated(&view.volume) {
        return Plan::default().waiting_for([external(view)]);
    }
    match policy(&view.volume) {
        Policy::Retain => Plan::default(),
        Policy::Delete => delete(view),
        Policy::Recycle => recycle(view),
        Policy::Unknown => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            Plan::of(writes::fail(&view.volume, "VolumeUnknownReclaimPolicy", message))
        }
    }
}

fn is_migrated(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty())
}

fn external(view: &View) -> Waiting {
    Waiting::on::<PersistentVolume>(&view.volume.key(), "to be reclaimed by its external provisioner")
}

/// The volume as the server has it, if it may be reclaimed.
fn reclaimable(live: &Live) -> Option<&PersistentVolume> {
    live.volume.as_ref().filter(|volume| may_reclaim(volume, live.claim.as_deref()))
}

/// The plugin whose deletion of a volume is measured. For external ones the class has the name: drivers annotate their
/// volumes with arbitrary names.
pub(super) fn deletion_plugin(view: &View) -> Option<&str> {
    let is_deleted = step(view) == Step::Reclaim && !is_migrated(&view.volume);
    if !is_deleted || policy(&view.volume) != Policy::Delete {
        return None;
    }
    Some(match plugins::deleter(&view.volume) {
        Err(_) => plugins::UNKNOWN,
        Ok(Deleter::HostPath(_)) => plugins::HOST_PATH,
        Ok(Deleter::External) => view.class.as_deref().map_or(plugins::UNKNOWN, |class| {
            migration::driver_of(&class.provisioner).unwrap_or(&class.provisioner)
        }),
    })
}

/// Deletes a volume whose storage is removed. External provisioners delete their volumes themselves.
fn delete(view: &View) -> Plan<Tag> {
    match plugins::deleter(&view.volume) {
        Err(why) => return Plan::of(writes::fail(&view.volume, FAILED_DELETE, &why)),
        Ok(Deleter::External) => return Plan::default().waiting_for([external(view)]),
        Ok(Deleter::HostPath(_)) => {}
    }
    match (view.live.as_ref().and_then(reclaimable), &view.removed) {
        (Some(live), Some(Err(why))) => Plan::of(writes::fail(live, FAILED_DELETE, why)),
        (Some(live), Some(Ok(()))) => {
            Plan::of(without_finalizer(live).into_iter().chain(deletion(view, live)))
        }
        _ => Plan::default(),
    }
}

fn without_finalizer(live: &PersistentVolume) -> Option<Write<Tag>> {
    if !live.metadata.has_finalizer(IN_TREE_FINALIZER) {
        return None;
    }
    let mut open = live.clone();
    let others = live.metadata.finalizers.iter().filter(|finalizer| *finalizer != IN_TREE_FINALIZER);
    open.metadata.finalizers = others.cloned().collect();
    Some(writes::volume(open, "its storage was deleted"))
}

/// Upstream requests the deletion at every sync. For a volume that is being deleted and that only finalizers of others
/// keep, once is enough.
fn deletion(view: &View, live: &PersistentVolume) -> Option<Write<Tag>> {
    let own = [IN_TREE_FINALIZER, PersistentVolume::FINALIZER];
    let has_own = own.iter().any(|finalizer| live.metadata.has_finalizer(finalizer));
    if live.is_deleting() && (view.is_deletion_requested || !has_own) {
        return None;
    }
    let delete = Write::delete(live).ignore_only(ErrorKinds::NOT_FOUND);
    Some(delete.why("its storage was deleted").tag(Tag::Other))
}

/// Empties a volume with a pod, and makes it available again.
fn recycle(view: &View) -> Plan<Tag> {
    let Some((live, volume)) = view.live.as_ref().and_then(|live| Some((live, reclaimable(live)?))) else {
        return Plan::default();
    };
    let users = users(live);
    if !users.is_empty() {
        let message = format!("Volume is used by pods: {}", users.join(","));
        let until = "to be used by no pod";
        let waiting = Waiting::on::<PersistentVolume>(&volume.key(), until);
        return Plan::of([Event::normal(FAILED_RECYCLE, message)]).waiting_for([waiting]);
    }
    let Some(recycler) = &live.recycler else {
        return Plan::of(writes::fail(volume, FAILED_RECYCLE, "No recycler plugin found for the volume!"));
    };
    match progress(recycler) {
        Progress::Running => Plan::default().waiting_for([Waiting::on::<Pod>(&recycler.key, "to finish")]),
        Progress::Absent => {
            let create = Write::create::<Pod>(recycler.key.clone(), recycler.manifest.clone())
                .why("a released volume is to be emptied")
                // Only a pod that the cache does not show yet can have the name; it brings the volume back.
                .ignore(ErrorKinds::ALREADY_EXISTS);
            Plan::of([create.tag(Tag::Pod)])
        }
        Progress::Failed { pod, why } => {
            // The failure is written before the pod, its only trace, is deleted.
            let fail = writes::fail(volume, FAILED_RECYCLE, &format!("Recycle failed: {why}"));
            Plan::of(fail.into_iter().chain(pod.and_then(|pod| dismiss(pod))))
        }
        Progress::Succeeded(pod) => match writes::free(volume) {
            Ok(free) => {
                let recycled = pod.map(|_| Event::normal("VolumeRecycled", "Volume recycled"));
                let dismiss = pod.and_then(|pod| dismiss(pod)).map(Effect::from).into_iter();
                let effects = dismiss.chain(recycled.map(Effect::from));
                Plan::of(effects.chain(free.into_iter().map(Effect::from)))
            }
            failed => writes::planned(failed),
        },
    }
}

/// The pods that still use a volume. If its claim exists, that is a new one of the name, with another volume.
fn users(live: &Live) -> Vec<String> {
    let pods = live.pods.iter().filter(|pod| live.claim.is_none() && !pod.has_stopped());
    let mut names: Vec<_> = pods.map(|pod| pod.key().to_string()).collect();
    names.sort_unstable();
    names
}

fn progress(recycler: &RecyclerPod) -> Progress<'_> {
    const FAILED: &str = "failed to recycle volume";
    match (&recycler.found, &recycler.created) {
        (Some(pod), Some(created)) if pod.uid() == created && pod.status.phase == Phase::Succeeded => {
            Progress::Succeeded(Some(pod))
        }
        // Upstream empties a volume again if freeing it failed.
        _ if recycler.is_emptied => Progress::Succeeded(None),
        (None, None) => Progress::Absent,
        (None, Some(_)) => Progress::Failed { pod: None, why: format!("{FAILED}: recycler pod was deleted") },
        (Some(pod), Some(created)) if pod.uid() == created => match pod.status.phase {
            Phase::Failed => {
                let message = pod.status.rare().message.as_str();
                let unknown = "pod failed, pod.Status.Message unknown";
                let why = if message.is_empty() { unknown } else { message };
                Progress::Failed { why: format!("{FAILED}: {why}"), pod: Some(pod) }
            }
            _ => Progress::Running,
        },
        (Some(pod), _) => {
            Progress::Failed { pod: Some(pod), why: "old recycler pod found, will retry later".into() }
        }
    }
}

/// The deletion of a recycler pod, unless it is being deleted.
fn dismiss(pod: &Pod) -> Option<Write<Tag>> {
    let delete =
        || Write::delete(pod).ignore_only(ErrorKinds::NOT_FOUND).why("it has ended, or is not trusted");
    (!pod.is_deleting()).then(|| delete().tag(Tag::Other))
}

/// Whether the recycler pod of a volume has ended, and is to be forgotten once the plan is carried out.
pub(super) fn is_recycled(view: &View) -> bool {
    recycling(view)
        .is_some_and(|(_, progress)| matches!(progress, Progress::Succeeded(_) | Progress::Failed { .. }))
}

/// The volume, if its recycler pod has succeeded. That is to be remembered before the plan is carried out, as the pod is
/// deleted before the volume becomes available.
pub(super) fn emptied(view: &View) -> Option<&PersistentVolume> {
    let (volume, progress) = recycling(view)?;
    matches!(progress, Progress::Succeeded(_)).then_some(volume)
}

/// A volume that is being recycled, and the state of its recycler pod.
fn recycling(view: &View) -> Option<(&PersistentVolume, Progress<'_>)> {
    let live = view.live.as_ref().filter(|live| users(live).is_empty())?;
    Some((reclaimable(live)?, progress(live.recycler.as_ref()?)))
}

/// What follows when the recycler pod could not be created, or the finalizer of a volume whose storage is removed could not be removed;
/// `None` if neither failed.
pub(super) fn after_failure(view: &View, outcome: &Outcome<Tag>) -> Option<Vec<Write<Tag>>> {
    let volume = view.live.as_ref()?.volume.as_ref()?;
    if let Some(why) = stuck_finalizer(view, outcome) {
        let why = format!("persistent volume controller can't update finalizer: {why}");
        return Some(writes::fail(volume, FAILED_DELETE, &why).into_iter().collect());
    }
    let failure = outcome.failures.iter().find(|failure| matches!(failure.tag, Some(Tag::Pod)))?;
    let why = format!("Recycle failed: unexpected error creating recycler pod:  {}", failure.message);
    Some(writes::fail(volume, FAILED_RECYCLE, &why).into_iter().collect())
}

/// Why the finalizer of a volume whose storage is removed could not be removed. A lost race is only tried again.
pub(super) fn stuck_finalizer<'a>(view: &View, outcome: &'a Outcome<Tag>) -> Option<&'a str> {
    let failure = outcome.failure().filter(|failure| failure.verb == Some(Verb::Update))?;
    let is_stuck =
        view.removed == Some(Ok(())) && !failure.is_one_of(ErrorKinds::CONFLICT | ErrorKinds::OUTDATED);
    is_stuck.then_some(&failure.message)
}
