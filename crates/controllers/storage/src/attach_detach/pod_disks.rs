//! Which disks pods were found to need. A pod keeps its disk attached when its claim or volume is deleted, though the caches then
//! no longer show which disk it was.

use std::collections::BTreeMap;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, Uid};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::disk::Disk;

/// The disks of pods, until the pods stop.
#[derive(Debug, Default)]
pub(super) struct PodDisks {
    by_disk: FxHashMap<SmolStr, BTreeMap<Key, Uid>>,
    by_pod: FxHashMap<Uid, Vec<Disk>>,
}

impl PodDisks {
    pub(super) fn insert(&mut self, pod: &Pod, disk: &Disk) {
        self.by_disk.entry(disk.name.clone()).or_default().insert(pod.key(), pod.uid().clone());
        let known = self.by_pod.entry(pod.uid().clone()).or_default();
        match known.iter_mut().find(|known| known.name == disk.name) {
            Some(known) => known.clone_from(disk),
            None => known.push(disk.clone()),
        }
    }

    pub(super) fn pods(&self, disk: &str) -> Vec<(Key, Uid)> {
        let pods = self.by_disk.get(disk).into_iter().flatten();
        pods.map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }

    pub(super) fn disks(&self, pod: &Uid) -> Vec<Disk> {
        self.by_pod.get(pod).cloned().unwrap_or_default()
    }

    pub(super) fn remove(&mut self, disk: &str, pod: &Key, uid: &Uid) {
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
    use super::super::tests::{By, desired, pod};
    use super::*;

    #[test]
    fn a_removed_pod_leaves_nothing_behind() {
        let (mut pod_disks, pod, disk) =
            (PodDisks::default(), pod("ns", "app"), desired(By::Csi, "ReadWriteOnce").disk);
        pod_disks.insert(&pod, &disk);
        pod_disks.insert(&pod, &disk);
        assert_eq!(pod_disks.pods(&disk.name), [(pod.key(), pod.uid().clone())]);
        assert_eq!(pod_disks.disks(pod.uid()).as_slice(), std::slice::from_ref(&disk));
        pod_disks.remove(&disk.name, &pod.key(), pod.uid());
        assert!(pod_disks.by_disk.is_empty() && pod_disks.by_pod.is_empty());
    }
}
