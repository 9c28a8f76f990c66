//! Evaluates what came of the steps for one disk: which attempts to attach or detach have ended, and how they are recorded and
//! measured. Pure.

use flyball_runtime::{Event, Outcome};
use smol_str::SmolStr;

use super::disk_on_node::{FlexAttachment, Force, is_inline};
use super::messages;
use super::plan::{DriverCall, Tag, View, events};
use super::steps::Step;
use crate::disk::Disk;

/// An attempt to attach or detach that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    pub node: &'a str,
    pub is_detach: bool,
    /// Why it failed.
    pub error: Option<String>,
}

/// The attempts that have ended: errors of drivers and failed writes, and VolumeAttachments that were deleted. An attach whose
/// VolumeAttachment was just created has not ended.
pub fn attempts<'a>(view: &View<'a>, outcome: &Outcome<Tag<'a>>) -> Vec<Attempt<'a>> {
    let attempt = |node, is_detach, error| Attempt { node, is_detach, error };
    let known = view.steps().into_iter().filter_map(|step| match step {
        Step::AttachFailed(node, why) => Some(attempt(node, false, Some(why))),
        Step::DetachFailed(node, why) => Some(attempt(node, true, Some(why))),
        _ => None,
    });
    let failed = outcome.failures.iter().filter_map(|failure| match failure.tag? {
        Tag::Attach(node) => Some(attempt(node, false, Some(failure.message.clone()))),
        Tag::Detach(node, _) => Some(attempt(node, true, Some(failure.message.clone()))),
    });
    let detached = outcome.done.iter().filter_map(|done| match done.tag {
        Tag::Attach(_) => None,
        Tag::Detach(node, _) => {
            let attachment = view.on_node(node)?.attachment.filter(|found| found.metadata.is_deleting());
            let Some(attachment) = attachment else { return Some(attempt(node, true, None)) };
            // It was being deleted before: the driver's last attempt has failed, or the driver has not finished.
            let error = attachment.status.detach_error.as_ref()?;
            Some(attempt(node, true, Some(error.message.to_string())))
        }
    });
    known.chain(failed).chain(detached).collect()
}

/// Whether a disk has to be synced again after these calls of drivers: their answers change what is to be done, as the disk is reported
/// or attached to another node.
pub fn is_due_again(calls: &[DriverCall<'_>]) -> bool {
    !calls.is_empty()
}

/// The answer of a FlexVolume driver; an error is a text.
#[derive(Debug)]
pub enum DriverAnswer {
    /// To `attach`: the path of the device.
    Attach(Result<SmolStr, String>),
    Detach(Result<(), String>),
    /// To `isattached`; `None` if the driver does not support the call.
    Verify(Result<Option<bool>, String>),
}

/// A change of what is recorded about a FlexVolume on a node.
#[derive(Debug, PartialEq, Eq)]
pub enum FlexChange {
    Is(FlexAttachment),
    Verified { is_attached: bool },
}

/// What an answer of a FlexVolume driver changes, and the attempt that it ends. A success of `attach` ends its attempt when the disk is
/// in `status.volumesAttached`. After an error it is not known whether the volume is attached, which is recorded before the call.
pub fn answered<'a>(node: &'a str, answer: DriverAnswer) -> (Option<FlexChange>, Option<Attempt<'a>>) {
    let ended = |is_detach, error| Some(Attempt { node, is_detach, error });
    match answer {
        DriverAnswer::Attach(Ok(device)) => (Some(FlexChange::Is(FlexAttachment::Attached(device))), None),
        DriverAnswer::Attach(Err(why)) => (None, ended(false, Some(why))),
        DriverAnswer::Detach(Ok(())) => (Some(FlexChange::Is(FlexAttachment::None)), ended(true, None)),
        DriverAnswer::Detach(Err(why)) => (None, ended(true, Some(why))),
        // A driver that cannot answer does not mean that the volume is lost.
        DriverAnswer::Verify(answer) => {
            (Some(FlexChange::Verified { is_attached: answer != Ok(Some(false)) }), None)
        }
    }
}

/// The events about calls of FlexVolume drivers that have failed.
pub fn events_of_failed_calls<'a>(view: &View<'a>, attempts: &[Attempt<'_>]) -> Vec<Event> {
    let failed = |attempt: &Attempt<'_>| {
        let error = attempt.error.as_ref().filter(|_| !attempt.is_detach)?;
        let desired = view.on_node(attempt.node)?.desired?;
        let message = messages::attach_failed(&desired.disk, error);
        Some(events(desired, move |_| message.clone().into()))
    };
    attempts.iter().filter_map(failed).flatten().collect()
}

/// The nodes whose status has to be synced because of this disk.
pub fn nodes_to_sync<'a>(view: &View<'a>) -> Vec<&'a str> {
    let node = |step: Step<'a>| match step {
        Step::AllowNodeAttach(node) | Step::Report(node) => Some(node),
        _ => None,
    };
    view.steps().into_iter().filter_map(node).collect()
}

/// The nodes from which the disk is detached although it may be mounted, and why.
pub fn forced<'a>(view: &View<'a>) -> Vec<(&'a str, Force)> {
    let forced = |step: Step<'a>| match step {
        Step::Detach(node, Some(force)) => Some((node, force)),
        _ => None,
    };
    view.steps().into_iter().filter_map(forced).collect()
}

/// How the duration of an attempt is measured.
#[derive(Debug, PartialEq)]
pub enum Measure<'a> {
    Attach {
        disk: &'a Disk,
        is_ok: bool,
    },
    /// `is_inline` says whether the VolumeAttachment is for an inline volume of a pod.
    FailedDetach {
        is_inline: bool,
    },
}

/// How an attempt that has ended is measured. A successful detach is measured when the VolumeAttachment is gone.
pub fn measure<'a>(view: &View<'a>, attempt: &Attempt<'_>) -> Option<Measure<'a>> {
    let on_node = view.on_node(attempt.node);
    let is_ok = attempt.error.is_none();
    match on_node.and_then(|on_node| on_node.desired) {
        Some(desired) if !attempt.is_detach => Some(Measure::Attach { disk: &desired.disk, is_ok }),
        _ if is_ok => None,
        _ => {
            let attachment = on_node.and_then(|on_node| on_node.attachment);
            Some(Measure::FailedDetach { is_inline: attachment.is_some_and(is_inline) })
        }
    }
}
