//! Turns the steps for one disk into writes and events, and evaluates their outcome. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object, VolumeAttachment};
use flyball_client::Error;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Outcome, Plan, Waiting, Write};
use serde_json::json;

use super::messages;
use super::place::{Force, NodeState, Place, reports};
use super::steps::{Step, steps};
use super::wants::Want;
use crate::disk::{Attacher, Source};

const FAILED: &str = "FailedAttachVolume";

/// One disk, and every node that has it attached or runs pods that need it.
pub struct View<'a> {
    pub places: Vec<Place<'a>>,
    /// Whether disks may be detached by force from unhealthy nodes.
    pub forces: bool,
}

/// The operation and the node of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag<'a> {
    Attach(&'a str),
    Detach(&'a str, Option<Force>),
}

impl<'a> View<'a> {
    pub fn steps(&self) -> Vec<Step<'a>> {
        steps(&self.places, self.forces)
    }

    fn place(&self, node: &str) -> Option<&Place<'a>> {
        self.places.iter().find(|place| place.node == node)
    }
}

/// The writes and events of all steps. If one fails, the others are still tried.
pub fn plan<'a>(view: &View<'a>) -> Plan<Tag<'a>> {
    let steps = view.steps();
    let requeue = steps.iter().filter_map(|step| match step {
        Step::Wait(delay) => Some(*delay),
        _ => None,
    });
    let effects: Vec<_> = steps.iter().flat_map(|step| effects(view, step)).collect();
    let effects = (!effects.is_empty()).then(|| Effect::each(effects));
    Plan::of(effects).again_after(requeue.min()).waiting_for(waiting(view))
}

fn effects<'a>(view: &View<'a>, step: &Step<'a>) -> Vec<Effect<Tag<'a>>> {
    let want = |node: &str| view.place(node).and_then(|place| place.want);
    match step {
        Step::Attach(node) => want(node).and_then(|want| attach(node, want)).into_iter().collect(),
        Step::Detach(node, force) => {
            let attachment = view.place(node).and_then(|place| place.attachment);
            attachment.map(|attachment| detach(node, attachment, *force)).into_iter().collect()
        }
        Step::AttachFailed(node, why) => {
            let event = |want: &Want| messages::attach_failed(&want.disk, why);
            want(node).map(|want| warnings(want, |_| event(want).into())).unwrap_or_default()
        }
        Step::WarnHeldElsewhere(node) => {
            let others = view.places.iter().filter(|place| place.node != *node && place.may_have_it());
            let holders: Vec<_> =
                others.filter_map(|place| place.want).flat_map(|want| want.pods.iter().cloned()).collect();
            let held = |want: &Want| warnings(want, |pod| messages::held(&want.disk, pod, &holders).into());
            want(node).map(held).unwrap_or_default()
        }
        Step::AllowNodeAttach(_) | Step::Report(_) | Step::DetachFailed(..) | Step::Wait(_) => vec![],
    }
}

fn attach<'a>(node: &'a str, want: &Want) -> Option<Effect<Tag<'a>>> {
    let Attacher::Driver { volume, source, .. } = &want.disk.by else { return None };
    let source = match source {
        Source::Volume(name) => json!({"persistentVolumeName": name}),
        Source::Inline(spec) => json!({"inlineVolumeSpec": spec}),
    };
    let (name, driver) = (volume.attachment(node), &volume.driver);
    let spec = json!({"attacher": driver, "nodeName": node, "source": source});
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let why = format!("{} pods on node {node} want volume {}", want.pods.len(), want.disk.title);
    let failure = messages::attach_failed(&want.disk, "kubernetes.io/csi: attacher.Attach failed: ");
    let create = Write::create::<VolumeAttachment>(Key::cluster(name), body)
        .why(why)
        .ignore(ErrorKinds::ALREADY_EXISTS);
    let failures = events(want, |_| Message::ThenError(failure.clone()));
    let create = failures.fold(create, Write::on_failure);
    Some(create.tag(Tag::Attach(node)).into())
}

