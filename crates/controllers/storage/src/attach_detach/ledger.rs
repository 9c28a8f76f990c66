//! Records of attach and detach operations that the caches do not show: when they began, failed attempts, writes in flight.
//! Pure.

use std::time::Duration;

use flyball_api::Node;
use flyball_cache::Change;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::attempts::FlexChange;
use super::caches::is_managed;
use super::disk_on_node::{DiskOnNode, Failure, FlexAttachment, FlexState, Operation};
use super::steps::Step;
use crate::backoff::Backoff;
use crate::disk::is_name_of;

/// What is recorded about one disk on one node. [`DiskOnNode`] explains the fields.
#[derive(Debug, Default)]
struct Record {
    undesired_since: Option<Instant>,
    attaching_since: Option<Instant>,
    detaching_since: Option<Instant>,
    /// Whether the driver was asked to detach it, even if that attempt has failed.
    is_detach_asked: bool,
    /// The operation that failed last.
    failed: Option<Operation>,
    backoff: Backoff,
    is_multi_attach_warned: bool,
    is_node_attach_allowed: bool,
    is_detaching: bool,
    was_reported: bool,
    is_inline: bool,
    flex: FlexAttachment,
    /// When the FlexVolume was attached, or last checked that it is.
    flex_since: Option<Instant>,
}

/// What the caches show about one disk on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Observation {
    pub(super) is_desired: bool,
    /// It is in `status.volumesAttached` of the node.
    pub(super) is_reported: bool,
    /// There is a VolumeAttachment with `status.attached: false`.
    pub(super) is_attaching: bool,
    /// There is a VolumeAttachment with `status.attached: true`.
    pub(super) is_attached: bool,
    /// There is a VolumeAttachment for an inline volume of a pod.
    pub(super) is_inline: bool,
    /// If it is a FlexVolume in `status.volumesAttached` of the node: the path of its device.
    pub(super) flex_device: Option<SmolStr>,
}

/// A disk has been detached from a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Detached {
    pub(super) node: SmolStr,
    pub(super) took: Duration,
    /// Whether its VolumeAttachment was for an inline volume of a pod.
    pub(super) is_inline: bool,
}

/// The records of all disks, by name, and then by node.
///
/// Disks and nodes have separate queues, and the barrier of a key waits only for the writes of that key. So the sync of a disk
/// records its detaches here, and the sync of a node what it adds to `status.volumesAttached`, both under the lock under which
/// they were decided: the other sync then sees them before the cache does.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: FxHashMap<SmolStr, FxHashMap<SmolStr, Record>>,
    /// The disks that deleted nodes had mounted, by node.
    deleted_nodes: FxHashMap<SmolStr, Box<[SmolStr]>>,
    /// The disks that a write in flight adds to `status.volumesAttached`, by node.
    reporting: FxHashMap<SmolStr, Box<[SmolStr]>>,
    /// Whether there ever was a FlexVolume. Most clusters have none, and need not search the records for one.
    has_had_flex: bool,
}

impl Record {
    /// Records that there is no VolumeAttachment any more, or that a FlexVolume is detached. Returns how long detaching it took, if it
    /// was asked for. Upstream: after a failure, the next attempt finds that it is detached, and is measured; if the disk is needed
    /// again by then, there is no such attempt.
    fn end_detach(&mut self, is_desired: bool, now: Instant) -> Option<Duration> {
        let since = self.detaching_since.take();
        let is_asked = std::mem::take(&mut self.is_detach_asked);
        if since.is_some() || self.failed == Some(Operation::Detach) {
            self.succeeded();
        }
        self.attaching_since = None;
        let is_measured = since.is_some() || (is_asked && !is_desired);
        is_measured.then(|| since.map_or(Duration::ZERO, |since| now.duration_since(since)))
    }

    /// An operation begins with the shortest delay after another one.
    fn failed(&mut self, operation: Operation, now: Instant) {
        if self.failed.replace(operation) != Some(operation) {
            self.backoff = Backoff::default();
        }
        self.backoff.failed(now);
    }

