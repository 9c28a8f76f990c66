//! What only time tells: since when a disk is unwanted or being attached, and which tries have failed.

use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::rest::Rest;

/// One disk on one node.
#[derive(Debug, Default)]
pub(super) struct Note {
    unwanted_since: Option<Instant>,
    attaching_since: Option<Instant>,
    rest: Rest,
    /// Those who wait have been told that other nodes have the disk.
    pub(super) is_told: bool,
    /// The node was told that it may attach the disk by itself.
    pub(super) is_admitted: bool,
    /// The driver is being asked to take the disk away, which the cache does not show yet.
    pub(super) is_leaving: bool,
}

/// The notes, for disks on their way; and what nodes had mounted when they went.
///
/// Disks and nodes are synced apart, and each waits for its own writes only. So what one side is about to write, and the
/// cache does not show yet, the other finds here: it is noted in the same go in which it is decided.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    notes: FxHashMap<SmolStr, FxHashMap<SmolStr, Note>>,
    departed: FxHashMap<SmolStr, Box<[SmolStr]>>,
    being_told: FxHashMap<SmolStr, Box<[SmolStr]>>,
}

impl Ledger {
    /// The note about a disk on a node.
    pub(super) fn note(&mut self, disk: &str, node: &str) -> &mut Note {
        self.notes.entry(disk.into()).or_default().entry(node.into()).or_default()
    }

    /// The note about a disk on a node, if there is one.
    pub(super) fn find(&self, disk: &str, node: &str) -> Option<&Note> {
        self.notes.get(disk)?.get(node)
    }

    /// Forgets a disk on all nodes but those.
    pub(super) fn keep(&mut self, disk: &str, nodes: impl Fn(&str) -> bool) {
        if let Some(notes) = self.notes.get_mut(disk) {
            notes.retain(|node, _| nodes(node));
            if notes.is_empty() {
                self.notes.remove(disk);
            }
        }
    }

    /// A node is about to be told that these disks are attached.
    pub(super) fn telling(&mut self, node: &str, disks: &[&str]) {
        if !disks.is_empty() {
            self.being_told.insert(node.into(), disks.iter().map(|disk| SmolStr::from(*disk)).collect());
        }
    }

    /// Whether a node is just being told that a disk is attached.
    pub(super) fn is_telling(&self, node: &str, disk: &str) -> bool {
        self.being_told.get(node).is_some_and(|disks| disks.iter().any(|told| told == disk))
    }

    /// The cache shows what a node was told last, or that it was not; returns what that was.
    pub(super) fn told(&mut self, node: &str) -> Box<[SmolStr]> {
        self.being_told.remove(node).unwrap_or_default()
    }

    /// A node has gone, with these disks mounted. That matters for as long as it has attachments.
    pub(super) fn went(&mut self, node: &str, mounted: &[SmolStr], has_attachments: impl Fn(&str) -> bool) {
        self.departed.retain(|node, _| has_attachments(node));
        if has_attachments(node) {
            self.departed.insert(node.into(), mounted.into());
        }
    }

    pub(super) fn came(&mut self, node: &str) {
        self.departed.remove(node);
    }

    /// Whether a node that has gone had the disk mounted, for all we know.
    pub(super) fn was_mounted(&self, node: &str, disk: &str) -> bool {
        self.departed.get(node).is_none_or(|mounted| mounted.iter().any(|name| name == disk))
    }
}

impl Note {
    /// For how long nobody has wanted the disk, which begins now at the latest.
    pub(super) fn unwanted(&mut self, now: Instant) -> Duration {
        now.duration_since(*self.unwanted_since.get_or_insert(now))
    }

    /// For how long nobody has wanted the disk, as far as that was noted.
    pub(super) fn unwanted_for(&self, now: Instant) -> Duration {
        self.unwanted_since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    pub(super) fn wanted(&mut self) {
        self.unwanted_since = None;
    }

    /// For how long the disk has been on its way, which begins now at the latest.
    pub(super) fn attaching(&mut self, now: Instant) -> Duration {
        now.duration_since(*self.attaching_since.get_or_insert(now))
    }

    /// How long the disk was on its way, as far as that was noted.
    pub(super) fn attaching_for(&self, now: Instant) -> Duration {
        self.attaching_since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Whether tries have failed, and when the next one is due.
    pub(super) fn rest(&self) -> Rest {
        self.rest
    }

    /// What was tried has been done.
    pub(super) fn succeeded(&mut self) {
        (self.rest, self.attaching_since) = (Rest::default(), None);
    }

    /// A try has failed: the next one is due after a while.
    pub(super) fn failed(&mut self, now: Instant) {
        self.rest.failed(now);
        self.attaching_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_went_had_mounted_what_it_said() {
        let mut ledger = Ledger::default();
        assert!(ledger.was_mounted("unheard-of", "disk"), "nobody knows, so it may be mounted");
        ledger.went("n1", &["disk".into()], |_| true);
        assert!(ledger.was_mounted("n1", "disk") && !ledger.was_mounted("n1", "other"));
        ledger.went("n2", &[], |node| node == "n2");
        assert!(ledger.was_mounted("n1", "other"), "n1 has no attachments any more and is forgotten");
        ledger.came("n2");
        assert!(ledger.was_mounted("n2", "other"));
    }
}
