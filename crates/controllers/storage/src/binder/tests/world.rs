//! Volumes and claims in words, and a property: in whatever order they are synced, they end up bound one to one.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_runtime::Plan;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::binder::claim::{self, View};
use crate::binder::invariants::{check, check_bindings};
use crate::binder::volume as volumes;
use crate::binder::writes::Tag;

fn modes(text: &str) -> Value {
    let long = |short: &str| match short {
        "RWO" => "ReadWriteOnce",
        "ROX" => "ReadOnlyMany",
        "RWX" => "ReadWriteMany",
        other => panic!("{other}"),
    };
    json!(text.split(',').map(long).collect::<Vec<_>>())
}

/// A volume in words: its name, `1Gi` (size), `RWO,ROX`, `class=`, `phase=`, `for=claim` (promised by name),
/// `of=claim` (bound to it by uid), `ours` (chosen by a controller), `made=` (by whom), `policy=`, `label=`,
/// `attributes=`, `block`, `going`, `late` (it came after the claim).
pub(super) fn volume(words: &str) -> PersistentVolume {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let mut object = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": {}, "labels": {}, "resourceVersion": "1"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "gold",
            "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Available"},
    });
    for word in words {
        match word.split_once('=') {
            Some(("class", class)) => object["spec"]["storageClassName"] = json!(class),
            Some(("phase", phase)) => object["status"]["phase"] = json!(phase),
            Some(("policy", policy)) => object["spec"]["persistentVolumeReclaimPolicy"] = json!(policy),
            Some(("label", label)) => object["metadata"]["labels"][label] = json!("yes"),
            Some(("attributes", class)) => object["spec"]["volumeAttributesClassName"] = json!(class),
            Some(("made", by)) => {
                object["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = json!(by);
            }
            Some(("was", size)) => {
                object["metadata"]["annotations"]["volume.alpha.kubernetes.io/pre-resize-capacity"] =
                    json!(size);
            }
            Some(("for", claim)) => object["spec"]["claimRef"] = json!({"namespace": "ns", "name": claim}),
            Some(("of", claim)) => {
                let uid = format!("uid-{claim}");
                object["spec"]["claimRef"] = json!({"namespace": "ns", "name": claim, "uid": uid});
            }
            _ => match word {
                "ours" => {
                    object["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = json!("yes");
                }
                "block" => object["spec"]["volumeMode"] = json!("Block"),
                "late" => object["metadata"]["resourceVersion"] = json!("3"),
                "going" => object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z"),
                size if size.ends_with('i') => object["spec"]["capacity"]["storage"] = json!(size),
                text => object["spec"]["accessModes"] = modes(text),
            },
        }
    }
    serde_json::from_value(object).unwrap()
}

/// A claim in words: its name, `1Gi`, `RWO,ROX`, `class=` (`class=-` leaves it open), `phase=`, `names=volume`, `done`
/// (it has had its volume), `ours`, `label=` (a selector), `attributes=`, `node` (the scheduler chose one), `block`.
pub(super) fn claim(words: &str) -> PersistentVolumeClaim {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "annotations": {}, "resourceVersion": "2"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gold"},
        "status": {"phase": "Pending"},
    });
    for word in words {
        let mut annotate = |key: &str, value: &str| object["metadata"]["annotations"][key] = json!(value);
        match word.split_once('=') {
            Some(("class", "-")) => object["spec"]["storageClassName"] = Value::Null,
            Some(("class", class)) => object["spec"]["storageClassName"] = json!(class),
            Some(("phase", phase)) => object["status"]["phase"] = json!(phase),
            Some(("names", volume)) => object["spec"]["volumeName"] = json!(volume),
            Some(("label", label)) => object["spec"]["selector"] = json!({"matchLabels": {label: "yes"}}),
            Some(("attributes", class)) => object["spec"]["volumeAttributesClassName"] = json!(class),
            Some(("has", size)) => object["status"]["capacity"] = json!({"storage": size}),
            _ => match word {
                "done" => annotate("pv.kubernetes.io/bind-completed", "yes"),
                "ours" => annotate("pv.kubernetes.io/bound-by-controller", "yes"),
                "node" => annotate("volume.kubernetes.io/selected-node", "n"),
                "block" => object["spec"]["volumeMode"] = json!("Block"),
                size if size.ends_with('i') => {
                    object["spec"]["resources"]["requests"]["storage"] = json!(size)
                }
                text => object["spec"]["accessModes"] = modes(text),
            },
        }
    }
    serde_json::from_value(object).unwrap()
}

