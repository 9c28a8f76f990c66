//! Where one disk is, where it is wanted, and what follows. Pure.

use std::time::Duration;

use super::place::{Force, Place, UNMOUNT_TIMEOUT};
use super::wants::Want;

/// How long a driver may take to attach a disk before pods get an event about it.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// What is to be done about a disk on a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Create the VolumeAttachment.
    Attach(&'a str),
    /// Allow the node to attach the disk by itself.
    AllowNodeAttach(&'a str),
    /// Bring `volumesAttached` in the node's status up to date.
    Report(&'a str),
    /// Delete the VolumeAttachment.
    Detach(&'a str, Option<Force>),
    /// The driver has failed to attach the disk.
    AttachFailed(&'a str, String),
    /// The driver has failed to detach the disk, or the node still uses it.
    DetachFailed(&'a str, String),
    /// The disk is exclusively on other nodes; the pods that wait for it get an event.
    WarnHeldElsewhere(&'a str),
    /// Look again after this long.
    Wait(Duration),
}

/// What is to be done about one disk, given every node that has it or wants it. `forces` says whether disks may be detached
/// by force from unhealthy nodes.
pub fn steps<'a>(places: &[Place<'a>], forces: bool) -> Vec<Step<'a>> {
    let mut steps = vec![];
    // Detaching comes first: pods on other nodes may wait for the disk.
    for place in places.iter().filter(|place| place.want.is_none() && !place.is_unmanaged) {
        steps.extend(detach(place, forces));
    }
    let mut is_promised = false;
    for place in places.iter().filter(|place| !place.is_deleted) {
        let Some(want) = place.want else { continue };
        let others = || places.iter().filter(|other| other.node != place.node);
        if place.is_held() {
            steps.extend(settle(place));
        } else if place.attachment.is_some() {
            steps.extend(attaching(place, want));
        } else if want.disk.is_exclusive && (is_promised || others().any(Place::is_busy)) {
            // The disk is synced again when the driver has finished.
        } else if want.disk.is_exclusive && others().any(Place::may_have_it) {
            steps.extend((!place.is_announced).then_some(Step::WarnHeldElsewhere(place.node)));
        } else if want.disk.driver().is_none() {
            is_promised = true;
            steps.push(Step::AllowNodeAttach(place.node));
        } else if !place.is_backing_off {
            is_promised = true;
            steps.push(Step::Attach(place.node));
        }
    }
    steps
}

/// A disk that is wanted where it is.
fn settle<'a>(place: &Place<'a>) -> Option<Step<'a>> {
    let has_driver = place.want.is_some_and(|want| want.disk.driver().is_some());
    match place.attachment {
        // Reported as attached, but it is not: correct the status first, then attach the disk.
        None if has_driver && place.is_reported => Some(Step::Report(place.node)),
        Some(attachment) if place.is_reported && !attachment.status.attached => {
            Some(Step::Report(place.node))
        }
        Some(attachment) if !place.is_reported && attachment.metadata.is_deleting() => failed(place, DELETED),
        _ => (!place.is_reported).then_some(Step::Report(place.node)),
    }
}

const DELETED: &str = "volume attachment is being deleted";

/// A disk that is wanted and not attached, though there is a VolumeAttachment.
fn attaching<'a>(place: &Place<'a>, want: &Want) -> Option<Step<'a>> {
    let attachment = place.attachment?;
    if attachment.metadata.is_deleting() {
        return failed(place, DELETED);
    }
    if let Some(error) = &attachment.status.attach_error {
        return failed(place, &error.message);
    }
    if place.attaching_for < ATTACH_TIMEOUT {
        return Some(Step::Wait(ATTACH_TIMEOUT - place.attaching_for));
    }
    let (driver, handle) = want.disk.driver().map(|by| (by.driver.as_str(), by.handle.as_str()))?;
    failed(
        place,
        &format!("timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"),
    )
}

fn failed<'a>(place: &Place<'a>, why: &str) -> Option<Step<'a>> {
    (!place.is_backing_off).then(|| Step::AttachFailed(place.node, why.to_owned()))
}

/// A disk that no pod wants where it is.
fn detach<'a>(place: &Place<'a>, forces: bool) -> Option<Step<'a>> {
    if !place.may_detach(forces) {
        let is_due = !place.state.is_healthy && forces;
        // The timeout must have passed, so one millisecond more.
        return is_due.then(|| Step::Wait(UNMOUNT_TIMEOUT - place.unwanted_for + Duration::from_millis(1)));
    }
    if place.is_reported {
        // The node must not begin to use a disk that is about to be detached.
        return Some(Step::Report(place.node));
    }
    let attachment = place.attachment?;
    if place.is_backing_off {
        return None;
    }
    if attachment.metadata.is_deleting() {
        match &attachment.status.detach_error {
            // The driver is at work.
            None => return None,
            Some(error) if !place.has_failed => {
                return Some(Step::DetachFailed(place.node, error.message.to_string()));
            }
            Some(_) => {}
        }
    }
    Some(match (place.force(forces), &place.refusal) {
        (None, Some(why)) => Step::DetachFailed(place.node, why.clone()),
        (force, _) => Step::Detach(place.node, force),
    })
}
