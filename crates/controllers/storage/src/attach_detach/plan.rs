//! Where one disk is, where it is wanted, and what follows. Pure.

use std::time::Duration;

use flyball_api::VolumeAttachment;

use super::wants::Want;

/// How long a node may take to unmount a disk before it is taken by force, if the node is not well.
pub const PATIENCE: Duration = Duration::from_secs(6 * 60);
/// How long a driver may take to attach a disk before users are told.
pub const DRIVER_PATIENCE: Duration = Duration::from_secs(2 * 60);

/// One disk on one node.
#[derive(Debug, Clone, Default)]
pub struct Place<'a> {
    pub node: &'a str,
    /// Who wants the disk there.
    pub want: Option<&'a Want>,
    /// The request to its driver to attach it there.
    pub attachment: Option<&'a VolumeAttachment>,
    /// Whether the node's status says that it is attached, or is just being made to say so.
    pub is_reported: bool,
    /// Whether the node was promised a disk that it attaches by itself.
    pub is_admitted: bool,
    /// What the node says about itself and the disk.
    pub stand: Stand,
    /// For how long nobody has wanted the disk there.
    pub unwanted_for: Duration,
    /// For how long its driver has been attaching it.
    pub attaching_for: Duration,
    /// Whether the last try failed.
    pub has_failed: bool,
    /// Whether the last try failed and the next one is not due yet.
    pub is_resting: bool,
    /// Whether its driver is just being asked to take it away.
    pub is_leaving: bool,
    /// Whether somebody else sees to the disks of this node: nothing is done about them, but they are there.
    pub is_left_alone: bool,
}

/// What speaks for and against taking a disk from a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stand {
    /// The node says that the disk is mounted, or does not say anything any more.
    pub is_mounted: bool,
    pub is_healthy: bool,
    /// An operator has said that the node is down for good.
    pub is_out_of_service: bool,
}

/// Why a disk is taken without asking the node again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// The node had its time.
    Timeout,
    /// An operator has said that the node is down for good.
    OutOfService,
}

