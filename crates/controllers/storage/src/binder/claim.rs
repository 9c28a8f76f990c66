//! Decides about a claim: binding, provisioning, status. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_common::informer_lag::INFORMER_LAG;
use flyball_runtime::{Effect, Event, Plan, Waiting};
use smol_str::SmolStr;

use super::edit;
use super::matching::{attributes_class, best, is_coming, is_promised, objection};
use super::plugins::{self, Provisioner};
use super::provision::{self, Provisioning};
use super::writes::{self, Tag, Turn};
use crate::names::{BIND_COMPLETED, BOUND_BY_CONTROLLER, LOST, PENDING, SELECTED_NODE};
use crate::{class, migration};

const FAILED_BINDING: &str = "FailedBinding";

/// Everything that the decision depends on.
pub(crate) struct View<'a> {
    pub(crate) claim: &'a PersistentVolumeClaim,
    /// The volume that it names.
    pub(crate) named_volume: Option<&'a Arc<PersistentVolume>>,
    /// The volumes whose claimRef names it, and those of its class without a claimRef.
    pub(crate) volumes: &'a [Arc<PersistentVolume>],
    /// Its class, if it exists.
    pub(crate) class: Option<&'a StorageClass>,
    /// Whether the cache of classes has not reached the claim's version, so that its class may exist all the same.
    pub(crate) is_class_cache_behind: bool,
    /// Whether it was requeued before because of that.
    pub(crate) has_waited_for_class: bool,
    /// The class for claims that do not name one.
    pub(crate) default_class: Option<&'a SmolStr>,
    /// The pods that use it and are not scheduled.
    pub(crate) pods: &'a [SmolStr],
    /// Whether the claim was created or changed since this process began to bind. Claims of before are taken as they are.
    pub(crate) is_recent: bool,
    pub(crate) provisioning: Provisioning,
    /// Whether there are attributes classes (`VolumeAttributesClass`).
    pub(crate) attributes: bool,
}

impl View<'_> {
    /// Whether the claim is requeued once because its class may not be in the cache yet.
    pub(crate) fn awaits_class(&self) -> bool {
        let is_missing = self.class.is_none() && !class::of_claim(self.claim).is_empty();
        is_unbound(self.claim) && is_missing && self.is_class_cache_behind && !self.has_waited_for_class
    }
}

/// What to do next for a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<'a> {
    /// The annotations have to name the CSI driver that replaced the provisioner.
    Migrate(Box<PersistentVolumeClaim>),
    /// Nothing can be done; the event says why.
    Wait(Option<Event>),
    /// It has no volume and waits for one.
    Pend(Option<Event>),
    /// Its volume is lost, permanently.
    Lose(Event),
    /// Volume and claim are to be bound to each other, if they are not bound completely.
    Bind(&'a Arc<PersistentVolume>),
    /// It gets the default class.
    SetClass(SmolStr),
    /// A volume is to be provisioned.
    Provision(Provisioner),
    /// A matching volume is about to become available.
    NotYet,
    /// Half of a binding was undone: its volume has another claim. It is tried again.
    Contest(String),
    /// Its selector is invalid, or it refers to something that does not exist.
    Invalid(String),
}

/// The writes and events of the next step.
pub(crate) fn plan(view: &View<'_>) -> Plan<Tag> {
    let claim = view.claim;
    let pending = |status| writes::claim_status(claim, edit::status_without(claim, status), Turn::First);
    let plan = match step(view) {
        Step::Migrate(claim) => {
            Plan::of([writes::claim(*claim, "a CSI driver has replaced its provisioner")])
        }
        Step::Wait(Some(_)) if view.awaits_class() => Plan::after(INFORMER_LAG),
        Step::Wait(event) => Plan::of(event),
        Step::Pend(event) => {
            Plan::of(event.map(Effect::from).into_iter().chain(pending(PENDING).map(Effect::from)))
        }
        Step::Lose(event) => Plan::of(pending(LOST).map(Effect::from).into_iter().chain([event.into()])),
        Step::Bind(volume) => writes::planned(writes::bind(claim, volume, view.attributes)),
        Step::SetClass(class) => writes::planned(
            edit::classed(claim, &class).map(|claim| vec![writes::claim(claim, "it gets the default class")]),
        ),
        Step::Provision(provisioner) => provision::plan(view, &provisioner),
        Step::NotYet => Plan::of([Effect::NotYet("a volume that suits it is not yet available".to_owned())]),
        Step::Contest(why) => {
            Plan::of([Event::warning(FAILED_BINDING, why.clone()).into(), Effect::Fail(why)])
        }
        Step::Invalid(why) => Plan::of([Effect::Invalid(why)]),
    };
    plan.waiting_for(waiting(view))
}

/// Whether a claim has no volume yet, so that volumes, classes and pods matter to it.
pub(crate) fn is_unbound(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.volume_name.is_empty() && !claim.metadata.annotations.contains_key(BIND_COMPLETED)
}

/// The next step for a claim.
pub(crate) fn step<'a>(view: &View<'a>) -> Step<'a> {
    let claim = view.claim;
    if let Some(annotations) = migration::of_claim_annotations(&claim.metadata.annotations) {
        let mut claim = claim.clone();
        claim.metadata.annotations = annotations;
        return Step::Migrate(Box::new(claim));
    }
    match (claim.metadata.annotations.contains_key(BIND_COMPLETED), claim.spec.volume_name.is_empty()) {
        (true, _) => was_bound(view),
        (false, true) => names_no_volume(view).unwrap_or_else(|error| {
            Step::Invalid(format!("reading the selector of claim {}: {error}", claim.key()))
        }),
        (false, false) => names_a_volume(view),
    }
}

