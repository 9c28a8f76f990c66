//! Turns the steps for one disk into writes, events and calls of drivers. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object, VolumeAttachment};
use flyball_client::Error;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Plan, Waiting, Write};
use serde_json::json;

use super::caches::DesiredAttachment;
use super::disk_on_node::{DiskOnNode, Force, NodeState, reports};
use super::messages;
use super::steps::{DRIVER_TIMEOUT, Policy, Step, steps};
use crate::disk::{Attacher, FlexVolume, Source};

const FAILED: &str = "FailedAttachVolume";

/// One disk on every node that has it attached or has pods that need it.
pub struct View<'a> {
    pub nodes: Vec<DiskOnNode<'a>>,
    pub policy: Policy,
}

/// The operation and the node of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag<'a> {
    Attach(&'a str),
    Detach(&'a str, Option<Force>),
}

impl<'a> View<'a> {
    pub fn steps(&self) -> Vec<Step<'a>> {
        steps(&self.nodes, self.policy)
    }

    pub(super) fn on_node(&self, node: &str) -> Option<&DiskOnNode<'a>> {
        self.nodes.iter().find(|on_node| on_node.node == node)
    }
}

/// The writes and events of all steps. If one fails, the others are executed all the same.
pub fn plan<'a>(view: &View<'a>) -> Plan<Tag<'a>> {
    let steps = view.steps();
    let requeue = steps.iter().filter_map(|step| match step {
        Step::Wait(delay) => Some(*delay),
        // A VolumeAttachment that was being deleted already does not change, so no watch event brings the disk back.
        Step::Detach(..) => Some(DRIVER_TIMEOUT),
        _ => None,
    });
    let effects: Vec<_> = steps.iter().flat_map(|step| effects(view, step)).collect();
    let effects = (!effects.is_empty()).then(|| Effect::each(effects));
    Plan::of(effects).again_after(requeue.min()).waiting_for(waiting(view))
}

fn effects<'a>(view: &View<'a>, step: &Step<'a>) -> Vec<Effect<Tag<'a>>> {
    let desired = |node: &str| view.on_node(node).and_then(|on_node| on_node.desired);
    match step {
        Step::Attach(node) => desired(node).and_then(|desired| attach(node, desired)).into_iter().collect(),
        Step::Detach(node, force) => {
            let attachment = view.on_node(node).and_then(|on_node| on_node.attachment);
            attachment.map(|attachment| detach(node, attachment, *force)).into_iter().collect()
        }
        Step::AttachFailed(node, why) => {
            let event = |desired: &DesiredAttachment| messages::attach_failed(&desired.disk, why);
            desired(node).map(|desired| warnings(desired, |_| event(desired).into())).unwrap_or_default()
        }
        Step::WarnMultiAttach(node) => {
            let others =
                view.nodes.iter().filter(|on_node| on_node.node != *node && on_node.may_be_present());
            let holders: Vec<_> = others
                .filter_map(|on_node| on_node.desired)
                .flat_map(|desired| desired.pods.iter().cloned())
                .collect();
            let events = |desired: &DesiredAttachment| {
                warnings(desired, |pod| messages::multi_attach(&desired.disk, pod, &holders).into())
            };
            desired(node).map(events).unwrap_or_default()
        }
        Step::AllowNodeAttach(_)
        | Step::Report(_)
        | Step::Verify(_)
        | Step::DetachFailed(..)
        | Step::Wait(_) => vec![],
    }
}

fn attach<'a>(node: &'a str, desired: &DesiredAttachment) -> Option<Effect<Tag<'a>>> {
    let Attacher::Driver { volume, source, .. } = &desired.disk.attacher else { return None };
    let source = match source {
        Source::Volume(name) => json!({"persistentVolumeName": name}),
        Source::Inline(spec) => json!({"inlineVolumeSpec": spec}),
    };
    let (name, driver) = (volume.attachment(node), &volume.driver);
    let spec = json!({"attacher": driver, "nodeName": node, "source": source});
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let why = format!("{} pods on node {node} need volume {}", desired.pods.len(), desired.disk.title);
    let failure = messages::attach_failed(&desired.disk, "kubernetes.io/csi: attacher.Attach failed: ");
    let create = Write::create::<VolumeAttachment>(Key::cluster(name), body)
        .why(why)
        .ignore(ErrorKinds::ALREADY_EXISTS);
    let failures = events(desired, |_| Message::ThenError(failure.clone()));
    let create = failures.fold(create, Write::on_failure);
    Some(create.tag(Tag::Attach(node)).into())
}

