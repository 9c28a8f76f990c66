//! The shell: look up, plan, ask drivers and nodes, tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, VolumeAttachment};
use flyball_client::Patch;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use parking_lot::Mutex;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::invariants;
use super::ledger::Ledger;
use super::metrics::Numbers;
use super::plan::{Force, Place, Stand, Step, plan};
use super::report::{Entry, report};
use super::wants::{BY_REPORTED, BY_TARGET, Caches, Want, is_managed};
use super::wording;
use crate::disk::{Attacher, DriverVolume, Source};

const ATTACHED: &str = "SuccessfulAttachVolume";
const FAILED: &str = "FailedAttachVolume";

/// What both sides of the controller share.
pub(super) struct Shared {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) caches: Caches,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) numbers: Numbers,
    /// Disks to be looked at.
    pub(super) disks: Queue<Key>,
    /// Nodes whose status may have to say something else.
    pub(super) nodes: Queue<Key>,
}

/// Brings each disk to where it is wanted.
pub(super) struct Disks(pub(super) Arc<Shared>);

/// Lets the status of each node say which disks are attached.
pub(super) struct Nodes(pub(super) Arc<Shared>);

impl Shared {
    /// Whether disks may be taken from nodes that are not well.
    fn forces(&self) -> bool {
        !self.cx.config.attach_detach_controller.disable_force_detach_on_timeout
    }

    /// A node has come or changed; or it has gone, and this was its last word.
    pub(super) fn node_changed(&self, node: &str, last: Option<&Arc<Node>>) {
        let mut ledger = self.ledger.lock();
        match last {
            None => ledger.came(node),
            Some(last) => {
                let attachments = self.caches.attachments.store();
                let has_some = |node: &str| !attachments.by(&BY_TARGET, node).is_empty();
                ledger.went(node, &last.status.volumes_in_use, has_some);
            }
        }
    }

    /// The disks that pods want on a node, and those that drivers are asked to attach to it.
    pub(super) fn disks_at(&self, node: &str) -> BTreeSet<SmolStr> {
        let asked = self.caches.attachments.store().by(&BY_TARGET, node);
        let asked = asked.iter().filter_map(|attachment| self.caches.disk_name_of(attachment));
        self.caches.wanted_on(node).into_keys().chain(asked).collect()
    }

    fn tell(&self, want: &Want, message: impl Fn(&flyball_api::pod::Pod) -> String) {
        for pod in &want.pods {
            self.events.warning(&ObjectRef::of(&**pod), FAILED, message(pod));
        }
    }
}

/// What a node that is there says about a disk.
fn stand_of(node: &Node, disk: &str) -> Stand {
    Stand {
        is_mounted: node.status.volumes_in_use.iter().any(|name| name == disk),
        is_healthy: node.is_ready(),
        is_out_of_service: node.is_declared_out_of_service(),
    }
}

/// The disk on each of the nodes, with what was noted about it there.
fn places<'a>(
    ledger: &mut Ledger,
    disk: &str,
    known: &'a BTreeMap<SmolStr, Option<Arc<Node>>>,
    wants: &'a BTreeMap<SmolStr, Want>,
    attachments: &'a BTreeMap<SmolStr, Arc<VolumeAttachment>>,
) -> Vec<Place<'a>> {
    let now = Instant::now();
    ledger.keep(disk, |node| known.contains_key(node));
    let place = |(name, node): (&'a SmolStr, &'a Option<Arc<Node>>)| {
        let (want, attachment) = (wants.get(name), attachments.get(name).map(|found| &**found));
        let is_told = node.as_ref().is_some_and(|node| reports(node, disk));
        let is_reported = is_told || ledger.is_telling(name, disk);
        let stand = match node {
            Some(node) => stand_of(node, disk),
            None => Stand { is_mounted: ledger.was_mounted(name, disk), ..Stand::default() },
        };
        let is_on_its_way = attachment.is_some_and(|found| !found.status.attached);
        let note = ledger.note(disk, name);
        // The cache shows what the last sync has written.
        note.is_leaving = false;
        if want.is_some() {
            note.wanted();
        } else {
            note.is_admitted = false;
        }
        Place {
            node: name,
            want,
            attachment,
            is_reported,
            is_admitted: note.is_admitted,
            stand,
            unwanted_for: if want.is_none() { note.unwanted(now) } else { Duration::ZERO },
            attaching_for: if is_on_its_way { note.attaching(now) } else { Duration::ZERO },
            has_failed: note.rest().has_failed(),
            is_resting: note.rest().is_on(now),
            is_leaving: false,
            is_left_alone: node.as_ref().is_some_and(|node| !is_managed(node)),
        }
    };
    known.iter().map(place).collect()
}

