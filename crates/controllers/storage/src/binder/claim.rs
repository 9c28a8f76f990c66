//! What is to be done for a claim. Pure.

use std::sync::Arc;

use flyball_api::selector::InvalidSelector;
use flyball_api::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use smol_str::SmolStr;

use super::matching::{best, is_coming, is_promised, objection};
use super::plugins::{self, Maker};
use crate::class;
use crate::names::{BIND_COMPLETED, BOUND_BY_CONTROLLER, LOST, SELECTED_NODE};

/// Everything the decision may look at.
pub(crate) struct View<'a> {
    pub(crate) claim: &'a PersistentVolumeClaim,
    /// The volume that it names.
    pub(crate) named: Option<&'a Arc<PersistentVolume>>,
    /// The volumes that are promised to it, and those of its class that are nobody's.
    pub(crate) volumes: &'a [Arc<PersistentVolume>],
    /// Its class, if there is such a class.
    pub(crate) class: Option<&'a StorageClass>,
    /// The class for claims that leave it open.
    pub(crate) default_class: Option<&'a SmolStr>,
    /// The pods that use it and wait for a node.
    pub(crate) waiting: &'a [SmolStr],
    /// Whether volumes may be made.
    pub(crate) provisions: bool,
    /// Whether it came, or changed, since the binder is at work. What it found at the start is taken as it stands.
    pub(crate) is_news: bool,
}

/// What to tell users about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tell {
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Tell {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}

/// What to do next for a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<'a> {
    /// Nothing can be done; users are told why if there is more to it.
    Wait(Option<Tell>),
    /// It has no volume and waits for one.
    Pend(Option<Tell>),
    /// It has lost its volume for good, and is told so once.
    Lose(Tell),
    /// Volume and claim are to be bound to each other, as far as they are not.
    Bind(&'a Arc<PersistentVolume>),
    /// It gets the default class.
    Classify(SmolStr),
    /// A volume is to be made for it.
    Provision(Maker),
    /// A volume that suits it is about to be had, which is worth a moment.
    Soon,
    /// Somebody has undone half of a binding. Users are told, and it is tried again.
    Contest(Tell),
}

/// The next step for a claim.
pub(crate) fn plan<'a>(view: &View<'a>) -> Result<Step<'a>, InvalidSelector> {
    let claim = view.claim;
    match (claim.metadata.annotations.contains_key(BIND_COMPLETED), claim.spec.volume_name.is_empty()) {
        (true, _) => Ok(kept(view)),
        (false, true) => sought(view),
        (false, false) => Ok(asked_for(view)),
    }
}

/// A claim that had its volume: it keeps that volume or has lost it.
fn kept<'a>(view: &View<'a>) -> Step<'a> {
    let lost = |reason, message| match view.claim.status.phase == LOST {
        true => Step::Wait(None),
        false => Step::Lose(Tell::warning(reason, message)),
    };
    if view.claim.spec.volume_name.is_empty() {
        return lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = view.named else {
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

/// A claim whose user asked for one volume.
fn asked_for<'a>(view: &View<'a>) -> Step<'a> {
    let claim = view.claim;
    let Some(volume) = view.named else { return Step::Pend(None) };
    let name = &volume.metadata.name;
    if volume.spec.claim_ref.is_none() {
        return match objection(volume, claim) {
            None => Step::Bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                Step::Pend(Some(Tell::warning("VolumeMismatch", message)))
            }
        };
    }
    if is_promised(volume, claim) {
        return Step::Bind(volume);
    }
    let tell = Tell::warning("FailedBinding", format!("volume {name:?} already bound to a different claim."));
    match claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER) {
        true => Step::Contest(tell),
        false => Step::Pend(Some(tell)),
    }
}

/// A claim that takes any volume that suits it.
fn sought<'a>(view: &View<'a>) -> Result<Step<'a>, InvalidSelector> {
    let claim = view.claim;
    let waits = view.class.is_some_and(class::waits_for_consumer);
    if let Some(volume) = best(claim, view.volumes, waits)? {
        return Ok(Step::Bind(volume));
    }
    if let Some(class) = view.default_class.filter(|_| class::is_unsaid(claim)) {
        return Ok(Step::Classify(class.clone()));
    }
    if waits && !claim.metadata.annotations.contains_key(SELECTED_NODE) {
        return Ok(Step::Pend(Some(waiting(view.waiting))));
    }
    if class::of_claim(claim).is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Ok(Step::Pend(Some(Tell::normal("FailedBinding", message))));
    }
    // A volume that came before the claim may still be on its way to being available.
    if !waits && view.is_news && is_coming(claim, view.volumes)? {
        return Ok(Step::Soon);
    }
    Ok(provision(view))
}

/// What a claim is told that waits for a pod.
fn waiting(pods: &[SmolStr]) -> Tell {
    let scheduled = "WaitForPodScheduled";
    match pods {
        [] => {
            let message = "waiting for first consumer to be created before binding";
            Tell::normal("WaitForFirstConsumer", message)
        }
        [pod] => Tell::normal(scheduled, format!("waiting for pod {pod} to be scheduled")),
        pods => Tell::normal(scheduled, format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

/// A volume is made for a claim, if somebody makes volumes of its class.
fn provision<'a>(view: &View<'a>) -> Step<'a> {
    let failed = |why: String| Step::Wait(Some(Tell::warning("ProvisioningFailed", why)));
    if !view.provisions {
        return Step::Wait(None);
    }
    let Some(class) = view.class else {
        let name = class::of_claim(view.claim);
        return failed(format!("storageclass.storage.k8s.io {name:?} not found"));
    };
    plugins::maker(class).map_or_else(failed, Step::Provision)
}
