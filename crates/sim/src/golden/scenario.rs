//! The scenario format: parses a YAML file into typed steps, and reports unknown keys before anything runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flyball_cloud::{CLOUD_CONTROLLER_MANAGER, simulated};
use flyball_manager::{Component, KUBE_CONTROLLER_MANAGER};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::yaml;
use crate::cluster::Skip;
use crate::faults::Kind;
use crate::features::Features;
use crate::ours;

/// Why a scenario file cannot be run.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct ScenarioError {
    file: PathBuf,
    problem: String,
}

/// One scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Equals the file name.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// The value of `--controllers`.
    pub controllers: Vec<String>,
    /// Further flags of the controller manager.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Executable files for the controller manager, by their paths in a folder that flags call `$DIR`.
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// The simulated cloud at the start (`flyball_cloud::simulated::Config`). The controller manager is then a
    /// cloud-controller-manager.
    #[serde(default)]
    pub cloud: Option<Map<String, Value>>,
    /// What the API server serves that it would not by default.
    #[serde(default)]
    pub api_server: Features,
    /// Cluster-scoped resources to record.
    #[serde(default)]
    pub cluster: Vec<String>,
    /// Objects to record although they exist in every cluster.
    #[serde(default)]
    pub cluster_names: Vec<String>,
    /// Further namespaces whose events and requests count.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Resources of those namespaces to record.
    #[serde(default)]
    pub extra_resources: Vec<String>,
    /// Resources not to record.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Events not to record, as regular expressions.
    #[serde(default)]
    pub ignore_events: Vec<String>,
    /// Whether numbers of random names stay with their objects.
    #[serde(default)]
    pub identity: bool,
    /// The address families of pods.
    #[serde(default, rename = "podIPs", deserialize_with = "words")]
    pub pod_ips: Option<Vec<String>>,
    /// `manual`: the controller manager is started by a step.
    #[serde(default)]
    pub kcm: Option<ManagerStart>,
    /// Seconds without writes before a snapshot.
    #[serde(default)]
    pub quiet: Option<f64>,
    /// Expected duration; long scenarios are started first.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Labels of the scenario's namespace.
    #[serde(default)]
    pub namespace_labels: BTreeMap<String, String>,
    /// Whether the namespace exists before the controller manager starts.
    #[serde(default)]
    pub start_after: bool,
    /// Faults that the simulator leaves out, as the scenario cannot run under them.
    #[serde(default)]
    pub spared_faults: Vec<Kind>,
    #[serde(rename = "steps", deserialize_with = "steps")]
    pub steps: Vec<Step>,
}

/// When the controller manager is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagerStart {
    /// By a `kcm: start` step.
    Manual,
}

impl Scenario {
    /// Reads a file and validates it.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let error = |problem: String| ScenarioError { file: file.to_owned(), problem };
        let text = std::fs::read_to_string(file).map_err(|e| error(e.to_string()))?;
        let scenario = Self::parse(&text).map_err(error)?;
        if file.file_stem().is_none_or(|stem| stem != scenario.name.as_str()) {
            return Err(error(format!("its name is {:?}, but must be that of the file", scenario.name)));
        }
        Ok(scenario)
    }

    /// Reads a document.
    pub fn parse(text: &str) -> Result<Self, String> {
        let scenario: Self = serde_json::from_value(yaml::parse(text)?).map_err(|e| e.to_string())?;
        let mut labels = std::collections::BTreeSet::new();
        if let Some(cloud) = &scenario.cloud {
            read::<simulated::Config>(Value::Object(cloud.clone())).map_err(|e| format!("cloud: {e}"))?;
        }
        for step in &scenario.steps {
            if let (Step::Cloud(_), None) = (step, &scenario.cloud) {
                return Err("a step changes the cloud, but there is none".to_owned());
            }
            if let Step::Snapshot(snapshot) = step
                && !labels.insert(&snapshot.label)
            {
                return Err(format!("two snapshots are labelled {:?}", snapshot.label));
            }
        }
        Ok(scenario)
    }

    /// The controller manager that it is about.
    pub fn component(&self) -> &'static Component {
        match self.cloud {
            Some(_) => &CLOUD_CONTROLLER_MANAGER,
            None => &KUBE_CONTROLLER_MANAGER,
        }
    }

    /// Why ours cannot run it, if it cannot.
    pub fn lacks(&self) -> Option<Skip> {
        ours::lacks_of(self.component(), &self.controllers)
    }

    /// How often the controller manager is started in it.
    pub fn manager_starts(&self) -> usize {
        let by_step = |step: &&Step| matches!(step, Step::Manager(ManagerStep::Start | ManagerStep::Restart));
        let at_once = self.kcm != Some(ManagerStart::Manual);
        usize::from(at_once) + self.steps.iter().filter(by_step).count()
    }
}