/// A claim that was bound: it keeps its volume or has lost it.
fn was_bound<'a>(view: &View<'a>) -> Step<'a> {
    let lost = |reason, message| match view.claim.status.phase == LOST {
        true => Step::Wait(None),
        false => Step::Lose(Event::warning(reason, message)),
    };
    if view.claim.spec.volume_name.is_empty() {
        return lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = view.named_volume else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match &volume.spec.claim_ref {
        Some(other) if other.uid != view.claim.metadata.uid => {
            let message = "Two claims are bound to the same volume, this one is bound incorrectly";
            lost("ClaimMisbound", message)
        }
        _ => Step::Bind(volume),
    }
}

/// A claim whose user has chosen the volume.
fn names_a_volume<'a>(view: &View<'a>) -> Step<'a> {
    let claim = view.claim;
    let Some(volume) = view.named_volume else { return Step::Pend(None) };
    let name = &volume.metadata.name;
    if volume.spec.claim_ref.is_none() {
        return match objection(volume, claim, view.attributes) {
            None => Step::Bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                Step::Pend(Some(Event::warning("VolumeMismatch", message)))
            }
        };
    }
    if is_promised(volume, claim) {
        return Step::Bind(volume);
    }
    let why = format!("volume {name:?} already bound to a different claim.");
    match claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER) {
        true => Step::Contest(why),
        false => Step::Pend(Some(Event::warning(FAILED_BINDING, why))),
    }
}

/// A claim that accepts any matching volume.
fn names_no_volume<'a>(view: &View<'a>) -> Result<Step<'a>, flyball_api::selector::InvalidSelector> {
    let claim = view.claim;
    if !view.attributes && !attributes_class(claim).is_empty() {
        let why = format!("claim {} has an attributes class, and VolumeAttributesClass is off", claim.key());
        return Ok(Step::Invalid(why));
    }
    let waits = view.class.is_some_and(class::waits_for_consumer);
    if let Some(volume) = best(claim, view.volumes, waits, view.attributes)? {
        return Ok(Step::Bind(volume));
    }
    if let Some(class) = view.default_class.filter(|_| class::is_unset(claim)) {
        return Ok(Step::SetClass(class.clone()));
    }
    if waits && !claim.metadata.annotations.contains_key(SELECTED_NODE) {
        return Ok(Step::Pend(Some(waits_for_pod(view.pods))));
    }
    if class::of_claim(claim).is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Ok(Step::Pend(Some(Event::normal(FAILED_BINDING, message))));
    }
    // A volume that was created before the claim may not have its phase yet.
    if !waits && view.is_recent && is_coming(claim, view.volumes, view.attributes)? {
        return Ok(Step::NotYet);
    }
    Ok(provision(view))
}

fn waits_for_pod(pods: &[SmolStr]) -> Event {
    let scheduled = "WaitForPodScheduled";
    match pods {
        [] => {
            let message = "waiting for first consumer to be created before binding";
            Event::normal("WaitForFirstConsumer", message)
        }
        [pod] => Event::normal(scheduled, format!("waiting for pod {pod} to be scheduled")),
        pods => Event::normal(scheduled, format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

/// Provisions a volume, if there is a provisioner for the class of the claim.
fn provision<'a>(view: &View<'a>) -> Step<'a> {
    let failed = |why: String| Step::Wait(Some(Event::warning("ProvisioningFailed", why)));
    if !view.provisioning.is_enabled {
        return Step::Wait(None);
    }
    let Some(class) = view.class else {
        let name = class::of_claim(view.claim);
        return failed(format!("storageclass.storage.k8s.io {name:?} not found"));
    };
    plugins::provisioner(class).map_or_else(failed, Step::Provision)
}

/// What a claim without a volume waits for.
fn waiting(view: &View<'_>) -> Vec<Waiting> {
    let (claim, key) = (view.claim, view.claim.key());
    let own = |until: String| vec![Waiting::on::<PersistentVolumeClaim>(&key, until)];
    match step(view) {
        Step::Pend(_) if !claim.spec.volume_name.is_empty() => {
            let name = Key::cluster(claim.spec.volume_name.as_str());
            let until = if view.named_volume.is_some() {
                "to be free and to suit the claim"
            } else {
                "to be created"
            };
            vec![Waiting::on::<PersistentVolume>(&name, until)]
        }
        Step::Pend(_) if view.class.is_some() && view.pods.is_empty() => {
            own("to be used by a pod that is scheduled".to_owned())
        }
        Step::Pend(_) if view.class.is_some() => {
            let pod = |name: &SmolStr| Key::new(key.namespace.as_str(), name.as_str());
            view.pods.iter().map(|name| Waiting::on::<Pod>(&pod(name), "to be scheduled")).collect()
        }
        Step::Pend(_) | Step::NotYet => own("to find a volume that suits it".to_owned()),
        Step::Wait(Some(_)) if view.class.is_none() => {
            vec![Waiting::on::<StorageClass>(&Key::cluster(class::of_claim(claim)), "to be created")]
        }
        Step::Provision(Provisioner::External(name)) => {
            own(format!("to get a volume from provisioner {name}"))
        }
        _ => vec![],
    }
}
