//! The syncs of a disk and of the status of a node: observe, plan, execute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, PersistentVolume, VolumeAttachment};
use flyball_cache::Change;
use flyball_client::Fence;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::Recorder;
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use futures::future::try_join_all;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::caches::{BY_TARGET, Caches, DesiredAttachment, is_managed};
use super::disk_on_node::{DiskOnNode, FlexAttachment, FlexState, NodeState, device_of, is_inline, reports};
use super::flex::{CallError, SCAN_PERIOD};
use super::invariants;
use super::ledger::{Detached, Ledger};
use super::metrics::DiskMetrics;
use super::plan::{self, Attempt, DriverCall, View, plan};
use super::report::{self, Entry, report};
use super::steps::{Policy, Step};
use crate::disk::{DriverVolume, flex_name};

/// A shorter `--attach-detach-reconcile-sync-period` disables the check.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// What both syncs share.
pub(super) struct Shared {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) caches: Caches,
    pub(super) ledger: Mutex<Ledger>,
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
        let config = &self.cx.config.attach_detach_controller;
        let period = config.reconciler_sync_loop_period;
        let verifies = !config.disable_reconciler_sync && period >= SHORTEST_PERIOD;
        Policy {
            force_on_timeout: !config.disable_force_detach_on_timeout,
            verify_after: verifies.then_some(period),
        }
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
        self.count_forced(disk, &view);
        let executor = cx.executor(key).events(&self.0.events);
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        self.record(disk, &view, &plan::attempts(&view, &outcome));
        let calls = plan::driver_calls(&view);
        let is_called = !calls.is_empty();
        if is_called {
            let calls = calls.into_iter().map(|call| self.call_driver(disk, call));
            let ended: Vec<_> = try_join_all(calls).await?.into_iter().flatten().collect();
            executor.perform(plan::events_of_failed_calls(&view, &ended).effects).await;
            self.record(disk, &view, &ended);
        }
        let next_attempt = self.0.ledger.lock().next_attempt(disk, Instant::now());
        if is_called {
            // The answers change what is to be done: the disk is reported, or attached to another node.
            self.0.add_disk(disk.clone(), Priority::Change);
        }
        Ok(next_attempt.map_or(next, |delay| next.within(delay)))
    }
}

impl DiskSync {
    /// Calls the driver of a FlexVolume, and records its answers. Returns the attempts that have ended; a success of `attach` ends when
    /// the disk is in `status.volumesAttached`.
    async fn call_driver<'a>(
        &self,
        disk: &str,
        call: DriverCall<'a>,
    ) -> Result<Option<Attempt<'a>>, SyncError> {
        let Shared { cx, caches, ledger, .. } = &*self.0;
        // Right before each call, as for writes.
        let fence = cx.client.options().fence.as_ref().map_or(Ok(()), Fence::check);
        fence.map_err(|error| SyncError::other("calling a FlexVolume driver", error))?;
        let record = |node: &str, attachment| {
            ledger.lock().record_flex(disk, node, attachment, Instant::now());
        };
        let text = |error: CallError| Chain(&error).to_string();
        if let DriverCall::Attach(node, _) | DriverCall::Detach(node, _) = call {
            // For the case that this future is dropped: the program continues.
            record(node, FlexAttachment::Uncertain);
        }
        Ok(match call {
            DriverCall::Attach(node, volume) => match caches.flex_drivers.attach(volume, node).await {
                Ok(device) => {
                    tracing::info!(disk, node, %device, "attached by a FlexVolume driver");
                    record(node, FlexAttachment::Attached(device));
                    None
                }
                Err(error) => Some(Attempt { node, is_detach: false, error: Some(text(error)) }),
            },
            DriverCall::Detach(node, _) => {
                let error = caches.flex_drivers.detach(disk, node).await.map_err(text).err();
                if error.is_none() {
                    tracing::info!(disk, node, "detached by a FlexVolume driver");
                    record(node, FlexAttachment::None);
                }
                Some(Attempt { node, is_detach: true, error })
            }
            DriverCall::Verify(node, volume) => {
                let answer = caches.flex_drivers.is_attached(volume, node).await;
                if let Err(error) = &answer {
                    let error = Chain(error);
                    tracing::warn!(disk, node, %error, "cannot check whether a volume is attached");
                }
                let is_attached = !matches!(answer, Ok(Some(false)));
                if !is_attached {
                    tracing::warn!(
                        disk,
                        node,
                        "the volume is no longer attached, says its FlexVolume driver"
                    );
                }
                ledger.lock().flex_verified(disk, node, is_attached, Instant::now());
                None
            }
        })
    }

    fn count_forced(&self, disk: &str, view: &View<'_>) {
        for step in view.steps() {
            if let Step::Detach(node, Some(force)) = step {
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
            let on_node = view.nodes.iter().find(|on_node| on_node.node == *node);
            match (on_node.and_then(|on_node| on_node.desired), error) {
                (Some(desired), _) if !is_detach => metrics.attached(&desired.disk, took, error.is_none()),
                (_, Some(_)) => {
                    let attachment = on_node.and_then(|on_node| on_node.attachment);
                    let is_migrated = attachment.is_some_and(is_inline) || self.0.caches.is_migrated(disk);
                    metrics.detached(disk, took, false, is_migrated);
                }
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
                self.0.add_disk(disk, Priority::Change);
            }
            let Some(managed) = caches.node(&key.name).filter(|node| is_managed(node)) else {
                return Ok(Next::Settled);
            };
            node = managed;
            desired = caches.desired_on(&key.name);
            found = self.disks_of(&node, &desired);
            let entries = entries(&ledger, caches, &node, &found, &desired);
            let view =
                report::View { node: &node, entries, force_on_timeout: self.0.policy().force_on_timeout };
            let report = report(&view);
            cx.judge(|| report.as_ref().map_or(Ok(()), |report| invariants::check_report(&view, report)));
            let report = report.unwrap_or_default();
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
    caches: &Caches,
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
        let flex = caches.is_flex_driver_installed(disk).map(|is_driver_installed| {
            let state = ledger.flex(disk, name, device_of(node, disk), now);
            FlexState { is_driver_installed, ..state }
        });
        let on_node = DiskOnNode {
            flex,
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
