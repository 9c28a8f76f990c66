//! Recycler pods: their templates, their deadlines, and which of them this process has created.

use flyball_api::{Event, Key, Object as _, PersistentVolume, Uid};
use flyball_runtime::{self as runtime, StartError, config};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::matching::size;
use super::plugins::{HOST_PATH, NFS, plugin_of};
use super::relay::Relay;
use crate::backoff::Backoff;

/// The prefix of the names of recycler pods; the name of the volume follows.
const PREFIX: &str = "recycler-for-";
/// The reason of the events that are copied from recycler pods.
const EVENT: &str = "RecyclerPod";
const GIB: i64 = 1 << 30;

/// The recycler pods of one plugin.
struct Template {
    pod: Value,
    min_seconds: i64,
    seconds_per_gib: i64,
}

/// The templates of recycler pods, and the pods that run. Only pods that this process has created are trusted: a user could
/// create one to pretend that a volume is empty.
pub(super) struct Recycler {
    host_path: Template,
    nfs: Template,
    running: Mutex<FxHashMap<Key, Running>>,
    emptied: Mutex<FxHashMap<Key, Emptied>>,
    /// The volumes whose recycler pods could not be created, or have failed.
    failures: Mutex<FxHashMap<Key, Backoff>>,
}

/// A recycler pod, and the relay of its events.
struct Running {
    pod: Uid,
    _relay: Relay,
}

/// Which volume was emptied after which claim. Another claim of its name may have filled it again, and so may the same claim
/// if a restore of etcd brings it back.
#[derive(PartialEq, Eq)]
struct Emptied {
    volume: Uid,
    claim: Uid,
    era: u64,
}

impl Emptied {
    fn of(volume: &PersistentVolume, era: u64) -> Option<Self> {
        let claim = volume.spec.claim_ref.as_ref()?.uid.clone();
        Some(Self { volume: volume.metadata.uid.clone(), claim, era })
    }
}

/// The volume of the recycler pod of this name; `None` for other pods.
pub(super) fn volume_of(pod: &str) -> Option<&str> {
    pod.strip_prefix(PREFIX)
}

