//! Which pods use which disk and how, and which of them conflict. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::Key;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::mounts::RECURSIVE;
use super::plan::MountedDisk;

/// How a pod uses a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The label it is mounted with; empty for none.
    pub label: SmolStr,
    /// The SELinux change policy.
    pub policy: SmolStr,
}

impl Usage {
    /// The effective usage. A disk that cannot be mounted with a label is relabelled, whatever the policy of the pod.
    pub fn new(label: &SmolStr, policy: &SmolStr, has_mount_option: bool) -> Self {
        if policy != RECURSIVE && has_mount_option && !label.is_empty() {
            Self { label: label.clone(), policy: policy.clone() }
        } else {
            Self { label: SmolStr::default(), policy: SmolStr::new_static(RECURSIVE) }
        }
    }
}

/// Two pods that use a disk in ways that exclude each other, from the side of one of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    pub about: Property,
    /// The pod that gets the event.
    pub pod: Key,
    pub value: SmolStr,
    pub other: Key,
    pub other_value: SmolStr,
}

/// What two pods may differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    ChangePolicy,
    Label,
}

impl Property {
    pub fn name(self) -> &'static str {
        match self {
            Self::ChangePolicy => "SELinuxChangePolicy",
            Self::Label => "SELinuxLabel",
        }
    }

    /// The reason of events about it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ChangePolicy => "SELinuxChangePolicyConflict",
            Self::Label => "SELinuxLabelConflict",
        }
    }
}

impl Conflict {
    /// The message for the pod. Names of pods in other namespaces are not disclosed.
    pub fn message(&self) -> String {
        let Self { about, value, other, other_value, .. } = self;
        let (name, end) =
            (about.name(), "If both pods land on the same node, only one of them may access the volume.");
        if self.pod.namespace == other.namespace {
            format!(
                "{name} \"{value}\" conflicts with pod {} that uses the same volume as this pod with {name} \
                 \"{other_value}\". {end}",
                other.name
            )
        } else {
            // Upstream lacks the space, too.
            format!(
                "{name}\"{value}\" conflicts with another pod that uses the same volume as this pod with a \
                 different {name}. {end}"
            )
        }
    }
}

#[derive(Debug, Default)]
struct Used {
    driver: SmolStr,
    pods: BTreeMap<Key, Usage>,
}

/// How pods use disks.
#[derive(Debug, Default)]
pub struct Registry {
    disks: FxHashMap<SmolStr, Used>,
    of_pod: FxHashMap<Key, BTreeSet<SmolStr>>,
}

impl Registry {
    /// The conflicts, from both sides, that come with a usage. A usage that is recorded already brings none.
    pub fn new_conflicts(&self, disk: &str, pod: &Key, usage: &Usage) -> Vec<Conflict> {
        let Some(used) = self.disks.get(disk).filter(|used| used.pods.get(pod) != Some(usage)) else {
            return vec![];
        };
        let others = used.pods.iter().filter(|(other, _)| *other != pod);
        others.flat_map(|(other, its)| conflicts((pod, usage), (other, its))).collect()
    }

    /// Records how a pod uses a disk.
    pub fn record(&mut self, disk: &MountedDisk, pod: &Key, usage: Usage) {
        let used = self.disks.entry(disk.name.clone()).or_default();
        used.driver = disk.driver.clone();
        used.pods.insert(pod.clone(), usage);
        self.of_pod.entry(pod.clone()).or_default().insert(disk.name.clone());
    }

    pub fn forget(&mut self, pod: &Key) {
        for disk in self.of_pod.remove(pod).unwrap_or_default() {
            if let Some(used) = self.disks.get_mut(&disk) {
                used.pods.remove(pod);
                if used.pods.is_empty() {
                    self.disks.remove(&disk);
                }
            }
        }
    }

    /// The pods that use disks of a driver.
    pub fn users_of(&self, driver: &str) -> BTreeSet<Key> {
        let disks = self.disks.values().filter(|used| used.driver == driver);
        disks.flat_map(|used| used.pods.keys().cloned()).collect()
    }

    /// All conflicts, from both sides.
    pub fn conflicts(&self) -> BTreeSet<Conflict> {
        let mut all = BTreeSet::new();
        for used in self.disks.values() {
            for (n, (pod, usage)) in used.pods.iter().enumerate() {
                for (other, its) in used.pods.iter().skip(n + 1) {
                    all.extend(conflicts((pod, usage), (other, its)));
                }
            }
        }
        all
    }
}

/// What two pods differ in, from both sides.
fn conflicts(one: (&Key, &Usage), other: (&Key, &Usage)) -> Vec<Conflict> {
    let both = |about: Property, value: fn(&Usage) -> &SmolStr| {
        [(one, other), (other, one)].map(|((pod, usage), (other, its))| Conflict {
            about,
            pod: pod.clone(),
            value: value(usage).clone(),
            other: other.clone(),
            other_value: value(its).clone(),
        })
    };
    let mut found = vec![];
    if one.1.policy != other.1.policy {
        found.extend(both(Property::ChangePolicy, |usage| &usage.policy));
    }
    if labels_conflict(&one.1.label, &other.1.label) {
        found.extend(both(Property::Label, |usage| &usage.label));
    }
    found
}

/// Whether two labels, `user:role:type:level`, cannot be the same on any node. Nodes fill in an empty user, role or
/// type, but never a level.
pub fn labels_conflict(one: &str, other: &str) -> bool {
    let parts = |label: &str| {
        let mut parts = label.splitn(4, ':').map(str::to_owned);
        [(); 4].map(|()| parts.next().unwrap_or_default())
    };
    let (one, other) = (parts(one), parts(other));
    let differs = |n: usize| one[n] != other[n];
    differs(3) || (0..3).any(|n| differs(n) && !one[n].is_empty() && !other[n].is_empty())
}