/// Notes what is about to be done, for those who see to the status of nodes.
fn note(ledger: &mut Ledger, disk: &str, steps: &[Step<'_>]) {
    for step in steps {
        match step {
            Step::Admit(node) => ledger.note(disk, node).is_admitted = true,
            Step::Detach(node, _) => ledger.note(disk, node).is_leaving = true,
            _ => {}
        }
    }
}

impl Reconcile for Disks {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let (disk, caches) = (&key.name, &self.0.caches);
        let (wants, attachments, known);
        let (places, steps) = {
            // From the first look to the last note in one go: what a node is told meanwhile would be missed.
            let mut ledger = self.0.ledger.lock();
            let volume = DriverVolume::named(disk);
            wants = caches.wanting(disk);
            attachments = volume.as_ref().map(|volume| caches.attachments_of(volume)).unwrap_or_default();
            known = self.nodes_of(disk, &wants, &attachments);
            let places = places(&mut ledger, disk, &known, &wants, &attachments);
            let steps = plan(&places, self.0.forces());
            self.0.cx.judge(|| invariants::check(&places, &steps));
            note(&mut ledger, disk, &steps);
            (places, steps)
        };
        let mut next = Next::Settled;
        for step in steps {
            let place = |node: &str| places.iter().find(|place| place.node == node);
            match step {
                Step::Attach(node) => self.attach(key, node, &wants[node]).await,
                Step::Detach(node, force) => {
                    if let Some(attachment) = place(node).and_then(|place| place.attachment) {
                        self.detach(key, node, attachment, force).await;
                    }
                }
                Step::Admit(node) | Step::Report(node) => {
                    self.0.nodes.add(Key::cluster(node), Priority::Change);
                }
                Step::AttachFailed(node, why) => self.attach_failed(disk, node, &wants[node], &why),
                Step::DetachFailed(node, why) => self.detach_failed(disk, node, Duration::ZERO, &why),
                Step::TellHeld(node) => self.tell_held(disk, node, &wants),
                Step::Wait(delay) => next = next.within(delay),
            }
        }
        Ok(self.rest_left(disk, &known).map_or(next, |left| next.within(left)))
    }
}

impl Disks {
    /// The nodes that have a disk or want it.
    fn nodes_of(
        &self,
        disk: &str,
        wants: &BTreeMap<SmolStr, Want>,
        attachments: &BTreeMap<SmolStr, Arc<VolumeAttachment>>,
    ) -> BTreeMap<SmolStr, Option<Arc<Node>>> {
        let caches = &self.0.caches;
        let reporting = caches.nodes.store().by(&BY_REPORTED, disk);
        let names: BTreeSet<SmolStr> = wants
            .keys()
            .chain(attachments.keys())
            .cloned()
            .chain(reporting.iter().map(|node| node.metadata.name.clone()))
            .collect();
        let known = names.into_iter().map(|name| {
            let node = caches.node(&name);
            (name, node)
        });
        known.collect()
    }

    /// When the next try on one of the nodes is due.
    fn rest_left(&self, disk: &str, known: &BTreeMap<SmolStr, Option<Arc<Node>>>) -> Option<Duration> {
        let (now, ledger) = (Instant::now(), self.0.ledger.lock());
        known.keys().filter_map(|node| ledger.find(disk, node)?.rest().left(now)).min()
    }