fn detach<'a>(node: &'a str, attachment: &VolumeAttachment, force: Option<Force>) -> Effect<Tag<'a>> {
    let why = match force {
        None => format!("no pod on node {node} uses the disk"),
        Some(Force::Timeout) => {
            format!("no pod on node {node} uses the disk; the node did not unmount it in time")
        }
        Some(Force::OutOfService) => {
            format!("no pod on node {node} uses the disk; the node is out of service")
        }
    };
    let delete = Write::delete(attachment).why(why).ignore_only(ErrorKinds::NOT_FOUND);
    delete.tag(Tag::Detach(node, force)).into()
}

fn events(want: &Want, message: impl Fn(&Pod) -> Message) -> impl Iterator<Item = Event> {
    want.pods.iter().map(move |pod| Event::warning(FAILED, message(pod)).about(ObjectRef::of(&**pod)))
}

fn warnings<T>(want: &Want, message: impl Fn(&Pod) -> Message) -> Vec<Effect<T>> {
    events(want, message).map(Effect::from).collect()
}

/// What the key is waiting for until the disk is attached to exactly the nodes whose pods need it.
fn waiting(view: &View<'_>) -> Vec<Waiting> {
    let wait = |place: &Place<'_>| {
        let node = Key::cluster(place.node);
        let on_attachment = |attachment: &VolumeAttachment, until: &'static str| {
            Waiting::on::<VolumeAttachment>(&Key::cluster(attachment.metadata.name.as_str()), until)
        };
        match (place.want, place.attachment) {
            _ if place.is_unmanaged => None,
            (Some(want), Some(_)) if place.is_deleted => {
                let pod = want.pods.first()?;
                Some(Waiting::on::<Pod>(&pod.key(), "to be deleted, as its node was"))
            }
            (_, Some(found)) if found.metadata.is_deleting() => {
                Some(on_attachment(found, "to be detached by its driver"))
            }
            (Some(_), Some(found)) if !found.status.attached => {
                Some(on_attachment(found, "to be attached by its driver"))
            }
            (None, _) if place.may_have_it() && !place.may_detach(view.forces) => {
                Some(Waiting::on::<Node>(&node, "to unmount the disk"))
            }
            _ => None,
        }
    };
    view.places.iter().filter_map(wait).collect()
}

/// The nodes that are read from the server before the disk is detached from them. If the cache is stale, the disk may
/// still be mounted, and detaching it could corrupt data.
pub fn to_confirm<'a>(view: &View<'a>) -> Vec<&'a str> {
    let unforced = |step: Step<'a>| match step {
        Step::Detach(node, None) => Some(node),
        _ => None,
    };
    view.steps().into_iter().filter_map(unforced).collect()
}

/// Why a disk must not be detached from a node, according to the node on the server; `None` if it may be detached.
pub fn refusal(answer: &Result<Node, Error>, disk: &str) -> Option<String> {
    match answer {
        Ok(node) if NodeState::of(node, disk).is_mounted => {
            Some("the disk is still in use by the node, according to its status".to_owned())
        }
        Ok(node) if reports(node, disk) => {
            Some("the disk may be used by the node, according to its status".to_owned())
        }
        Err(error) if !error.is_not_found() => Some(format!("fetching the node: {error}")),
        _ => None,
    }
}

/// An attempt to attach or detach that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    pub node: &'a str,
    pub is_detach: bool,
    /// Why it failed.
    pub error: Option<String>,
}

/// The attempts that have ended: those that a driver or a node has failed, failed writes, and requested detaches. An
/// attach whose VolumeAttachment was just created has not ended.
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
            // If the VolumeAttachment was being deleted before, its status has the error of the driver's last attempt.
            let attachment = view.place(node)?.attachment.filter(|found| found.metadata.is_deleting());
            let error = attachment.and_then(|found| found.status.detach_error.as_ref());
            Some(attempt(node, true, error.map(|error| error.message.to_string())))
        }
    });
    known.chain(failed).chain(detached).collect()
}
