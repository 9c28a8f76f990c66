//! Which pods have wanted which disks: a pod keeps its disk when its claim or volume is deleted.

use std::collections::BTreeMap;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, Uid};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::disk::Disk;

/// The disks that pods have wanted, for as long as the pods need them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    by_disk: FxHashMap<SmolStr, BTreeMap<Key, Uid>>,
    by_pod: FxHashMap<Uid, Vec<Disk>>,
}

impl Memory {
    pub(super) fn note(&mut self, pod: &Pod, disk: &Disk) {
        self.by_disk.entry(disk.name.clone()).or_default().insert(pod.key(), pod.uid().clone());
        let known = self.by_pod.entry(pod.uid().clone()).or_default();
        match known.iter_mut().find(|known| known.name == disk.name) {
            Some(known) => known.clone_from(disk),
            None => known.push(disk.clone()),
        }
    }

    /// The pods that have wanted a disk.
    pub(super) fn pods(&self, disk: &str) -> Vec<(Key, Uid)> {
        let pods = self.by_disk.get(disk).into_iter().flatten();
        pods.map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }

    /// The disks that a pod has wanted.
    pub(super) fn disks(&self, pod: &Uid) -> Vec<Disk> {
        self.by_pod.get(pod).cloned().unwrap_or_default()
    }

    pub(super) fn forget(&mut self, disk: &str, pod: &Key, uid: &Uid) {
        if let Some(pods) = self.by_disk.get_mut(disk)
            && pods.get(pod) == Some(uid)
        {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_disk.remove(disk);
            }
        }
        if let Some(disks) = self.by_pod.get_mut(uid) {
            disks.retain(|known| known.name != disk);
            if disks.is_empty() {
                self.by_pod.remove(uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pod, want};
    use super::*;

    #[test]
    fn nothing_is_left_of_a_pod_that_is_forgotten() {
        let (mut memory, pod, disk) = (Memory::default(), pod("ns", "app"), want(true, "ReadWriteOnce").disk);
        memory.note(&pod, &disk);
        memory.note(&pod, &disk);
        assert_eq!(memory.pods(&disk.name), [(pod.key(), pod.uid().clone())]);
        assert_eq!(memory.disks(pod.uid()).as_slice(), std::slice::from_ref(&disk));
        memory.forget(&disk.name, &pod.key(), pod.uid());
        assert!(memory.by_disk.is_empty() && memory.by_pod.is_empty());
    }
}