/// What is to be done about a disk on a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Ask the driver to attach it.
    Attach(&'a str),
    /// Tell the node that it may attach it by itself.
    Admit(&'a str),
    /// Let the node's status say what is true now.
    Report(&'a str),
    /// Ask the driver to detach it.
    Detach(&'a str, Option<Force>),
    /// The driver has failed to attach it.
    AttachFailed(&'a str, String),
    /// The driver has failed to detach it.
    DetachFailed(&'a str, String),
    /// It is exclusively on other nodes: tell those who wait for it.
    TellHeld(&'a str),
    /// Look again after this long.
    Wait(Duration),
}

impl Place<'_> {
    /// Whether the disk is there for certain.
    pub fn is_held(&self) -> bool {
        self.is_reported || self.is_admitted || self.is_attached()
    }

    /// Whether its driver has attached it.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_some_and(|attachment| attachment.status.attached)
    }

    /// Whether the disk is there, or may be, or may come: its driver does whatever it was asked at a time of its own,
    /// and one that failed tries again. Only when its request is gone for good is the disk free for another node.
    pub fn may_have_it(&self) -> bool {
        self.is_held() || self.attachment.is_some()
    }

    /// Whether its driver is at work there and has not failed so far, so that waiting will do.
    fn is_busy(&self) -> bool {
        self.attachment.is_some_and(|attachment| {
            let status = &attachment.status;
            if attachment.metadata.is_deleting() {
                status.detach_error.is_none()
            } else {
                let is_kept = self.want.is_none() && self.stand.is_mounted;
                !status.attached && status.attach_error.is_none() && !is_kept
            }
        })
    }

    /// Whether a disk that nobody wants may be taken from the node now.
    pub fn may_leave(&self, forces: bool) -> bool {
        let Stand { is_mounted, is_healthy, is_out_of_service } = self.stand;
        !is_mounted || is_out_of_service || (!is_healthy && forces && self.unwanted_for > PATIENCE)
    }

    /// Why the node need not be asked again before the disk is taken.
    fn force(&self, forces: bool) -> Option<Force> {
        if forces && self.unwanted_for > PATIENCE {
            Some(Force::Timeout)
        } else {
            self.stand.is_out_of_service.then_some(Force::OutOfService)
        }
    }
}

/// What is to be done about one disk, given every node that has it or wants it. `forces` tells whether disks may be
/// taken from nodes that are not well.
pub fn plan<'a>(places: &[Place<'a>], forces: bool) -> Vec<Step<'a>> {
    let mut steps = vec![];
    // What is to go goes first: somebody may be waiting for it.
    for place in places.iter().filter(|place| place.want.is_none() && !place.is_left_alone) {
        steps.extend(leave(place, forces));
    }
    // A disk that can be on one node only goes to one of those that want it.
    let mut is_promised = false;
    for place in places {
        let Some(want) = place.want else { continue };
        let others = || places.iter().filter(|other| other.node != place.node);
        if place.is_held() {
            steps.extend(settle(place));
        } else if place.attachment.is_some() {
            steps.extend(attach(place, want));
        } else if want.disk.is_exclusive && (is_promised || others().any(Place::is_busy)) {
            // The end of that work brings the disk back here.
        } else if want.disk.is_exclusive && others().any(Place::may_have_it) {
            steps.push(Step::TellHeld(place.node));
        } else if want.disk.driver().is_none() {
            is_promised = true;
            steps.push(Step::Admit(place.node));
        } else if !place.is_resting {
            is_promised = true;
            steps.push(Step::Attach(place.node));
        }
    }
    steps
}

/// A disk that is wanted where it is.
fn settle<'a>(place: &Place<'a>) -> Option<Step<'a>> {
    let is_driven = place.want.is_some_and(|want| want.disk.driver().is_some());
    match place.attachment {
        // Said to be attached, but it is not: say the truth first, then attach it.
        None if is_driven && place.is_reported => Some(Step::Report(place.node)),
        Some(attachment) if place.is_reported && !attachment.status.attached => {
            Some(Step::Report(place.node))
        }
        Some(attachment) if !place.is_reported && attachment.metadata.is_deleting() => failed(place, DELETED),
        _ => (!place.is_reported).then_some(Step::Report(place.node)),
    }
}

const DELETED: &str = "volume attachment is being deleted";

/// A driver's disk that is wanted where it is not, though its driver was asked.
fn attach<'a>(place: &Place<'a>, want: &Want) -> Option<Step<'a>> {
    let attachment = place.attachment?;
    if attachment.metadata.is_deleting() {
        return failed(place, DELETED);
    }
    if let Some(error) = &attachment.status.attach_error {
        return failed(place, &error.message);
    }
    if place.attaching_for < DRIVER_PATIENCE {
        return Some(Step::Wait(DRIVER_PATIENCE - place.attaching_for));
    }
    let (driver, handle) = want.disk.driver().map(|by| (by.driver.as_str(), by.handle.as_str()))?;
    failed(
        place,
        &format!("timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"),
    )
}

fn failed<'a>(place: &Place<'a>, why: &str) -> Option<Step<'a>> {
    (!place.is_resting).then(|| Step::AttachFailed(place.node, why.to_owned()))
}

/// A disk that nobody wants where it is.
fn leave<'a>(place: &Place<'a>, forces: bool) -> Option<Step<'a>> {
    if !place.may_leave(forces) {
        let is_due = !place.stand.is_healthy && forces;
        // One moment more: the time must have passed, not just come.
        return is_due.then(|| Step::Wait(PATIENCE - place.unwanted_for + Duration::from_millis(1)));
    }
    if place.is_reported {
        // The node must not begin to use what is about to be taken from it.
        return Some(Step::Report(place.node));
    }
    let attachment = place.attachment?;
    if place.is_resting {
        return None;
    }
    if !attachment.metadata.is_deleting() {
        return Some(Step::Detach(place.node, place.force(forces)));
    }
    let error = attachment.status.detach_error.as_ref()?;
    Some(match place.has_failed {
        true => Step::Detach(place.node, place.force(forces)),
        false => Step::DetachFailed(place.node, error.message.to_string()),
    })
}
