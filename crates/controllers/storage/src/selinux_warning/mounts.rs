//! Pods as this controller reads them: which volumes their containers mount, and with which SELinux labels.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::pod::{Pod, Volume};
use flyball_api::{ObjectMeta, resource};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smol_str::{SmolStr, format_smolstr};

/// The change policy by which every file of a volume is relabelled.
pub const RECURSIVE: &str = "Recursive";
/// The change policy by which a volume is mounted with a label; the default.
pub const MOUNT_OPTION: &str = "MountOption";

/// A v1 Pod, as far as its volumes and labels go.
#[derive(Debug, Clone, Default)]
pub struct MountingPod {
    pub metadata: ObjectMeta,
    /// The volumes whose sources controllers read.
    pub volumes: Box<[Volume]>,
    /// The label with which each volume is mounted.
    pub mounts: BTreeMap<SmolStr, Mount>,
    pub change_policy: SmolStr,
}

/// How the containers of a pod mount a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// All with one label; empty if none of them has one.
    Label(SmolStr),
    Several,
}

resource!(MountingPod, "", "v1", "pods", "Pod", namespaced);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    spec: SpecWire,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecWire {
    init_containers: Option<Vec<ContainerWire>>,
    containers: Option<Vec<ContainerWire>>,
    ephemeral_containers: Option<Vec<ContainerWire>>,
    security_context: Option<SecurityWire>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerWire {
    volume_mounts: Option<Vec<MountWire>>,
    security_context: Option<SecurityWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SecurityWire {
    #[serde(rename = "seLinuxOptions")]
    options: Option<OptionsWire>,
    #[serde(rename = "seLinuxChangePolicy")]
    change_policy: Option<SmolStr>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OptionsWire {
    user: SmolStr,
    role: SmolStr,
    #[serde(rename = "type")]
    type_: SmolStr,
    level: SmolStr,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MountWire {
    name: SmolStr,
}

impl OptionsWire {
    /// The label. Nodes fill in the parts that are empty.
    fn label(&self) -> SmolStr {
        let label = format_smolstr!("{}:{}:{}:{}", self.user, self.role, self.type_, self.level);
        if label == ":::" { SmolStr::default() } else { label }
    }
}

impl SpecWire {
    fn mounts(&self) -> BTreeMap<SmolStr, Mount> {
        let own = |security: &Option<SecurityWire>| {
            security.as_ref().and_then(|security| security.options.as_ref()).map(OptionsWire::label)
        };
        let of_pod = own(&self.security_context);
        let mut labels: BTreeMap<SmolStr, BTreeSet<SmolStr>> = BTreeMap::new();
        let lists = [&self.init_containers, &self.containers, &self.ephemeral_containers];
        for container in lists.into_iter().flatten().flatten() {
            let label = own(&container.security_context).or_else(|| of_pod.clone());
            for mount in container.volume_mounts.iter().flatten() {
                labels.entry(mount.name.clone()).or_default().extend(label.clone());
            }
        }
        let mount = |mut labels: BTreeSet<SmolStr>| {
            if labels.len() > 1 {
                Mount::Several
            } else {
                Mount::Label(labels.pop_first().unwrap_or_default())
            }
        };
        labels.into_iter().map(|(volume, labels)| (volume, mount(labels))).collect()
    }
}

impl<'de> Deserialize<'de> for MountingPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Pod { metadata, spec, .. } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let wire: Wire = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let mounts = wire.spec.mounts();
        let policy = wire.spec.security_context.and_then(|security| security.change_policy);
        let change_policy = policy.unwrap_or(SmolStr::new_static(MOUNT_OPTION));
        Ok(Self { metadata, volumes: spec.volumes, mounts, change_policy })
    }
}
