//! The syncs of a disk and of the status of a node: observe, plan, execute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, PersistentVolume};
use flyball_cache::Change;
use flyball_client::Fence;
use flyball_common::informer_lag::Misses;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::Recorder;
use flyball_runtime::{Chain, Context, Executed, Next, Reconcile, SyncError};
use futures::future::try_join_all;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::attempts::{self, Attempt, DriverAnswer, FlexChange, Measure};
use super::caches::{BY_TARGET, Caches, DesiredAttachment, is_managed};
use super::disk_on_node::{FlexAttachment, Operation};
use super::flex::{CallError, SCAN_PERIOD};
use super::invariants;
use super::ledger::{Detached, Ledger};
use super::metrics::DiskMetrics;
use super::plan::{self, DriverCall, View, plan};
use super::report::{self, Found, report};
use super::steps::Policy;
use crate::disk::{DriverVolume, flex_name};

/// What both syncs share.
pub(super) struct Shared {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) caches: Caches,
    pub(super) ledger: Mutex<Ledger>,
    /// VolumeAttachments without a volume that were requeued until the cache of volumes was current.
    pub(super) orphans: Misses<Key>,
    pub(super) metrics: DiskMetrics,
    /// Disks to sync; the name in the key is that of the disk.
    pub(super) disks: Queue<Key>,
    /// The same for FlexVolumes.
    pub(super) flex_disks: Queue<Key>,
    /// Nodes whose status is to be synced.
    pub(super) nodes: Queue<Key>,
}

/// Attaches and detaches a disk.
pub(super) struct DiskSync(pub(super) Arc<Shared>);

/// Updates `status.volumesAttached` of a node.
pub(super) struct NodeSync(pub(super) Arc<Shared>);

impl Shared {
    fn policy(&self) -> Policy {
        Policy::of(&self.cx.config.attach_detach_controller)
    }

    /// The queue of a disk. FlexVolumes have one of their own, because a call of a driver may take long.
    pub(super) fn queue_of(&self, disk: &str) -> &Queue<Key> {
        if flex_name(disk).is_some() { &self.flex_disks } else { &self.disks }
    }

    pub(super) fn add_disk(&self, disk: SmolStr, priority: Priority) {
        self.queue_of(&disk).add(Key::cluster(disk), priority);
    }

    /// Follows the directory of FlexVolume drivers.
    pub(super) async fn follow_flex_drivers(self: Arc<Self>) {
        loop {
            let changed = self.caches.flex_drivers.scan().await;
            if !changed.is_empty() {
                for disk in self.caches.disks_of_flex_drivers(&changed) {
                    self.add_disk(disk, Priority::Change);
                }
            }
            tokio::time::sleep(SCAN_PERIOD).await;
        }
    }

    /// Records in the ledger what a deleted node had mounted, or that a node exists again.
    pub(super) fn record_node(&self, change: &Change<'_, Node>) {
        let attachments = self.caches.attachments.store();
        self.ledger.lock().node_changed(change, |node| !attachments.by(&BY_TARGET, node).is_empty());
    }
}

impl Reconcile for DiskSync {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Shared { cx, caches, ledger, orphans, .. } = &*self.0;
        let disk = &key.name;
        // The cache of volumes may only lag behind that of VolumeAttachments.
        match caches.orphan(disk).is_some() {
            true if orphans.insert(key) => return Ok(cx.sync_when_current::<PersistentVolume>(key)),
            true => {}
            false => drop(orphans.forget(key)),
        }
        let observed;
        let mut view = {
            // The lock is held from the first read to the last record: the sync of a node must not add the disk to
            // volumesAttached in between.
            let (mut ledger, now) = (ledger.lock(), Instant::now());
            let users = caches.users(disk, |node| ledger.was_managed(node));
            caches.update_pod_disks(disk, &users);
            observed = caches.observe(disk, &users, ledger.flex_nodes(disk));
            for Detached { took, is_inline, .. } in ledger.observe(disk, observed.observations(disk), now) {
                self.0.metrics.detached(disk, took, true, is_inline || caches.is_migrated(disk));
            }
            let view = View { nodes: observed.on_nodes(&ledger, disk, now), policy: self.0.policy() };
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
        for node in attempts::nodes_to_sync(&view) {
            self.0.nodes.add(Key::cluster(node), Priority::Change);
        }
        let plan = plan(&view);
        for (node, force) in attempts::forced(&view) {
            tracing::warn!(%disk, node, ?force, "forced detach");
            self.0.metrics.forced(force);
        }
        let executor = cx.executor(key).events(&self.0.events);
        // Failed attempts are in the ledger, which says when to try again.
        let Executed { next, outcome, .. } = executor.run(plan).await;
        self.record(disk, &view, &attempts::attempts(&view, &outcome));
        let calls = plan::driver_calls(&view);
        let is_due_again = attempts::is_due_again(&calls);
        let calls = calls.into_iter().map(|call| self.call_driver(disk, call));
        let ended: Vec<_> = try_join_all(calls).await?.into_iter().flatten().collect();
        executor.emit(attempts::events_of_failed_calls(&view, &ended));
        self.record(disk, &view, &ended);
        let next_attempt = self.0.ledger.lock().next_attempt(disk, Instant::now());
        if is_due_again {
            self.0.add_disk(disk.clone(), Priority::Change);
        }
        Ok(next_attempt.map_or(next, |delay| next.within(delay)))
    }
}