macro_rules! vocabulary {
    ($($(#[doc = $doc:literal])+ $verb:literal => $variant:ident($arguments:ty): $keys:expr,)+) => {
        /// The steps.
        #[derive(Debug, Clone)]
        pub enum Step {
            $($(#[doc = $doc])+ $variant($arguments),)+
        }

        impl Step {
            /// Its key in the scenario.
            pub fn verb(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $verb,)+
                }
            }

            fn parse(verb: &str, arguments: Value) -> Result<Self, String> {
                match verb {
                    $($verb => {
                        check_keys(&arguments, $keys)?;
                        Ok(Self::$variant(read(arguments)?))
                    })+
                    _ => Err("there is no such step".to_owned()),
                }
            }
        }
    };
}

/// The keys that select pods.
const PICK: &[&str] =
    &["select", "names", "index", "phase", "finished", "node", "terminating", "pick", "optional"];
/// For steps with an untyped argument (a manifest, a table of variables).
const ANY: Option<&[&[&str]]> = None;

vocabulary! {
    /// Create or merge objects; a `status` is written through the subresource.
    "apply" => Apply(OneOrMany): ANY,
    /// The same for each number of a range.
    "generate" => Generate(Generate): Some(&[&["from", "to", "manifest"]]),
    /// The server must refuse an object.
    "refused" => Refused(Refused): Some(&[&["code", "manifest"]]),
    /// Patch an object.
    "patch" => Patch(Patch): Some(&[&["target", "type", "subresource", "body"]]),
    /// Change an object's replicas through its scale.
    "scale" => Scale(Scale): Some(&[&["target", "replicas"]]),
    /// Delete an object.
    "delete" => Delete(Delete): Some(&[&["target", "propagation", "grace"]]),
    /// Write the status of pods, as a kubelet would.
    "pods" => Pods(Pods): Some(&[PICK, &["set", "exitCode", "reason", "status", "restarts", "readySince", "bind", "nodes"]]),
    /// Schedule pods.
    "bind" => Bind(Bind): Some(&[PICK, &["nodes"]]),
    /// Change the labels of pods.
    "label" => Label(Label): Some(&[PICK, &["labels", "annotations"]]),
    /// Delete pods.
    "delete-pods" => DeletePods(DeletePods): Some(&[PICK, &["grace"]]),
    /// Finish the deletion of pods, as a kubelet would.
    "confirm-delete" => ConfirmDelete(ConfirmDelete): Some(&[PICK]),
    /// Evict pods.
    "evict" => Evict(Evict): Some(&[PICK, &["code"]]),
    /// Run all pods, or stop doing so.
    "kubelet" => Kubelet(Kubelet): Some(&[&["on", "except", "nodes", "holdDelete"]]),
    /// Make nodes.
    "nodes" => Nodes(Nodes): Some(&[&["names", "labels", "annotations", "spec", "status", "ready", "heartbeat"]]),
    /// Stop or resume the heartbeats of nodes.
    "heartbeat" => Heartbeat(Heartbeat): Some(&[&["nodes", "on", "ready"]]),
    /// Request a certificate.
    "csr" => Csr(Csr): Some(&[&["name", "subject", "signer", "usages", "user", "groups", "ext", "expirationSeconds"]]),
    /// Wait until something holds.
    "wait" => Wait(Wait): Some(&[&[
        "for", "path", "is", "not", "condition", "reason", "count", "select", "phase", "ready", "terminating", "gone",
        "event", "atLeast", "generation", "timeout", "optional",
    ]]),
    /// Wait until the controller manager writes no more.
    "settle" => Settle(Settle): Some(&[&["quiet", "timeout"]]),
    /// Wait, under faults, until the caches of the controller manager show the present objects of these resources.
    "seen" => Seen(Vec<String>): ANY,
    /// Wait.
    "sleep" => Sleep(f64): ANY,
    /// Wait for a second of the minute.
    "next-minute" => NextMinute(f64): ANY,
    /// Save values in variables.
    "var" => Var(BTreeMap<String, Place>): ANY,
    /// Send any request.
    "raw" => Raw(Raw): Some(&[&["method", "path", "body", "type", "code"]]),
    /// Replace parts of the simulated cloud; `null` removes one.
    "cloud" => Cloud(Map<String, Value>): Some(&[&["machines", "loadBalancers", "routes", "failures"]]),
    /// Write executable files for the controller manager; `null` removes one.
    "files" => Files(BTreeMap<String, Option<String>>): ANY,
    /// Stop or start the controller manager.
    "kcm" => Manager(ManagerStep): ANY,
    /// Record the state of the cluster.
    "snapshot" => Snapshot(SnapshotStep): Some(&[&["label", "only", "ignore", "settle", "quiet"]]),
}

fn check_keys(arguments: &Value, allowed: Option<&[&[&str]]>) -> Result<(), String> {
    let (Some(map), Some(allowed)) = (arguments.as_object(), allowed) else { return Ok(()) };
    let all = || allowed.iter().copied().flatten();
    match map.keys().find(|key| !all().any(|known| known == key)) {
        Some(key) => {
            let known: Vec<&str> = all().copied().collect();
            Err(format!("unknown key {key:?}; known are {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|e| e.to_string())
}

fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let raw: Vec<Value> = Vec::deserialize(deserializer)?;
    raw.into_iter()
        .enumerate()
        .map(|(index, step)| {
            let (verb, arguments) = match step {
                Value::String(verb) => (verb, Value::Null),
                Value::Object(map) if map.len() == 1 => map.into_iter().next().unwrap_or_default(),
                other => {
                    let text =
                        format!("step {}: a step is one verb with its argument, not {other}", index + 1);
                    return Err(serde::de::Error::custom(text));
                }
            };
            Step::parse(&verb, arguments).map_err(|problem| {
                serde::de::Error::custom(format!("step {} ({verb}): {problem}", index + 1))
            })
        })
        .collect()
}

/// One manifest or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A list of objects.
    Many(Vec<Value>),
    /// One object.
    One(Value),
}

impl OneOrMany {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Value> {
        match self {
            Self::Many(all) => all.iter(),
            Self::One(one) => std::slice::from_ref(one).iter(),
        }
    }
}

pub use super::steps::arguments::*;

/// A list of words or numbers, all read as words.
pub(super) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let word = |value: Value| match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(serde::de::Error::custom(format!("expected a word or a number, not {other}"))),
    };
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Array(values) => values.into_iter().map(word).collect::<Result<_, _>>().map(Some),
        one => Ok(Some(vec![word(one)?])),
    }
}
