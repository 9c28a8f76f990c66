//! What the caches do not show: since when a disk is unwanted or being attached, failed attempts, writes in flight. Pure.

use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::place::Place;
use super::steps::Step;
use crate::backoff::Backoff;
use crate::disk::is_name_of;

/// One disk on one node.
#[derive(Debug, Default)]
struct Record {
    unwanted_since: Option<Instant>,
    attaching_since: Option<Instant>,
    detaching_since: Option<Instant>,
    backoff: Backoff,
    is_announced: bool,
    is_admitted: bool,
    is_detaching: bool,
    was_reported: bool,
}

/// What a sync sees of a disk on a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sighting {
    pub(super) is_wanted: bool,
    /// The status of the node names it as attached.
    pub(super) is_reported: bool,
    /// There is a VolumeAttachment that is not attached.
    pub(super) is_attaching: bool,
    /// There is one that is attached.
    pub(super) is_attached: bool,
}

/// The records of disks on nodes, and which disks deleted nodes had mounted.
///
/// Disks and nodes have separate queues, and the barrier of a key covers only the writes of that key. A write of one side
/// that the cache does not show yet is recorded here for the other side, under the lock under which it was decided.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: FxHashMap<SmolStr, FxHashMap<SmolStr, Record>>,
    deleted_nodes: FxHashMap<SmolStr, Box<[SmolStr]>>,
    reporting: FxHashMap<SmolStr, Box<[SmolStr]>>,
}

impl Ledger {
    fn record(&mut self, disk: &str, node: &str) -> &mut Record {
        self.records.entry(disk.into()).or_default().entry(node.into()).or_default()
    }

    fn find(&self, disk: &str, node: &str) -> Option<&Record> {
        self.records.get(disk)?.get(node)
    }

    /// Updates the records of a disk with what the caches show now, which includes the writes of its last sync. Nodes that
    /// are not mentioned are forgotten. Returns the nodes from which the disk is detached now, and how long that took.
    pub(super) fn observe<'a>(
        &mut self,
        disk: &str,
        sightings: impl Iterator<Item = (&'a str, Sighting)>,
        now: Instant,
    ) -> Vec<(SmolStr, Duration)> {
        let mut detached = vec![];
        let mut end_detach = |node: &SmolStr, record: &mut Record| {
            let since = record.detaching_since.take();
            detached.extend(since.map(|since| (node.clone(), now.duration_since(since))));
        };
        let mut before = self.records.remove(disk).unwrap_or_default();
        let observe = |(node, sighting): (&'a str, Sighting)| {
            let Sighting { is_wanted, is_reported, is_attaching, is_attached } = sighting;
            let (node, mut record) =
                before.remove_entry(node).unwrap_or_else(|| (node.into(), Record::default()));
            record.is_detaching = false;
            if is_wanted {
                record.unwanted_since = None;
            } else {
                record.is_admitted = false;
                record.unwanted_since.get_or_insert(now);
            }
            if is_attaching {
                record.attaching_since.get_or_insert(now);
            }
            record.was_reported = is_reported || record.was_reported && (is_attached || record.is_admitted);
            if !is_attaching && !is_attached {
                end_detach(&node, &mut record);
            }
            (node, record)
        };
        let after: FxHashMap<_, _> = sightings.map(observe).collect();
        before.iter_mut().for_each(|(node, record)| end_detach(node, record));
        if !after.is_empty() {
            self.records.insert(disk.into(), after);
        }
        detached
    }

