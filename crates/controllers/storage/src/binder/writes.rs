//! The writes on claims and volumes, each tagged with the object as it will be. Pure.

use flyball_api::persistent_volume::PersistentVolumeStatus;
use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Object, PersistentVolume, PersistentVolumeClaim, manifest_with_status};
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Write};
use serde_json::Error;

use super::edit;
use crate::names::{AVAILABLE, BOUND, FAILED};

/// What a write leaves behind. The metadata is that of the server's answer.
#[derive(Debug)]
pub(crate) enum Tag {
    Claim(Box<PersistentVolumeClaim>),
    Volume(Box<PersistentVolume>),
    /// The creation of a recycler pod.
    Pod,
    Other,
}

/// Whether an earlier write of the same plan has changed the version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Second,
}

impl Turn {
    fn after<T>(earlier: Option<&T>) -> Self {
        if earlier.is_some() { Self::Second } else { Self::First }
    }
}

pub(super) fn claim(claim: PersistentVolumeClaim, why: &'static str) -> Write<Tag> {
    Write::replace(&claim).why(why).tag(Tag::Claim(Box::new(claim)))
}

pub(super) fn volume(volume: PersistentVolume, why: &'static str) -> Write<Tag> {
    Write::replace(&volume).why(why).tag(Tag::Volume(Box::new(volume)))
}

/// Gives a claim a status; `None` if it has it.
pub(super) fn claim_status(
    claim: &PersistentVolumeClaim,
    status: PersistentVolumeClaimStatus,
    turn: Turn,
) -> Option<Write<Tag>> {
    if claim.status == status {
        return None;
    }
    let (key, body) = (claim.key(), manifest_with_status(claim, &status));
    let write = match turn {
        Turn::First => Write::status_of::<PersistentVolumeClaim>(key, body).ignore_only(ErrorKinds::NONE),
        Turn::Second => Write::update_after_write::<PersistentVolumeClaim>(key, body).subresource("status"),
    };
    let why = format!("it is {}", status.phase);
    let after = PersistentVolumeClaim { status, ..claim.clone() };
    Some(write.why(why).tag(Tag::Claim(Box::new(after))))
}

/// Gives a volume a phase; `None` if it has it.
pub(super) fn phase(
    volume: &PersistentVolume,
    phase: &'static str,
    message: &str,
    turn: Turn,
) -> Option<Write<Tag>> {
    if volume.status.phase == phase {
        return None;
    }
    let status =
        PersistentVolumeStatus { phase: phase.into(), message: message.into(), ..volume.status.clone() };
    let (key, body) = (volume.key(), manifest_with_status(volume, &status));
    let write = match turn {
        Turn::First => Write::status_of::<PersistentVolume>(key, body).ignore_only(ErrorKinds::NONE),
        Turn::Second => Write::update_after_write::<PersistentVolume>(key, body).subresource("status"),
    };
    let after = PersistentVolume { status, ..volume.clone() };
    Some(write.why(format!("it is {phase}")).tag(Tag::Volume(Box::new(after))))
}

/// Marks a volume as failed, with an event; `None` if it is marked already. It is tried again all the same.
pub(super) fn fail(volume: &PersistentVolume, reason: &'static str, why: &str) -> Option<Write<Tag>> {
    let write = phase(volume, FAILED, why, Turn::First)?;
    Some(write.on_success(Event::warning(reason, why)))
}

/// Binds a volume and a claim to each other, the volume first. What is written already is left out. `attributes`: whether there
/// are attributes classes.
pub(super) fn bind(
    old_claim: &PersistentVolumeClaim,
    old_volume: &PersistentVolume,
    attributes: bool,
) -> Result<Vec<Write<Tag>>, Error> {
    let taken = edit::taken(old_volume, old_claim)?;
    let new_volume = taken.as_ref().unwrap_or(old_volume);
    let given = edit::given(old_claim, new_volume)?;
    let new_claim = given.as_ref().unwrap_or(old_claim);
    let bound = phase(new_volume, BOUND, "", Turn::after(taken.as_ref()));
    let status = edit::status_with(new_claim, new_volume, attributes);
    let status = claim_status(new_claim, status, Turn::after(given.as_ref()));
    let taken = taken.map(|taken| volume(taken, "a claim gets it"));
    let given = given.map(|given| claim(given, "it gets a volume"));
    Ok([taken, bound, given, status].into_iter().flatten().collect())
}

/// Takes a volume back from its claim.
pub(super) fn free(old: &PersistentVolume) -> Result<Vec<Write<Tag>>, Error> {
    let freed = edit::freed(old)?;
    let available = phase(&freed, AVAILABLE, "", Turn::Second);
    Ok(std::iter::once(volume(freed, "no claim has it any more")).chain(available).collect())
}

/// A plan of writes that were built from edited JSON. An edit fails only for a server with other types.
pub(super) fn planned(writes: Result<Vec<Write<Tag>>, Error>) -> Plan<Tag> {
    match writes {
        Ok(writes) => Plan::of(writes),
        Err(error) => Plan::of([Effect::Fail(format!("changing an object: {error}"))]),
    }
}