fn detach<'a>(node: &'a str, attachment: &VolumeAttachment, force: Option<Force>) -> Effect<Tag<'a>> {
    let why = match force {
        None => format!("no pod on node {node} needs the volume"),
        Some(Force::Timeout) => {
            format!("no pod on node {node} needs the volume; the node did not unmount it in time")
        }
        Some(Force::OutOfService) => {
            format!("no pod on node {node} needs the volume; the node is out of service")
        }
    };
    let delete = Write::delete(attachment).why(why).ignore_only(ErrorKinds::NOT_FOUND);
    delete.tag(Tag::Detach(node, force)).into()
}

/// A call of a FlexVolume driver about one disk; the string is the name of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverCall<'a> {
    Attach(&'a str, &'a FlexVolume),
    Detach(&'a str, Option<Force>),
    Verify(&'a str, &'a FlexVolume),
}

/// The calls of the driver of a FlexVolume.
pub fn driver_calls<'a>(view: &View<'a>) -> Vec<DriverCall<'a>> {
    let volume = |node| view.on_node(node)?.desired?.disk.flex();
    let call = |step: Step<'a>| match step {
        Step::Attach(node) => Some(DriverCall::Attach(node, volume(node)?)),
        Step::Verify(node) => Some(DriverCall::Verify(node, volume(node)?)),
        Step::Detach(node, force) => {
            view.on_node(node)?.flex.as_ref().map(|_| DriverCall::Detach(node, force))
        }
        _ => None,
    };
    view.steps().into_iter().filter_map(call).collect()
}

/// A warning for each pod that needs the disk.
pub(super) fn events(
    desired: &DesiredAttachment,
    message: impl Fn(&Pod) -> Message,
) -> impl Iterator<Item = Event> {
    desired.pods.iter().map(move |pod| Event::warning(FAILED, message(pod)).about(ObjectRef::of(&**pod)))
}

/// The same as effects.
fn warnings<T>(desired: &DesiredAttachment, message: impl Fn(&Pod) -> Message) -> Vec<Effect<T>> {
    events(desired, message).map(Effect::from).collect()
}

/// What has to happen until the disk is attached to exactly the nodes whose pods need it.
fn waiting(view: &View<'_>) -> Vec<Waiting> {
    let wait = |on_node: &DiskOnNode<'_>| {
        let node = Key::cluster(on_node.node);
        let on_attachment = |attachment: &VolumeAttachment, until: &'static str| {
            Waiting::on::<VolumeAttachment>(&Key::cluster(attachment.metadata.name.as_str()), until)
        };
        match (on_node.desired, on_node.attachment) {
            _ if on_node.is_unmanaged => None,
            (Some(desired), Some(_)) if on_node.is_deleted => {
                let pod = desired.pods.first()?;
                Some(Waiting::on::<Pod>(&pod.key(), "to be deleted, as its node was"))
            }
            (_, Some(found)) if found.metadata.is_deleting() => {
                Some(on_attachment(found, "to be detached by its driver"))
            }
            (Some(_), Some(found)) if !found.status.attached => {
                Some(on_attachment(found, "to be attached by its driver"))
            }
            (None, _) if on_node.may_be_present() && !on_node.may_detach(view.policy.force_on_timeout) => {
                Some(Waiting::on::<Node>(&node, "to unmount the volume"))
            }
            _ => None,
        }
    };
    view.nodes.iter().filter_map(wait).collect()
}

/// The nodes that are read from the server before the disk is detached from them. If the cache is stale, the disk may
/// still be mounted, and detaching it could corrupt data.
pub fn nodes_to_confirm<'a>(view: &View<'a>) -> Vec<&'a str> {
    let node = |step: Step<'a>| match step {
        Step::Detach(node, None) => Some(node),
        _ => None,
    };
    view.steps().into_iter().filter_map(node).collect()
}

/// Why a disk must not be detached from a node, according to a live read of the node; `None` if it may be detached.
pub fn detach_blocker(live: &Result<Node, Error>, disk: &str) -> Option<String> {
    match live {
        Ok(node) if NodeState::of(node, disk).is_mounted => {
            Some("the volume is in volumesInUse of the node's status".to_owned())
        }
        Ok(node) if reports(node, disk) => {
            Some("the volume is in volumesAttached of the node's status".to_owned())
        }
        Err(error) if !error.is_not_found() => Some(format!("reading the node: {error}")),
        _ => None,
    }
}