    fn succeeded(&mut self) {
        (self.failed, self.backoff) = (None, Backoff::default());
    }

    /// `device` is the path of the device, if the FlexVolume is in `status.volumesAttached`.
    fn observe_flex(&mut self, device: Option<SmolStr>, now: Instant) {
        match (&self.flex, device) {
            // An attempt to detach it has failed, or it will be removed from the list.
            (FlexAttachment::Uncertain | FlexAttachment::Lost, Some(_)) => {}
            (FlexAttachment::Lost, None) => self.flex = FlexAttachment::None,
            (_, Some(device)) => {
                self.flex = FlexAttachment::Attached(device);
                self.flex_since.get_or_insert(now);
            }
            (_, None) => {}
        }
    }
}

impl Ledger {
    fn record(&mut self, disk: &str, node: &str) -> &mut Record {
        self.records.entry(disk.into()).or_default().entry(node.into()).or_default()
    }

    fn find(&self, disk: &str, node: &str) -> Option<&Record> {
        self.records.get(disk)?.get(node)
    }

    /// Updates the records of a disk with what the caches show now, which includes the writes of its last sync. Records of nodes
    /// without an observation are removed. Returns the nodes from which the disk has been detached since.
    pub(super) fn observe<'a>(
        &mut self,
        disk: &str,
        observations: impl Iterator<Item = (&'a str, Observation)>,
        now: Instant,
    ) -> Vec<Detached> {
        let mut detached = vec![];
        let mut end_detach = |node: &SmolStr, record: &mut Record, is_desired: bool| {
            let Some(took) = record.end_detach(is_desired, now) else { return };
            detached.push(Detached { node: node.clone(), took, is_inline: record.is_inline });
        };
        let mut before = self.records.remove(disk).unwrap_or_default();
        let has_had_flex = &mut self.has_had_flex;
        let observe = |(node, observation): (&'a str, Observation)| {
            let Observation { is_desired, is_reported, is_attaching, is_attached, is_inline, flex_device } =
                observation;
            let (node, mut record) =
                before.remove_entry(node).unwrap_or_else(|| (node.into(), Record::default()));
            record.is_detaching = false;
            if is_desired {
                record.undesired_since = None;
            } else {
                record.is_node_attach_allowed = false;
                record.undesired_since.get_or_insert(now);
            }
            if is_attaching {
                record.attaching_since.get_or_insert(now);
            }
            *has_had_flex |= flex_device.is_some();
            record.observe_flex(flex_device, now);
            let is_flex_attached = matches!(record.flex, FlexAttachment::Attached(_));
            let is_kept = is_attached || is_flex_attached || record.is_node_attach_allowed;
            record.was_reported = is_reported || record.was_reported && is_kept;
            if is_attaching || is_attached {
                record.is_inline = is_inline;
            } else if record.flex == FlexAttachment::None {
                end_detach(&node, &mut record, is_desired);
            }
            (node, record)
        };
        let after: FxHashMap<_, _> = observations.map(observe).collect();
        before.iter_mut().for_each(|(node, record)| end_detach(node, record, false));
        if !after.is_empty() {
            self.records.insert(disk.into(), after);
        }
        detached
    }