impl DiskSync {
    /// Calls the driver of a FlexVolume, and records its answer. Returns the attempt that has ended.
    async fn call_driver<'a>(
        &self,
        disk: &str,
        call: DriverCall<'a>,
    ) -> Result<Option<Attempt<'a>>, SyncError> {
        let Shared { cx, caches, ledger, .. } = &*self.0;
        // Right before each call, as for writes.
        let fence = cx.client.options().fence.as_ref().map_or(Ok(()), Fence::check);
        fence.map_err(|error| SyncError::other("calling a FlexVolume driver", error))?;
        let (DriverCall::Attach(node, _) | DriverCall::Detach(node, _) | DriverCall::Verify(node, _)) = call;
        let record = |change| ledger.lock().flex_changed(disk, node, change, Instant::now());
        if !matches!(call, DriverCall::Verify(..)) {
            // For the case that this future is dropped: the program continues.
            record(FlexChange::Is(FlexAttachment::Uncertain));
        }
        let (drivers, text) = (&caches.flex_drivers, |error: CallError| Chain(&error).to_string());
        let answer = match call {
            DriverCall::Attach(_, volume) => {
                DriverAnswer::Attach(drivers.attach(volume, node).await.map_err(text))
            }
            DriverCall::Detach(..) => DriverAnswer::Detach(drivers.detach(disk, node).await.map_err(text)),
            DriverCall::Verify(_, volume) => {
                DriverAnswer::Verify(drivers.is_attached(volume, node).await.map_err(text))
            }
        };
        log(disk, node, &answer);
        let (change, ended) = attempts::answered(node, answer);
        change.into_iter().for_each(record);
        Ok(ended)
    }

    /// Records the attempts that have ended in the ledger and in metrics.
    fn record(&self, disk: &str, view: &View<'_>, attempts: &[Attempt<'_>]) {
        let (mut ledger, now, metrics) = (self.0.ledger.lock(), Instant::now(), &self.0.metrics);
        for attempt in attempts {
            let Attempt { node, is_detach, error } = attempt;
            let operation = if *is_detach { Operation::Detach } else { Operation::Attach };
            if let Some(error) = error {
                tracing::warn!(disk, node, ?operation, error, "failed; retrying with backoff");
            }
            let took = match error {
                Some(_) => ledger.failed(disk, node, operation, now),
                None => ledger.succeeded(disk, node, now),
            };
            match attempts::measure(view, attempt) {
                Some(Measure::Attach { disk, is_ok }) => metrics.attached(disk, took, is_ok),
                Some(Measure::FailedDetach { is_inline }) => {
                    metrics.detached(disk, took, false, is_inline || self.0.caches.is_migrated(disk));
                }
                None => {}
            }
        }
    }
}

fn log(disk: &str, node: &str, answer: &DriverAnswer) {
    match answer {
        DriverAnswer::Attach(Ok(device)) => {
            tracing::info!(disk, node, %device, "attached by a FlexVolume driver");
        }
        DriverAnswer::Detach(Ok(())) => tracing::info!(disk, node, "detached by a FlexVolume driver"),
        DriverAnswer::Verify(Ok(Some(false))) => {
            tracing::warn!(disk, node, "the volume is no longer attached, says its FlexVolume driver");
        }
        DriverAnswer::Verify(Err(error)) => {
            tracing::warn!(disk, node, error, "cannot check whether a volume is attached");
        }
        // `record` logs the other failures.
        _ => {}
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
                self.0.add_disk(disk, Priority::Change);
            }
            let Some(managed) = caches.node(&key.name).filter(|node| is_managed(node)) else {
                return Ok(Next::Settled);
            };
            node = managed;
            desired = caches.desired_on(&key.name);
            found = self.disks_of(&node, &desired);
            let entries = report::entries(&ledger, caches, &node, &found, &desired, Instant::now());
            let view =
                report::View { node: &node, entries, force_on_timeout: self.0.policy().force_on_timeout };
            let report = report(&view);
            cx.judge(|| report.as_ref().map_or(Ok(()), |report| invariants::check_report(&view, report)));
            let report = report.unwrap_or_default();
            ledger.begin_report(&key.name, &report.added);
            (view, report.attached, report.detached)
        };
        let done = cx.executor(key).events(events).run(report::plan(&view)).await;
        if done.outcome.written().next().is_some() {
            let (mut ledger, now) = (ledger.lock(), Instant::now());
            for disk in detached {
                metrics.detached(&disk, Duration::ZERO, true, false);
            }
            for disk in attached {
                ledger.reported(disk, &key.name);
                metrics.attached(&desired[disk].disk, ledger.succeeded(disk, &key.name, now), true);
            }
        }
        done.result()
    }
}

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