    /// Records what is about to be done about a disk.
    pub(super) fn begin(&mut self, disk: &str, steps: &[Step<'_>], now: Instant) {
        for step in steps {
            match step {
                Step::Attach(node) => {
                    self.record(disk, node).attaching_since.get_or_insert(now);
                }
                Step::AllowNodeAttach(node) => self.record(disk, node).is_admitted = true,
                Step::Detach(node, _) => {
                    let record = self.record(disk, node);
                    record.is_detaching = true;
                    record.detaching_since.get_or_insert(now);
                }
                Step::WarnHeldElsewhere(node) => self.record(disk, node).is_announced = true,
                _ => {}
            }
        }
    }

    /// What the records say about a disk on a node.
    pub(super) fn place<'a>(&self, disk: &str, node: &'a str, now: Instant) -> Place<'a> {
        let Some(record) = self.find(disk, node) else { return Place { node, ..Place::default() } };
        let since = |time: Option<Instant>| time.map_or(Duration::ZERO, |time| now.duration_since(time));
        Place {
            node,
            is_admitted: record.is_admitted,
            unwanted_for: since(record.unwanted_since),
            attaching_for: since(record.attaching_since),
            has_failed: record.backoff.has_failed(),
            is_backing_off: record.backoff.is_active(now),
            is_detaching: record.is_detaching,
            is_announced: record.is_announced,
            was_reported: record.was_reported,
            ..Place::default()
        }
    }

    /// Records that an attempt to attach or detach has failed. Returns how long it took.
    pub(super) fn failed(&mut self, disk: &str, node: &str, now: Instant) -> Duration {
        let record = self.record(disk, node);
        record.backoff.failed(now);
        let since = record.detaching_since.take().or(record.attaching_since.take());
        since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Records that a disk was attached, or is being detached. Returns how long it was being attached.
    pub(super) fn succeeded(&mut self, disk: &str, node: &str, now: Instant) -> Duration {
        let record = self.record(disk, node);
        record.backoff = Backoff::default();
        record.attaching_since.take().map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// The time until the next attempt on one of the nodes of a disk is due.
    pub(super) fn next_attempt(&self, disk: &str, now: Instant) -> Option<Duration> {
        let records = self.records.get(disk)?.values();
        records.filter_map(|record| record.backoff.remaining(now)).min()
    }

    /// Records that the status of a node is about to name these disks as attached.
    pub(super) fn begin_report(&mut self, node: &str, disks: &[&str]) {
        if !disks.is_empty() {
            self.reporting.insert(node.into(), disks.iter().map(|disk| SmolStr::from(*disk)).collect());
        }
    }

    /// Records that the status of a node names a disk as attached.
    pub(super) fn reported(&mut self, disk: &str, node: &str) {
        self.record(disk, node).was_reported = true;
    }

    /// Whether a write that names a disk in the status of a node is in flight.
    pub(super) fn is_reporting(&self, node: &str, disk: &str) -> bool {
        let is_it = |reported: &SmolStr| is_name_of(reported, disk, node);
        self.reporting.get(node).is_some_and(|disks| disks.iter().any(is_it))
    }

    /// Forgets the last report of a node, as the cache shows what came of it. Returns its disks.
    pub(super) fn end_report(&mut self, node: &str) -> Box<[SmolStr]> {
        self.reporting.remove(node).unwrap_or_default()
    }

    /// Records which disks a deleted node had mounted. That matters while there are VolumeAttachments for it.
    pub(super) fn node_deleted(
        &mut self,
        node: &str,
        mounted: &[SmolStr],
        has_attachments: impl Fn(&str) -> bool,
    ) {
        self.deleted_nodes.retain(|node, _| has_attachments(node));
        if has_attachments(node) {
            self.deleted_nodes.insert(node.into(), mounted.into());
        }
    }

    /// Records that a node exists.
    pub(super) fn node_exists(&mut self, node: &str) {
        self.deleted_nodes.remove(node);
    }

    /// Whether a deleted node was one whose disks are attached and detached here.
    pub(super) fn was_managed(&self, node: &str) -> bool {
        self.deleted_nodes.contains_key(node)
    }

    /// Whether a deleted node had the disk mounted. One that is not known may have had it.
    pub(super) fn was_mounted(&self, node: &str, disk: &str) -> bool {
        let is_it = |name: &SmolStr| is_name_of(name, disk, node);
        self.deleted_nodes.get(node).is_none_or(|mounted| mounted.iter().any(is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_remembered_while_the_disk_stays_attached() {
        #[rustfmt::skip]
        let history = [
            // reported  attached  was reported
            (false,      true,     false),
            (true,       true,     true),
            (false,      true,     true), // the node was registered anew
            (false,      false,    false),
            (false,      true,     false),
        ];
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        for (step, (is_reported, is_attached, want)) in history.into_iter().enumerate() {
            let sighting = Sighting { is_wanted: true, is_reported, is_attached, is_attaching: !is_attached };
            ledger.observe("disk", [("n1", sighting)].into_iter(), now);
            assert_eq!(ledger.place("disk", "n1", now).was_reported, want, "{step}");
        }
        ledger.reported("disk", "n1");
        assert!(ledger.place("disk", "n1", now).was_reported);
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
    fn a_record_lasts_while_its_node_is_concerned() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let later = start + Duration::from_secs(10);
        let wanted = Sighting { is_wanted: true, is_attaching: true, ..Sighting::default() };
        let unwanted = Sighting::default();
        let both = [("n1", wanted), ("n2", Sighting { is_attached: true, ..unwanted })];
        assert!(ledger.observe("disk", both.into_iter(), start).is_empty());
        ledger.begin(
            "disk",
            &[Step::AllowNodeAttach("n1"), Step::Detach("n2", None), Step::WarnHeldElsewhere("n1")],
            start,
        );
        let n1 = ledger.place("disk", "n1", later);
        assert!(n1.is_admitted && n1.is_announced && n1.unwanted_for.is_zero());
        assert_eq!(n1.attaching_for, Duration::from_secs(10));
        let n2 = ledger.place("disk", "n2", later);
        assert!(n2.is_detaching);
        assert_eq!(n2.unwanted_for, Duration::from_secs(10));
        assert_eq!(ledger.failed("disk", "n1", later), Duration::from_secs(10));
        assert_eq!(ledger.next_attempt("disk", later), Some(Duration::from_millis(500)));
        let detached = ledger.observe("disk", [("n1", unwanted)].into_iter(), later);
        assert_eq!(detached, [("n2".into(), Duration::from_secs(10))], "its VolumeAttachment is gone");
        let n1 = ledger.place("disk", "n1", later);
        assert!(!n1.is_admitted && n1.is_announced && n1.is_backing_off && n1.unwanted_for.is_zero());
        assert!(!ledger.place("disk", "n2", later).is_detaching);
        ledger.observe("disk", std::iter::empty(), later);
        assert!(ledger.records.is_empty());
    }
}