    /// Records the steps that are about to be executed.
    pub(super) fn begin(&mut self, disk: &str, steps: &[Step<'_>], now: Instant) {
        for step in steps {
            match step {
                Step::Attach(node) => {
                    self.record(disk, node).attaching_since.get_or_insert(now);
                }
                Step::AllowNodeAttach(node) => self.record(disk, node).is_node_attach_allowed = true,
                Step::Detach(node, _) => {
                    let record = self.record(disk, node);
                    (record.is_detaching, record.is_detach_asked) = (true, true);
                    record.detaching_since.get_or_insert(now);
                }
                Step::WarnMultiAttach(node) => self.record(disk, node).is_multi_attach_warned = true,
                _ => {}
            }
        }
    }

    /// The recorded part of the state of a disk on a node.
    pub(super) fn on_node<'a>(&self, disk: &str, node: &'a str, now: Instant) -> DiskOnNode<'a> {
        let Some(record) = self.find(disk, node) else { return DiskOnNode { node, ..DiskOnNode::default() } };
        let since = |time: Option<Instant>| time.map_or(Duration::ZERO, |time| now.duration_since(time));
        DiskOnNode {
            node,
            is_node_attach_allowed: record.is_node_attach_allowed,
            undesired_for: since(record.undesired_since),
            attaching_for: since(record.attaching_since),
            detaching_for: record.detaching_since.map(|since| now.duration_since(since)),
            failure: record
                .failed
                .map(|operation| Failure { operation, is_backing_off: record.backoff.is_active(now) }),
            is_detaching: record.is_detaching,
            is_multi_attach_warned: record.is_multi_attach_warned,
            was_reported: record.was_reported,
            ..DiskOnNode::default()
        }
    }

    /// The recorded state of a FlexVolume on a node. `device` is the path of its device, if it is in `status.volumesAttached`, and
    /// then it counts as attached unless something else is recorded.
    pub(super) fn flex(&self, disk: &str, node: &str, device: Option<SmolStr>, now: Instant) -> FlexState {
        let record = self.find(disk, node);
        let recorded = record.map(|record| record.flex.clone()).unwrap_or_default();
        let attachment = match (recorded, device) {
            (FlexAttachment::None, Some(device)) => FlexAttachment::Attached(device),
            (recorded, _) => recorded,
        };
        let since = record.and_then(|record| record.flex_since);
        let attached_for = since.map_or(Duration::ZERO, |since| now.duration_since(since));
        FlexState { attachment, attached_for, ..FlexState::default() }
    }

    /// Records what an answer of a FlexVolume driver changes.
    pub(super) fn flex_changed(&mut self, disk: &str, node: &str, change: FlexChange, now: Instant) {
        match change {
            FlexChange::Is(attachment) => self.record_flex(disk, node, attachment, now),
            FlexChange::Verified { is_attached } => self.flex_verified(disk, node, is_attached, now),
        }
    }

    /// Records that the driver of a FlexVolume was asked whether it is attached.
    fn flex_verified(&mut self, disk: &str, node: &str, is_attached: bool, now: Instant) {
        let record = self.record(disk, node);
        record.flex_since = Some(now);
        if !is_attached {
            record.flex = FlexAttachment::Lost;
        }
    }

    /// Records what the driver of a FlexVolume has done or found.
    pub(super) fn record_flex(&mut self, disk: &str, node: &str, attachment: FlexAttachment, now: Instant) {
        self.has_had_flex = true;
        let record = self.record(disk, node);
        record.flex_since = matches!(attachment, FlexAttachment::Attached(_)).then_some(now);
        record.flex = attachment;
    }

    /// The nodes to which a FlexVolume is attached, or may be.
    pub(super) fn flex_nodes(&self, disk: &str) -> impl Iterator<Item = &SmolStr> {
        let records = self.records.get(disk).into_iter().flatten();
        records.filter(|(_, record)| record.flex != FlexAttachment::None).map(|(node, _)| node)
    }

    fn has_flex(&self, node: &str) -> bool {
        if !self.has_had_flex {
            return false;
        }
        let mut records = self.records.values().filter_map(|nodes| nodes.get(node));
        records.any(|record| record.flex != FlexAttachment::None)
    }

    /// Records that an attempt to attach or detach has failed. Returns how long it took.
    pub(super) fn failed(&mut self, disk: &str, node: &str, operation: Operation, now: Instant) -> Duration {
        let record = self.record(disk, node);
        record.failed(operation, now);
        let attaching_since = record.attaching_since.take();
        let since = match operation {
            Operation::Attach => attaching_since,
            Operation::Detach => record.detaching_since.take(),
        };
        since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Records that a disk was attached, or that its VolumeAttachment was deleted. Returns how long attaching took.
    pub(super) fn succeeded(&mut self, disk: &str, node: &str, now: Instant) -> Duration {
        let record = self.record(disk, node);
        record.succeeded();
        record.attaching_since.take().map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// The time until the first backoff of the disk, on any node, has passed.
    pub(super) fn next_attempt(&self, disk: &str, now: Instant) -> Option<Duration> {
        let records = self.records.get(disk)?.values();
        records.filter_map(|record| record.backoff.remaining(now)).min()
    }

    /// Records that these disks are about to be added to `status.volumesAttached` of a node.
    pub(super) fn begin_report(&mut self, node: &str, disks: &[&str]) {
        if !disks.is_empty() {
            self.reporting.insert(node.into(), disks.iter().map(|disk| SmolStr::from(*disk)).collect());
        }
    }

    /// Records that a disk was added to `status.volumesAttached` of a node.
    pub(super) fn reported(&mut self, disk: &str, node: &str) {
        self.record(disk, node).was_reported = true;
    }

    /// Whether a write that adds a disk to `status.volumesAttached` of a node is in flight.
    pub(super) fn is_reporting(&self, node: &str, disk: &str) -> bool {
        let is_it = |reported: &SmolStr| is_name_of(reported, disk, node);
        self.reporting.get(node).is_some_and(|disks| disks.iter().any(is_it))
    }

    /// Removes the last report of a node, since the cache shows its outcome now. Returns its disks.
    pub(super) fn end_report(&mut self, node: &str) -> Box<[SmolStr]> {
        self.reporting.remove(node).unwrap_or_default()
    }

    /// Records which disks a managed node had mounted when it was deleted, or that a node exists. `has_attachments` says whether there
    /// are VolumeAttachments for a node.
    pub(super) fn node_changed(&mut self, change: &Change<'_, Node>, has_attachments: impl Fn(&str) -> bool) {
        let node = change.key().name;
        match (change.old, change.new) {
            (Some(last), None) if is_managed(last) => {
                self.node_deleted(&node, &last.status.volumes_in_use, has_attachments);
            }
            _ => self.node_exists(&node),
        }
    }

    /// Records which disks a deleted node had mounted, for as long as there are VolumeAttachments for it, or FlexVolumes.
    fn node_deleted(&mut self, node: &str, mounted: &[SmolStr], has_attachments: impl Fn(&str) -> bool) {
        let mut deleted = std::mem::take(&mut self.deleted_nodes);
        deleted.retain(|node, _| has_attachments(node) || self.has_flex(node));
        self.deleted_nodes = deleted;
        if has_attachments(node) || self.has_flex(node) {
            self.deleted_nodes.insert(node.into(), mounted.into());
        }
    }

    /// Removes the record of a deleted node of that name.
    fn node_exists(&mut self, node: &str) {
        self.deleted_nodes.remove(node);
    }

    /// Whether a deleted node was managed, that is, had the annotation `controller-managed-attach-detach`.
    pub(super) fn was_managed(&self, node: &str) -> bool {
        self.deleted_nodes.contains_key(node)
    }

    /// Whether a deleted node had the disk mounted. `true` if nothing is recorded about the node, to be safe.
    pub(super) fn was_mounted(&self, node: &str, disk: &str) -> bool {
        let is_it = |name: &SmolStr| is_name_of(name, disk, node);
        self.deleted_nodes.get(node).is_none_or(|mounted| mounted.iter().any(is_it))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flyball_cache::Origin;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_report_is_recorded_while_the_disk_stays_attached() {
        #[rustfmt::skip]
        let history = [
            // reported  attached  was reported
            (false,      true,     false),
            (true,       true,     true),
            (false,      true,     true), // the node was deleted and registered again
            (false,      false,    false),
            (false,      true,     false),
        ];
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        for (step, (is_reported, is_attached, want)) in history.into_iter().enumerate() {
            let observation = Observation {
                is_desired: true,
                is_reported,
                is_attached,
                is_attaching: !is_attached,
                ..Observation::default()
            };
            ledger.observe("disk", [("n1", observation)].into_iter(), now);
            assert_eq!(ledger.on_node("disk", "n1", now).was_reported, want, "{step}");
        }
        ledger.reported("disk", "n1");
        assert!(ledger.on_node("disk", "n1", now).was_reported);
    }

    #[test]
    fn a_deleted_node_had_mounted_what_its_status_said() {
        let mut ledger = Ledger::default();
        assert!(ledger.was_mounted("unknown", "disk"), "it may be mounted");
        ledger.node_deleted("n1", &["disk".into()], |_| true);
        assert!(ledger.was_mounted("n1", "disk") && !ledger.was_mounted("n1", "other"));
        assert!(ledger.was_managed("n1") && !ledger.was_managed("unknown"));
        ledger.node_deleted("n2", &[], |node| node == "n2");
        assert!(ledger.was_mounted("n1", "other"), "n1 has no VolumeAttachments any more and is forgotten");
        ledger.node_exists("n2");
        assert!(ledger.was_mounted("n2", "other"));
    }

    #[test]
    fn only_a_managed_node_is_recorded_when_it_is_deleted() {
        let node = |annotations: Value| -> Arc<Node> {
            let metadata = json!({"name": "n1", "annotations": annotations});
            Arc::new(
                serde_json::from_value(json!({"metadata": metadata, "status": {"volumesInUse": ["disk"]}}))
                    .unwrap(),
            )
        };
        let managed = node(json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"}));
        let unmanaged = node(json!({}));
        #[rustfmt::skip]
        let table = [
            // case                     old                new              has attachments  was managed
            ("deleted",                 Some(&managed),    None,            true,            true),
            ("nothing is attached",     Some(&managed),    None,            false,           false),
            ("not managed",             Some(&unmanaged),  None,            true,            false),
            ("it exists",               Some(&managed),    Some(&managed),  true,            false),
        ];
        for (case, old, new, has_attachments, want) in table {
            let mut ledger = Ledger::default();
            ledger.node_changed(&Change { old, new, origin: Origin::Watch }, |_| has_attachments);
            assert_eq!(ledger.was_managed("n1"), want, "{case}");
            assert_eq!(ledger.was_mounted("n1", "other"), !want, "{case}");
            ledger.node_changed(&Change { old: None, new: Some(&managed), origin: Origin::Watch }, |_| true);
            assert!(!ledger.was_managed("n1"), "{case}: the node is registered again");
        }
    }

    #[test]
    fn a_detach_that_succeeds_after_a_failure_ends_the_backoff_and_is_measured() {
        #[rustfmt::skip]
        let table = [
            // case                                             asked   tried again  attach failed  desired  measured  failure
            ("the next attempt is under way",                   true,   true,        false,         true,    true,     None),
            ("needed again before the next attempt",            true,   false,       false,         true,    false,    None),
            ("needed again, and attaching has failed since",    true,   false,       true,          true,    false,    Some(Operation::Attach)),
            ("gone before the next attempt",                    true,   false,       false,         false,   true,     None),
            ("deleted by somebody else",                        false,  false,       true,          true,    false,    Some(Operation::Attach)),
        ];
        for (case, is_asked, is_tried_again, has_attach_failed, is_desired, is_measured, failure) in table {
            let (mut ledger, now) = (Ledger::default(), Instant::now());
            if is_asked {
                ledger.begin("disk", &[Step::Detach("n1", None)], now);
                ledger.failed("disk", "n1", Operation::Detach, now);
            }
            if is_tried_again {
                ledger.begin("disk", &[Step::Detach("n1", None)], now);
            }
            if has_attach_failed {
                ledger.failed("disk", "n1", Operation::Attach, now);
            }
            for is_measured in [is_measured, false] {
                let observation = Observation { is_desired, ..Observation::default() };
                let detached = ledger.observe("disk", [("n1", observation)].into_iter(), now);
                assert_eq!(!detached.is_empty(), is_measured, "{case}");
            }
            let on_node = ledger.on_node("disk", "n1", now);
            assert_eq!(on_node.failure.map(|failure| failure.operation), failure, "{case}");
        }
    }

    #[test]
    fn failures_to_attach_do_not_delay_a_detach_and_the_reverse() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let next_attempt = |ledger: &Ledger| ledger.next_attempt("disk", now).map(|delay| delay.as_millis());
        for want in [500, 1000, 2000] {
            ledger.failed("disk", "n1", Operation::Attach, now);
            assert_eq!(next_attempt(&ledger), Some(want));
        }
        let on_node = ledger.on_node("disk", "n1", now);
        assert!(on_node.is_backing_off(Operation::Attach) && !on_node.is_backing_off(Operation::Detach));
        ledger.failed("disk", "n1", Operation::Detach, now);
        assert_eq!(next_attempt(&ledger), Some(500));
        let on_node = ledger.on_node("disk", "n1", now);
        assert!(on_node.is_backing_off(Operation::Detach) && !on_node.has_failed(Operation::Attach));
    }

    #[test]
    fn the_time_of_a_driver_begins_with_its_own_volume_attachment() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let later = start + Duration::from_secs(100);
        let deleted = Observation { is_attaching: true, ..Observation::default() };
        ledger.begin("disk", &[Step::Detach("n1", None)], start);
        ledger.observe("disk", [("n1", deleted)].into_iter(), start);
        let desired = Observation { is_desired: true, ..Observation::default() };
        ledger.observe("disk", [("n1", desired)].into_iter(), later);
        ledger.begin("disk", &[Step::Attach("n1")], later);
        assert_eq!(ledger.on_node("disk", "n1", later).attaching_for, Duration::ZERO);
    }

    #[test]
    fn a_record_is_kept_while_there_are_observations_of_its_node() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let later = start + Duration::from_secs(10);
        let desired = Observation { is_desired: true, is_attaching: true, ..Observation::default() };
        let undesired = Observation::default();
        let both = [
            ("n1", desired),
            ("n2", Observation { is_attached: true, is_inline: true, ..undesired.clone() }),
        ];
        assert!(ledger.observe("disk", both.into_iter(), start).is_empty());
        ledger.begin(
            "disk",
            &[Step::AllowNodeAttach("n1"), Step::Detach("n2", None), Step::WarnMultiAttach("n1")],
            start,
        );
        let n1 = ledger.on_node("disk", "n1", later);
        assert!(n1.is_node_attach_allowed && n1.is_multi_attach_warned && n1.undesired_for.is_zero());
        assert_eq!(n1.attaching_for, Duration::from_secs(10));
        let n2 = ledger.on_node("disk", "n2", later);
        assert!(n2.is_detaching);
        assert_eq!(n2.undesired_for, Duration::from_secs(10));
        assert_eq!(ledger.failed("disk", "n1", Operation::Attach, later), Duration::from_secs(10));
        assert_eq!(ledger.next_attempt("disk", later), Some(Duration::from_millis(500)));
        let detached = ledger.observe("disk", [("n1", undesired)].into_iter(), later);
        let want = Detached { node: "n2".into(), took: Duration::from_secs(10), is_inline: true };
        assert_eq!(detached, [want], "its VolumeAttachment is gone");
        let n1 = ledger.on_node("disk", "n1", later);
        assert!(
            !n1.is_node_attach_allowed
                && n1.is_multi_attach_warned
                && n1.is_backing_off(Operation::Attach)
                && n1.undesired_for.is_zero()
        );
        assert!(!ledger.on_node("disk", "n2", later).is_detaching);
        ledger.observe("disk", std::iter::empty(), later);
        assert!(ledger.records.is_empty());
    }
}
