//! The syncs of a disk and of the status of a node: observe, plan, execute.

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

use super::caches::{BY_TARGET, Caches, DesiredAttachment, is_managed};
use super::disk_on_node::{DiskOnNode, NodeState, reports};
use super::invariants;
use super::ledger::Ledger;
use super::metrics::DiskMetrics;
use super::plan::{self, Attempt, Tag, View, plan};
use super::report::{self, Entry, report};
use super::steps::Step;
use crate::disk::DriverVolume;

/// What both syncs share.
pub(super) struct Shared {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) caches: Caches,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) metrics: DiskMetrics,
    /// Disks to sync; the name in the key is that of the disk.
    pub(super) disks: Queue<Key>,
    /// Nodes whose status is to be synced.
    pub(super) nodes: Queue<Key>,
}

/// Attaches and detaches a disk.
pub(super) struct DiskSync(pub(super) Arc<Shared>);

/// Updates `status.volumesAttached` of a node.
pub(super) struct NodeSync(pub(super) Arc<Shared>);

impl Shared {
    fn force_on_timeout(&self) -> bool {
        !self.cx.config.attach_detach_controller.disable_force_detach_on_timeout
    }

    /// Records in the ledger what a deleted node had mounted, or that a node exists again.
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

impl Reconcile for DiskSync {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, ledger, .. } = &*self.0;
        let disk = &key.name;
        if let Some(orphan) = caches.orphan(disk).filter(|orphan| caches.may_lack_volume_of(orphan)) {
            return Ok(cx.sync_at::<PersistentVolume>(key, orphan.metadata.resource_version));
        }
        let observed;
        let mut view = {
            // The lock is held from the first read to the last record: the sync of a node must not add the disk to
            // volumesAttached in between.
            let (mut ledger, now) = (ledger.lock(), Instant::now());
            let users = caches.users(disk, |node| ledger.was_managed(node));
            caches.update_pod_disks(disk, &users);
            observed = caches.observe(disk, &users);
            for (_, took) in ledger.observe(disk, observed.observations(disk), now) {
                self.0.metrics.detached(disk, took, true, caches.is_migrated(disk));
            }
            let view = View {
                nodes: observed.on_nodes(&ledger, disk, now),
                force_on_timeout: self.0.force_on_timeout(),
            };
            ledger.begin(disk, &view.steps(), now);
            view
        };
        for node in plan::nodes_to_confirm(&view) {
            let live = cx.client.get::<Node>(&Key::cluster(node)).await;
            let on_node = view.nodes.iter_mut().find(|on_node| on_node.node == node);
            on_node
                .into_iter()
                .for_each(|on_node| on_node.detach_blocker = plan::detach_blocker(&live, disk));
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
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        self.record(disk, &view, &plan::attempts(&view, &outcome));
        let next_attempt = self.0.ledger.lock().next_attempt(disk, Instant::now());
        Ok(next_attempt.map_or(next, |delay| next.within(delay)))
    }
}

impl DiskSync {
    fn count_forced<'a>(&self, disk: &str, tags: impl Iterator<Item = Tag<'a>>) {
        for tag in tags {
            if let Tag::Detach(node, Some(force)) = tag {
                tracing::warn!(disk, node, ?force, "forced detach");
                self.0.metrics.forced(force);
            }
        }
    }

    /// Records the attempts that have ended in the ledger and in metrics.
    fn record(&self, disk: &str, view: &View<'_>, attempts: &[Attempt<'_>]) {
        let (mut ledger, now, metrics) = (self.0.ledger.lock(), Instant::now(), &self.0.metrics);
        for Attempt { node, is_detach, error } in attempts {
            if let Some(error) = error {
                let operation = if *is_detach { "detach" } else { "attach" };
                tracing::warn!(disk, node, operation, error, "failed; retrying with backoff");
            }
            let took = match error {
                Some(_) => ledger.failed(disk, node, now),
                None => ledger.succeeded(disk, node, now),
            };
            let desired =
                view.nodes.iter().find(|on_node| on_node.node == *node).and_then(|on_node| on_node.desired);
            match (desired, error) {
                (Some(desired), _) if !is_detach => metrics.attached(&desired.disk, took, error.is_none()),
                (_, Some(_)) => metrics.detached(disk, took, false, self.0.caches.is_migrated(disk)),
                // A detach is counted when the VolumeAttachment is gone.
                (_, None) => {}
            }
        }
    }
}

impl Reconcile for NodeSync {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, ledger, metrics, events, .. } = &*self.0;
        let (node, desired, found);
        let (view, attached, detached) = {
            // The lock is held from the first read to the last record: the sync of a disk must not begin a detach in between.
            let mut ledger = ledger.lock();
            for disk in ledger.end_report(&key.name) {
                self.0.disks.add(Key::cluster(disk), Priority::Change);
            }
            let Some(managed) = caches.node(&key.name).filter(|node| is_managed(node)) else {
                return Ok(Next::Settled);
            };
            node = managed;
            desired = caches.desired_on(&key.name);
            found = self.disks_of(&node, &desired);
            let entries = entries(&ledger, &node, &found, &desired);
            let view = report::View { node: &node, entries, force_on_timeout: self.0.force_on_timeout() };
            let report = report(&view).unwrap_or_default();
            ledger.begin_report(&key.name, &report.added);
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
                metrics.attached(&desired[disk].disk, ledger.succeeded(disk, &key.name, now), true);
            }
        }
        outcome.result().map(|()| Next::Settled)
    }
}

type Found = Vec<(SmolStr, Option<Arc<VolumeAttachment>>)>;

impl NodeSync {
    /// The disks that pods on a node need, and those in `status.volumesAttached`, with their VolumeAttachments.
    fn disks_of(&self, node: &Node, desired: &BTreeMap<SmolStr, DesiredAttachment>) -> Found {
        let reported = node.status.volumes_attached.iter().map(|volume| &volume.name);
        let names: BTreeSet<&SmolStr> = desired.keys().chain(reported).collect();
        let attachment = |disk: &str| {
            let name = DriverVolume::named(disk)?.attachment(&node.metadata.name);
            self.0.caches.attachments.store().get(&Key::cluster(name))
        };
        names.into_iter().map(|disk| (disk.clone(), attachment(disk))).collect()
    }
}

/// The state of these disks on a node.
fn entries<'a>(
    ledger: &Ledger,
    node: &'a Node,
    found: &'a Found,
    desired: &'a BTreeMap<SmolStr, DesiredAttachment>,
) -> Vec<Entry<'a>> {
    let (now, name) = (Instant::now(), node.metadata.name.as_str());
    let entry = |(disk, attachment): &'a (SmolStr, Option<Arc<VolumeAttachment>>)| {
        let on_node = ledger.on_node(disk, name, now);
        // A detach may be recorded under the name of the VolumeAttachment, see `Caches::orphan`.
        let is_orphan_detaching = attachment
            .as_ref()
            .is_some_and(|found| ledger.on_node(&found.metadata.name, name, now).is_detaching);
        let on_node = DiskOnNode {
            desired: desired.get(disk),
            attachment: attachment.as_deref(),
            is_reported: reports(node, disk),
            state: NodeState::of(node, disk),
            is_detaching: on_node.is_detaching || is_orphan_detaching,
            ..on_node
        };
        Entry { disk, on_node }
    };
    found.iter().map(entry).collect()
}