impl Recycler {
    /// Reads the templates that are configured.
    pub(super) fn new(config: &config::Recycler) -> Result<Self, StartError> {
        let host_path = Template {
            pod: template(
                "--pv-recycler-pod-template-filepath-hostpath",
                &config.pod_template_file_path_host_path,
            )?,
            min_seconds: config.minimum_timeout_host_path.into(),
            seconds_per_gib: config.increment_timeout_host_path.into(),
        };
        let nfs = Template {
            pod: template("--pv-recycler-pod-template-filepath-nfs", &config.pod_template_file_path_nfs)?,
            min_seconds: config.minimum_timeout_nfs.into(),
            seconds_per_gib: config.increment_timeout_nfs.into(),
        };
        Ok(Self {
            host_path,
            nfs,
            running: Mutex::default(),
            emptied: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    /// The recycler pod for a volume; `None` if its plugin has none.
    pub(super) fn pod(&self, volume: &PersistentVolume) -> Option<Value> {
        let (template, field, source) = match plugin_of(volume)? {
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
        let mut pod = template.pod.clone();
        pod["metadata"]["name"] = json!(format!("{PREFIX}{}", volume.metadata.name));
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("generateName");
            metadata.entry("namespace").or_insert_with(|| json!("default"));
        }
        pod["spec"]["activeDeadlineSeconds"] =
            json!(gibs.saturating_mul(template.seconds_per_gib).max(template.min_seconds));
        let name = pod["spec"]["volumes"][0]["name"].clone();
        pod["spec"]["volumes"][0] = json!({"name": name, field: source});
        Some(pod)
    }

    /// The pod that this process has created for a volume.
    pub(super) fn created(&self, volume: &Key) -> Option<Uid> {
        self.running.lock().get(volume).map(|running| running.pod.clone())
    }

    pub(super) fn begin(&self, volume: &Key, pod: Uid, relay: Relay) {
        self.running.lock().insert(volume.clone(), Running { pod, _relay: relay });
    }

    /// Forgets the pod and delays the next one: a quota or a policy did not allow it, or it could not empty the volume. The deletion
    /// of a failed pod brings the volume back at once, so that without a delay a pod would follow the other. Upstream tries again
    /// whenever it syncs the volume, which deletions of pods do not cause.
    pub(super) fn failed(&self, volume: &Key, now: Instant) {
        self.running.lock().remove(volume);
        self.failures.lock().entry(volume.clone()).or_default().failed(now);
    }

    /// Whether the last attempt has failed, and the next one is not due.
    pub(super) fn is_backing_off(&self, volume: &Key, now: Instant) -> bool {
        self.failures.lock().get(volume).is_some_and(|backoff| backoff.is_active(now))
    }

    /// Remembers that a volume was emptied after its claim was deleted.
    pub(super) fn emptied(&self, volume: &PersistentVolume, era: u64) {
        if let Some(emptied) = Emptied::of(volume, era) {
            self.emptied.lock().insert(volume.key(), emptied);
        }
    }

    /// Whether a volume was emptied after its claim was deleted.
    pub(super) fn is_emptied(&self, volume: &PersistentVolume, era: u64) -> bool {
        let emptied = Emptied::of(volume, era);
        emptied.is_some() && self.emptied.lock().get(&volume.key()) == emptied.as_ref()
    }

    pub(super) fn forget(&self, volume: &Key) {
        self.running.lock().remove(volume);
        self.emptied.lock().remove(volume);
        self.failures.lock().remove(volume);
    }
}

/// The event about a volume that shows an event about its recycler pod.
pub(super) fn copied(of_pod: &Event) -> runtime::Event {
    let message = format!("Recycler pod: {}", of_pod.message);
    match of_pod.type_ == "Warning" {
        true => runtime::Event::warning(EVENT, message),
        false => runtime::Event::normal(EVENT, message),
    }
}

/// The template in a file, or the default one.
fn template(flag: &str, path: &str) -> Result<Value, StartError> {
    if path.is_empty() {
        return Ok(default_template());
    }
    let wrong = |why: String| StartError::Misconfigured(format!("{flag} {path}: {why}"));
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
fn default_template() -> Value {
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

#[cfg(test)]
mod tests {
    use flyball_runtime::Message;
    use flyball_runtime::events::EventType;

    use super::*;

    #[test]
    fn a_volume_counts_as_emptied_until_it_may_have_been_filled_again() {
        let recycler = Recycler::new(&config::Recycler::default()).unwrap();
        let volume = |uid: &str, claim: &str| -> PersistentVolume {
            serde_json::from_value(json!({
                "metadata": {"name": "a", "uid": uid},
                "spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": claim}},
            }))
            .unwrap()
        };
        recycler.emptied(&volume("v", "c"), 3);
        #[rustfmt::skip]
        let table = [
            // case                                  volume             era  is emptied
            ("the same",                             volume("v", "c"),  3,   true),
            ("another volume of that name",          volume("w", "c"),  3,   false),
            ("a later claim",                        volume("v", "d"),  3,   false),
            ("a restore may have brought it back",   volume("v", "c"),  4,   false),
        ];
        for (case, volume, era, want) in table {
            assert_eq!(recycler.is_emptied(&volume, era), want, "{case}");
        }
        recycler.forget(&Key::cluster("a"));
        assert!(!recycler.is_emptied(&volume("v", "c"), 3));
    }

    #[test]
    fn an_event_about_a_pod_is_copied_with_its_type() {
        for (type_, want) in
            [("Normal", EventType::Normal), ("Warning", EventType::Warning), ("", EventType::Normal)]
        {
            let event: Event = serde_json::from_value(
                json!({"metadata": {}, "type": type_, "message": "Started container"}),
            )
            .unwrap();
            let copied = copied(&event);
            let want = (want, "RecyclerPod".into(), Message::Text("Recycler pod: Started container".into()));
            assert_eq!((copied.type_, copied.reason, copied.message), want, "{type_}");
        }
    }

    #[test]
    fn a_pod_that_is_refused_or_fails_is_tried_again_less_and_less_often() {
        let (recycler, volume) = (Recycler::new(&config::Recycler::default()).unwrap(), Key::cluster("a"));
        let (mut now, mut attempts) = (Instant::now(), 0);
        // For an hour, at every resync.
        for _ in 0..240 {
            if !recycler.is_backing_off(&volume, now) {
                attempts += 1;
                recycler.failed(&volume, now);
            }
            now += std::time::Duration::from_secs(15);
        }
        assert_eq!(attempts, 33, "upstream: 240");
        recycler.forget(&volume);
        assert!(!recycler.is_backing_off(&volume, now));
    }
}
