//! The shells for disks and for the status of nodes: observe, plan, execute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, PersistentVolume, VolumeAttachment};
use flyball_cache::Change;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::Recorder;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::invariants;
use super::ledger::Ledger;
use super::metrics::DiskMetrics;
use super::place::{NodeState, Place, reports};
use super::plan::{self, Attempt, Tag, View, plan};
use super::report::{self, Entry, report};
use super::steps::Step;
use super::wants::{BY_TARGET, Caches, Want, is_managed};
use crate::disk::DriverVolume;

/// What both shells share.
pub(super) struct Shared {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) caches: Caches,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) metrics: DiskMetrics,
    pub(super) disks: Queue<Key>,
    /// Nodes whose status may have to change.
    pub(super) nodes: Queue<Key>,
}

/// Attaches and detaches each disk.
pub(super) struct Disks(pub(super) Arc<Shared>);

/// Keeps the status of each node up to date.
pub(super) struct Nodes(pub(super) Arc<Shared>);

impl Shared {
    fn forces(&self) -> bool {
        !self.cx.config.attach_detach_controller.disable_force_detach_on_timeout
    }

    /// Records what a deleted node had mounted, or that a node exists.
    pub(super) fn record_node(&self, change: &Change<'_, Node>) {
        let (node, mut ledger) = (change.key().name, self.ledger.lock());
        match (change.old, change.new) {
            (Some(last), None) if is_managed(last) => {
                let attachments = self.caches.attachments.store();
                let has_some = |node: &str| !attachments.by(&BY_TARGET, node).is_empty();
                ledger.node_deleted(&node, &last.status.volumes_in_use, has_some);
            }
            _ => ledger.node_exists(&node),
        }
    }
}

impl Reconcile for Disks {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, ledger, .. } = &*self.0;
        let disk = &key.name;
        if let Some(orphan) = caches.orphan(disk).filter(|orphan| caches.may_lack_volume_of(orphan)) {
            return Ok(cx.sync_at::<PersistentVolume>(key, orphan.metadata.resource_version));
        }
        let observed;
        let mut view = {
            // One lock from the first look to the last record, or a report of the node in between would be missed.
            let (mut ledger, now) = (ledger.lock(), Instant::now());
            let users = caches.users(disk, |node| ledger.was_managed(node));
            caches.remember(disk, &users);
            observed = caches.observe(disk, &users);
            for (_, took) in ledger.observe(disk, observed.sightings(disk), now) {
                self.0.metrics.detached(disk, took, true, caches.is_migrated(disk));
            }
            let view = View { places: observed.places(&ledger, disk, now), forces: self.0.forces() };
            ledger.begin(disk, &view.steps(), now);
            view
        };
        for node in plan::to_confirm(&view) {
            let answer = cx.client.get::<Node>(&Key::cluster(node)).await;
            let place = view.places.iter_mut().find(|place| place.node == node);
            place.into_iter().for_each(|place| place.refusal = plan::refusal(&answer, disk));
        }
        cx.judge(|| invariants::check(&view));
        for step in view.steps() {
            match step {
                Step::AllowNodeAttach(node) | Step::Report(node) => {
                    self.0.nodes.add(Key::cluster(node), Priority::Change)
                }
                _ => {}
            }
        }
        let plan = plan(&view);
        let next = plan.next();
        self.count_forced(disk, plan.writes().iter().map(|write| write.tag));
        let executor = cx.executor(key).events(&self.0.events);
        executor.wait_for(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        self.record(disk, &view, &plan::attempts(&view, &outcome));
        let next_attempt = self.0.ledger.lock().next_attempt(disk, Instant::now());
        Ok(next_attempt.map_or(next, |delay| next.within(delay)))
    }
}

