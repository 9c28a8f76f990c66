//! The pods that empty volumes: from which template, for how long, and which of them are ours.

use flyball_api::{Key, PersistentVolume, Uid};
use flyball_runtime::StartError;
use flyball_runtime::config;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::matching::size;
use super::plugins::{HOST_PATH, NFS, plugin_of};
use super::relay::Listening;

/// What the name of a pod begins with that empties a volume; the volume's follows.
const PREFIX: &str = "recycler-for-";
const GIB: i64 = 1 << 30;

/// How volumes of one plugin are emptied.
struct Way {
    template: Value,
    at_least: i64,
    per_gib: i64,
}

/// How volumes are emptied, and the pods that do it now. The latter is known to this process only: a pod that another
/// one made, or a user to pretend that a volume is empty, is not trusted.
pub(super) struct Recycler {
    host_path: Way,
    nfs: Way,
    running: Mutex<FxHashMap<Key, Running>>,
}

/// A pod that empties a volume, and who listens to what is told about it.
struct Running {
    pod: Uid,
    _listening: Listening,
}

/// The volume that a pod of this name empties, if it is one of those.
pub(super) fn volume_of(pod: &str) -> Option<&str> {
    pod.strip_prefix(PREFIX)
}

impl Recycler {
    /// Reads the templates that are configured.
    pub(super) fn new(config: &config::Recycler) -> Result<Self, StartError> {
        let host_path = Way {
            template: template(&config.pod_template_file_path_host_path)?,
            at_least: config.minimum_timeout_host_path.into(),
            per_gib: config.increment_timeout_host_path.into(),
        };
        let nfs = Way {
            template: template(&config.pod_template_file_path_nfs)?,
            at_least: config.minimum_timeout_nfs.into(),
            per_gib: config.increment_timeout_nfs.into(),
        };
        Ok(Self { host_path, nfs, running: Mutex::default() })
    }

    /// The pod that empties a volume; nothing if nobody knows how to.
    pub(super) fn pod(&self, volume: &PersistentVolume) -> Option<Value> {
        let (way, field, source) = match plugin_of(volume)? {
            HOST_PATH => {
                let source = volume.spec.host_path.as_ref()?.to_value();
                (&self.host_path, "hostPath", json!({"path": source["path"]}))
            }
            NFS => {
                let source = volume.spec.nfs.as_ref()?.to_value();
                (&self.nfs, "nfs", json!({"server": source["server"], "path": source["path"]}))
            }
            _ => return None,
        };
        let gibs = size(&volume.spec.capacity).value() / GIB;
        let mut pod = way.template.clone();
        pod["metadata"]["name"] = json!(format!("{PREFIX}{}", volume.metadata.name));
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("generateName");
            metadata.entry("namespace").or_insert_with(|| json!("default"));
        }
        pod["spec"]["activeDeadlineSeconds"] = json!(gibs.saturating_mul(way.per_gib).max(way.at_least));
        let name = pod["spec"]["volumes"][0]["name"].clone();
        pod["spec"]["volumes"][0] = json!({"name": name, field: source});
        Some(pod)
    }

    /// The pod that empties a volume on our behalf.
    pub(super) fn running(&self, volume: &Key) -> Option<Uid> {
        self.running.lock().get(volume).map(|running| running.pod.clone())
    }

    /// Remembers a pod that was made.
    pub(super) fn begun(&self, volume: &Key, pod: Uid, listening: Listening) {
        self.running.lock().insert(volume.clone(), Running { pod, _listening: listening });
    }

    /// Forgets the pod of a volume.
    pub(super) fn forget(&self, volume: &Key) {
        self.running.lock().remove(volume);
    }
}

/// The template in a file, or the usual one if no file is given.
fn template(path: &str) -> Result<Value, StartError> {
    if path.is_empty() {
        return Ok(usual());
    }
    let wrong = |why: String| StartError::Misconfigured(format!("recycler pod template {path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let pod: Value = serde_yaml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if pod["kind"] != "Pod" {
        return Err(wrong("it must be a Pod".into()));
    }
    match pod["spec"]["volumes"].as_array().is_some_and(|volumes| volumes.iter().any(Value::is_object)) {
        true => Ok(pod),
        false => Err(wrong("does not contain any volume(s)".into())),
    }
}

/// Deletes everything, and fails if anything is left.
fn usual() -> Value {
    let empty = "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "vol"}],
            "containers": [{
                "name": "pv-recycler",
                "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
                "command": ["/bin/sh"],
                "args": ["-c", empty],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }],
        },
    })
}
