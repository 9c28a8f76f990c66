//! Which SELinux conflicts a pod has, and the events about them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{Key, Object};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, Event, Plan};
use smol_str::SmolStr;

use super::mounts::{Mount, MountingPod};
use super::registry::{Registry, Usage};

/// Everything that the decision depends on.
pub struct View<'a> {
    pub pod: &'a MountingPod,
    /// The disks behind the volumes of the pod, by the name of the volume.
    pub disks: &'a BTreeMap<SmolStr, MountedDisk>,
    /// The volumes of claims that are not bound, and those of in-tree plugins that the CSI driver does not know.
    pub unknown: &'a BTreeSet<SmolStr>,
    /// How pods use disks so far.
    pub registry: &'a Registry,
    /// Refers to a pod that exists.
    pub pods: &'a dyn Fn(&Key) -> Option<ObjectRef>,
}

/// A disk that a pod mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedDisk {
    pub name: SmolStr,
    /// Empty for a disk that nodes attach by themselves.
    pub driver: SmolStr,
    /// Whether nodes can mount it with a label.
    pub has_mount_option: bool,
}

/// The events about volumes that a pod mounts with several labels, and about conflicts with other pods that are new.
pub fn plan(view: &View<'_>) -> Plan {
    let (mut effects, mut failures): (Vec<Effect>, Vec<Effect>) = (vec![], vec![]);
    let is_mixed =
        |(name, mount): &(&SmolStr, &Mount)| **mount == Mount::Several && !view.unknown.contains(*name);
    for (name, _) in view.pod.mounts.iter().filter(is_mixed) {
        let message =
            format!("Volume \"{name}\" is mounted twice with different SELinux labels inside this pod");
        // Upstream: the sync fails, so that the event is repeated with backoff.
        failures.push(Effect::Fail(message.clone()));
        effects.push(Event::warning("MultipleSELinuxLabels", message).into());
    }
    let key = view.pod.key();
    for (disk, usage) in usages(view) {
        for conflict in view.registry.new_conflicts(&disk.name, &key, &usage) {
            // A conflict has ended if one of its pods was deleted.
            let event = (view.pods)(&conflict.pod)
                .map(|pod| Event::normal(conflict.about.reason(), conflict.message()).about(pod));
            effects.extend(event.map(Effect::from));
        }
    }
    effects.extend(failures);
    Plan::of(effects)
}

/// How the pod uses its disks, for the registry. Two volumes may be the same disk.
pub fn usages(view: &View<'_>) -> Vec<(MountedDisk, Usage)> {
    let mut usages = vec![];
    for (name, mount) in &view.pod.mounts {
        if let (Mount::Label(label), Some(disk)) = (mount, view.disks.get(name)) {
            let usage = (disk.clone(), Usage::new(label, &view.pod.change_policy, disk.has_mount_option));
            if !usages.contains(&usage) {
                usages.push(usage);
            }
        }
    }
    usages
}