pub(super) fn class(name: &str, provisioner: &str, mode: &str) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
    }))
    .unwrap()
}

/// A cluster of nothing but volumes and claims, whose writes are seen at once.
#[derive(Clone, Default, PartialEq, Debug)]
struct World {
    volumes: BTreeMap<Key, Arc<PersistentVolume>>,
    claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
}

impl World {
    fn sync_claim(&mut self, key: &Key) {
        let Some(claim) = self.claims.get(key).cloned() else { return };
        let all: Vec<_> = self.volumes.values().cloned().collect();
        let named = all.iter().find(|volume| volume.metadata.name == claim.spec.volume_name);
        let view = View {
            claim: &claim,
            named_volume: named,
            volumes: &all,
            class: None,
            is_class_cache_behind: false,
            has_waited_for_class: false,
            default_class: None,
            pods: &[],
            is_recent: true,
            provisioning: Default::default(),
            attributes: true,
        };
        assert_eq!(check(&view), Ok(()));
        self.carry_out(&claim::plan(&view));
    }

    fn sync_volume(&mut self, key: &Key) {
        let Some(volume) = self.volumes.get(key).cloned() else { return };
        let reference = volume.spec.claim_ref.clone().unwrap_or_default();
        let claim = self.claims.values().find(|claim| claim.metadata.uid == reference.uid).cloned();
        let view = volumes::View {
            volume,
            cached: claim.clone(),
            live_claim: Some(claim),
            class: None,
            live: None,
            removed: None,
            is_deletion_requested: false,
            is_backing_off: false,
        };
        self.carry_out(&volumes::plan(&view));
    }

    /// Every write leaves its tag behind.
    fn carry_out(&mut self, plan: &Plan<Tag>) {
        for write in plan.writes() {
            match &write.tag {
                Tag::Claim(claim) => drop(self.claims.insert(claim.key(), Arc::new(*claim.clone()))),
                Tag::Volume(volume) => drop(self.volumes.insert(volume.key(), Arc::new(*volume.clone()))),
                Tag::Pod | Tag::Other => panic!("{write}"),
            }
        }
    }

    fn sync_all(&mut self) {
        self.claims.keys().cloned().collect::<Vec<_>>().iter().for_each(|key| self.sync_claim(key));
        self.volumes.keys().cloned().collect::<Vec<_>>().iter().for_each(|key| self.sync_volume(key));
    }

    fn check_bindings(&self) -> Result<(), String> {
        let (claims, volumes) = (self.claims.values().cloned(), self.volumes.values().cloned());
        check_bindings(&claims.collect::<Vec<_>>(), &volumes.collect::<Vec<_>>())
    }
}

const SIZES: &[&str] = &["1Gi", "2Gi", "3Gi"];
const MODES: &[&str] = &["RWO", "RWO,ROX", "RWX"];
const TIES: &[&str] = &["", "", "", "for=c0", "for=c1", "of=c2", "of=gone", "of=c1 ours", "block"];
const WISHES: &[&str] = &["", "", "", "names=v0", "names=v1", "names=nowhere", "block"];

proptest! {
    #[test]
    fn claims_and_volumes_end_up_one_to_one(
        volumes in prop::collection::vec((prop::sample::select(SIZES), prop::sample::select(MODES), prop::sample::select(TIES)), 0..5),
        claims in prop::collection::vec((prop::sample::select(SIZES), prop::sample::select(MODES), prop::sample::select(WISHES)), 0..5),
        order in prop::collection::vec((any::<bool>(), 0_usize..5), 0..12),
    ) {
        let mut world = World::default();
        for (at, (size, modes, tie)) in volumes.iter().enumerate() {
            let volume = volume(&format!("v{at} {size} {modes} {tie} phase=Pending"));
            world.volumes.insert(volume.key(), Arc::new(volume));
        }
        for (at, (size, modes, wish)) in claims.iter().enumerate() {
            let claim = claim(&format!("c{at} {size} {modes} {wish}"));
            world.claims.insert(claim.key(), Arc::new(claim));
        }
        for (is_claim, at) in order {
            match is_claim {
                true => world.sync_claim(&Key::new("ns", format!("c{at}"))),
                false => world.sync_volume(&Key::cluster(format!("v{at}"))),
            }
            prop_assert_eq!(world.check_bindings(), Ok(()));
        }
        // A claim may take a volume only once that is available, and a volume see its claim only after that.
        for _ in 0..4 {
            world.sync_all();
            prop_assert_eq!(world.check_bindings(), Ok(()));
        }
        let settled = world.clone();
        world.sync_all();
        prop_assert_eq!(world, settled);
    }
}