    async fn attach(&self, key: &Key, node: &str, want: &Want) {
        let Attacher::Driver { volume, source, .. } = &want.disk.by else { return };
        let source = match source {
            Source::Volume(name) => json!({"persistentVolumeName": name}),
            Source::Inline(spec) => json!({"inlineVolumeSpec": spec}),
        };
        let spec = json!({"attacher": volume.driver, "nodeName": node, "source": source});
        let body = json!({"metadata": {"name": volume.attachment(node)}, "spec": spec});
        let why = format!("{} pods on node {node} want volume {}", want.pods.len(), want.disk.title);
        self.0.ledger.lock().note(&key.name, node).attaching(Instant::now());
        match self.0.cx.writer(key).create::<VolumeAttachment>("", &body, why).await {
            Err(error) if !error.is_already_exists() => {
                let why = format!("kubernetes.io/csi: attacher.Attach failed: {error}");
                self.attach_failed(&key.name, node, want, &why);
            }
            _ => {}
        }
    }

    async fn detach(&self, key: &Key, node: &str, attachment: &VolumeAttachment, force: Option<Force>) {
        let begun = Instant::now();
        if force.is_none()
            && let Err(why) = self.ask(&key.name, node).await
        {
            return self.detach_failed(&key.name, node, begun.elapsed(), &why);
        }
        if let Some(force) = force {
            tracing::warn!(disk = %key.name, node, ?force, "detaching by force; the node was not asked");
            self.0.numbers.forced(force);
        }
        let (name, options) =
            (Key::cluster(attachment.metadata.name.as_str()), exactly(&attachment.metadata));
        let why = format!("no pod on node {node} wants the disk");
        match self.0.cx.writer(key).delete::<VolumeAttachment>(&name, options, why).await {
            Err(error) if !error.is_not_found() => {
                self.detach_failed(&key.name, node, begun.elapsed(), &error.to_string());
            }
            _ => {
                match attachment.status.detach_error.as_ref().filter(|_| attachment.metadata.is_deleting()) {
                    // It was going already, and what its driver said stands.
                    Some(error) => self.detach_failed(&key.name, node, begun.elapsed(), &error.message),
                    None => {
                        self.0.ledger.lock().note(&key.name, node).succeeded();
                        self.0.numbers.detached(&key.name, begun.elapsed(), true);
                    }
                }
            }
        }
    }

    /// Asks the server whether the node has the disk mounted: the cache may be behind, and data is at stake.
    async fn ask(&self, disk: &str, node: &str) -> Result<(), String> {
        match self.0.cx.client.get::<Node>(&Key::cluster(node)).await {
            Ok(found) if stand_of(&found, disk).is_mounted => {
                Err("the disk is still in use by the node, according to its status".to_owned())
            }
            Ok(found) if reports(&found, disk) => {
                Err("the disk may be used by the node, according to its status".to_owned())
            }
            Err(error) if !error.is_not_found() => Err(format!("fetching the node: {error}")),
            _ => Ok(()),
        }
    }

    fn attach_failed(&self, disk: &str, node: &str, want: &Want, why: &str) {
        tracing::warn!(disk, node, why, "a disk could not be attached; trying again");
        self.0.tell(want, |_| wording::failed(&want.disk, why));
        let now = Instant::now();
        let mut ledger = self.0.ledger.lock();
        let note = ledger.note(disk, node);
        self.0.numbers.attached(&want.disk, note.attaching_for(now), false);
        note.failed(now);
    }

    fn detach_failed(&self, disk: &str, node: &str, took: Duration, why: &str) {
        tracing::warn!(disk, node, why, "a disk could not be detached; trying again");
        self.0.numbers.detached(disk, took, false);
        self.0.ledger.lock().note(disk, node).failed(Instant::now());
    }