impl Disks {
    fn count_forced<'a>(&self, disk: &str, tags: impl Iterator<Item = Tag<'a>>) {
        for tag in tags {
            if let Tag::Detach(node, Some(force)) = tag {
                tracing::warn!(disk, node, ?force, "detaching a disk by force");
                self.0.metrics.forced(force);
            }
        }
    }

    /// Records the attempts that have ended in the ledger and in metrics.
    fn record(&self, disk: &str, view: &View<'_>, attempts: &[Attempt<'_>]) {
        let (mut ledger, now, metrics) = (self.0.ledger.lock(), Instant::now(), &self.0.metrics);
        for Attempt { node, is_detach, error } in attempts {
            if let Some(error) = error {
                let doing = if *is_detach { "detach" } else { "attach" };
                tracing::warn!(disk, node, doing, error, "an operation on a disk failed; trying again");
            }
            let took = match error {
                Some(_) => ledger.failed(disk, node, now),
                None => ledger.succeeded(disk, node, now),
            };
            let want = view.places.iter().find(|place| place.node == *node).and_then(|place| place.want);
            match (want, error) {
                (Some(want), _) if !is_detach => metrics.attached(&want.disk, took, error.is_none()),
                (_, Some(_)) => metrics.detached(disk, took, false, self.0.caches.is_migrated(disk)),
                // It counts when the VolumeAttachment is gone.
                (_, None) => {}
            }
        }
    }
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, ledger, metrics, events, .. } = &*self.0;
        let (node, wants, found);
        let (view, attached, detached) = {
            // One lock from the first look to the last record, or a step for a disk in between would be missed.
            let mut ledger = ledger.lock();
            for disk in ledger.end_report(&key.name) {
                self.0.disks.add(Key::cluster(disk), Priority::Change);
            }
            let Some(managed) = caches.node(&key.name).filter(|node| is_managed(node)) else {
                return Ok(Next::Settled);
            };
            node = managed;
            wants = caches.wanted_on(&key.name);
            found = self.disks_of(&node, &wants);
            let entries = entries(&ledger, &node, &found, &wants);
            let view = report::View { node: &node, entries, forces: self.0.forces() };
            let report = report(&view).unwrap_or_default();
            ledger.begin_report(&key.name, &report.new);
            (view, report.attached, report.detached)
        };
        let outcome = cx.executor(key).events(events).perform(report::plan(&view).effects).await;
        if outcome.written().next().is_some() {
            let (mut ledger, now) = (ledger.lock(), Instant::now());
            for disk in detached {
                metrics.detached(&disk, Duration::ZERO, true, false);
            }
            for disk in attached {
                ledger.reported(disk, &key.name);
                metrics.attached(&wants[disk].disk, ledger.succeeded(disk, &key.name, now), true);
            }
        }
        outcome.result().map(|()| Next::Settled)
    }
}

type Found = Vec<(SmolStr, Option<Arc<VolumeAttachment>>)>;

impl Nodes {
    /// The disks that are wanted on a node or named by its status, with their VolumeAttachments.
    fn disks_of(&self, node: &Node, wants: &BTreeMap<SmolStr, Want>) -> Found {
        let reported = node.status.volumes_attached.iter().map(|volume| &volume.name);
        let names: BTreeSet<&SmolStr> = wants.keys().chain(reported).collect();
        let attachment = |disk: &str| {
            let name = DriverVolume::named(disk)?.attachment(&node.metadata.name);
            self.0.caches.attachments.store().get(&Key::cluster(name))
        };
        names.into_iter().map(|disk| (disk.clone(), attachment(disk))).collect()
    }
}

/// The disks of a node, with what the ledger has about them.
fn entries<'a>(
    ledger: &Ledger,
    node: &'a Node,
    found: &'a Found,
    wants: &'a BTreeMap<SmolStr, Want>,
) -> Vec<Entry<'a>> {
    let (now, name) = (Instant::now(), node.metadata.name.as_str());
    let entry = |(disk, attachment): &'a (SmolStr, Option<Arc<VolumeAttachment>>)| {
        let place = ledger.place(disk, name, now);
        // It may be detached under the name of its VolumeAttachment, because another volume for the disk was deleted.
        let is_orphan_detaching = attachment
            .as_ref()
            .is_some_and(|found| ledger.place(&found.metadata.name, name, now).is_detaching);
        let place = Place {
            want: wants.get(disk),
            attachment: attachment.as_deref(),
            is_reported: reports(node, disk),
            state: NodeState::of(node, disk),
            is_detaching: place.is_detaching || is_orphan_detaching,
            ..place
        };
        Entry { disk, place }
    };
    found.iter().map(entry).collect()
}