    fn tell_held(&self, disk: &str, node: &str, wants: &BTreeMap<SmolStr, Want>) {
        if std::mem::replace(&mut self.0.ledger.lock().note(disk, node).is_told, true) {
            return;
        }
        let others = wants.iter().filter(|(name, _)| *name != node);
        let holders: Vec<_> = others.flat_map(|(_, want)| want.pods.iter().cloned()).collect();
        let want = &wants[node];
        self.0.tell(want, |pod| wording::held(&want.disk, pod, &holders));
    }
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, .. } = &*self.0;
        let (node, wants, found);
        let told = {
            // From the first look to the last note in one go: what is done about disks meanwhile would be missed.
            let mut ledger = self.0.ledger.lock();
            for disk in ledger.told(&key.name) {
                self.0.disks.add(Key::cluster(disk), Priority::Change);
            }
            let Some(managed) = caches.node(&key.name).filter(|node| is_managed(node)) else {
                return Ok(Next::Settled);
            };
            node = managed;
            wants = caches.wanted_on(&key.name);
            found = self.disks_of(&node, &wants);
            let told = report(
                &node.status.volumes_attached,
                &entries(&ledger, &node, &found, &wants),
                self.0.forces(),
            );
            ledger.telling(&key.name, told.as_ref().map(|told| &*told.new).unwrap_or_default());
            told
        };
        let Some(told) = told else { return Ok(Next::Settled) };
        let list = if told.volumes.is_empty() { Value::Null } else { json!(told.volumes) };
        let patch = Patch::Strategic(json!({"status": {"volumesAttached": list}}));
        let why = format!("{} disks are attached", told.volumes.len());
        match cx.writer(key).patch::<Node>(key, Some("status"), patch, why).await {
            Err(error) if !error.is_not_found() => {
                return Err(SyncError::api(format!("writing which disks node {key} has"))(error));
            }
            _ => {}
        }
        for disk in told.new {
            self.attached(&key.name, &wants[disk]);
        }
        Ok(Next::Settled)
    }
}

/// The disks of a node, with what was noted about them.
fn entries<'a>(
    ledger: &Ledger,
    node: &'a Node,
    found: &'a [(SmolStr, Option<Arc<VolumeAttachment>>)],
    wants: &'a BTreeMap<SmolStr, Want>,
) -> Vec<Entry<'a>> {
    let (now, name) = (Instant::now(), node.metadata.name.as_str());
    let entry = |(disk, attachment): &'a (SmolStr, Option<Arc<VolumeAttachment>>)| {
        let note = ledger.find(disk, name);
        let place = Place {
            node: name,
            want: wants.get(disk),
            attachment: attachment.as_deref(),
            is_reported: reports(node, disk),
            is_admitted: note.is_some_and(|note| note.is_admitted),
            stand: stand_of(node, disk),
            unwanted_for: note.map_or(Duration::ZERO, |note| note.unwanted_for(now)),
            is_leaving: note.is_some_and(|note| note.is_leaving),
            ..Place::default()
        };
        Entry { disk, place }
    };
    found.iter().map(entry).collect()
}

impl Nodes {
    /// The disks that a node wants or is said to have, with the requests to attach them there.
    fn disks_of(
        &self,
        node: &Node,
        wants: &BTreeMap<SmolStr, Want>,
    ) -> Vec<(SmolStr, Option<Arc<VolumeAttachment>>)> {
        let said = node.status.volumes_attached.iter().map(|volume| &volume.name);
        let names: BTreeSet<&SmolStr> = wants.keys().chain(said).collect();
        let attachment = |disk: &str| {
            let name = DriverVolume::named(disk)?.attachment(&node.metadata.name);
            self.0.caches.attachments.store().get(&Key::cluster(name))
        };
        names.into_iter().map(|disk| (disk.clone(), attachment(disk))).collect()
    }

    /// Tells that a disk is there.
    fn attached(&self, node: &str, want: &Want) {
        for pod in &want.pods {
            self.0.events.normal(&ObjectRef::of(&**pod), ATTACHED, wording::attached(&want.disk));
        }
        let mut ledger = self.0.ledger.lock();
        let note = ledger.note(&want.disk.name, node);
        self.0.numbers.attached(&want.disk, note.attaching_for(Instant::now()), true);
        note.succeeded();
    }
}

/// Whether the status of a node says that a disk is attached.
fn reports(node: &Node, disk: &str) -> bool {
    node.status.volumes_attached.iter().any(|volume| volume.name == disk)
}
