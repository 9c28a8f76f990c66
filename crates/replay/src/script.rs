//! From a recording to what is played: the objects at the start, and what others than the components of Kubernetes did then. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_api::{Key, ResourceType, Timestamp};
use flyball_apiserver::kinds;
use flyball_client::Propagation;
use flyball_playground::nodes::node::{SIMULATED, STOPPED};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::attribute::{Origin, Rules, World, desired};
use crate::file::{Change, Recording, What};
use crate::merge;

/// After so long without a heartbeat a controller manager marks a node, by default.
const GRACE: Duration = Duration::from_secs(50);
/// How long pods stay on an unreachable node, by default.
const TOLERATION: u64 = 300;
const ZONE: &str = "topology.kubernetes.io/zone";

/// What a replay does.
#[derive(Debug, Clone)]
pub struct Script {
    pub start: Timestamp,
    pub end: Timestamp,
    /// `group/plural/namespace/name` and object.
    pub objects: Vec<(String, Value)>,
    /// In order.
    pub steps: Vec<Step>,
    /// The zone of every node that there ever was, empty if it has none.
    pub nodes: BTreeMap<SmolStr, SmolStr>,
    /// Whether the autoscaler runs: not on pods whose usage is unknown.
    pub autoscales: bool,
    /// How long most pods tolerate an unreachable node.
    pub toleration: Duration,
    /// The ranges of services.
    pub service_cidrs: Vec<String>,
    /// How many changes were made by components, which do it again by themselves.
    pub left_to_components: usize,
    /// What cannot be played, for people.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub at: Timestamp,
    pub target: Target,
    pub action: Action,
}

/// An object of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub resource: ResourceType,
    pub key: Key,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create(Value),
    Patch(Value),
    Delete {
        propagation: Option<Propagation>,
        grace_period: Option<i64>,
    },
    /// The kubelet of a node stops, or runs again.
    Power {
        on: bool,
    },
}

impl Script {
    pub fn of(recording: &Recording) -> Self {
        let is_simulated = is_simulated(&recording.objects);
        let mut builder = Builder {
            rules: Rules { plays_scaling: !is_simulated },
            is_simulated,
            objects: recording.objects.iter().cloned().collect(),
            start: recording.head.time,
            steps: Vec::new(),
            nodes: BTreeMap::new(),
            left: 0,
        };
        builder.note_nodes();
        let served = served(&builder.objects);
        let (objects, left_out) = prepared(&builder.objects, &served, is_simulated);
        for (at, change) in in_order(&recording.changes) {
            builder.take(at, change, &served);
        }
        let mut notes: Vec<String> =
            recording.head.missing.iter().map(|missing| format!("not recorded: {missing}")).collect();
        if !left_out.is_empty() {
            let left_out: Vec<&str> = left_out.iter().map(String::as_str).collect();
            notes.push(format!("not served here, so left out: {}", left_out.join(", ")));
        }
        if !is_simulated && builder.objects.keys().any(|key| key.starts_with("autoscaling/")) {
            notes.push(
                "the usage of pods is not recorded: HorizontalPodAutoscalers do not run, and what they did is played"
                    .to_owned(),
            );
        }
        let Builder { mut steps, nodes, left, .. } = builder;
        steps.sort_by_key(|step| step.at);
        Self {
            start: recording.head.time,
            end: recording.end,
            toleration: toleration(recording),
            service_cidrs: service_cidrs(&objects),
            objects,
            steps,
            nodes,
            autoscales: is_simulated,
            left_to_components: left,
            notes,
        }
    }
}

/// The changes in the order of their versions, which is that of the cluster: watches of several kinds lag each other. Their times
/// do not go back.
fn in_order(changes: &[Change]) -> Vec<(Timestamp, &Change)> {
    let mut sorted: Vec<&Change> = changes.iter().collect();
    sorted.sort_by_key(|change| change.version);
    let mut latest = Timestamp::MIN;
    let timed = sorted.into_iter().map(|change| {
        latest = latest.max(change.at);
        (latest, change)
    });
    timed.collect()
}

struct Builder {
    rules: Rules,
    is_simulated: bool,
    objects: BTreeMap<String, Value>,
    start: Timestamp,
    steps: Vec<Step>,
    nodes: BTreeMap<SmolStr, SmolStr>,
    left: usize,
}

impl World for BTreeMap<String, Value> {
    fn is_terminating(&self, namespace: &str) -> bool {
        let found = self.get(&format!("/namespaces//{namespace}"));
        !namespace.is_empty()
            && found.is_none_or(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null())
    }
}

impl Builder {
    fn note_nodes(&mut self) {
        let nodes = self.objects.iter().filter(|(key, _)| key.starts_with("/nodes/"));
        self.nodes = nodes.map(|(_, node)| node_and_zone(node)).collect();
    }

    fn take(&mut self, at: Timestamp, change: &Change, served: &Served) {
        let Some((group, plural, key)) = parts(&change.key) else { return };
        let old = self.objects.get(&change.key).cloned();
        let (new, origin) = match (change.what, &old) {
            (What::Added, _) => (Some(change.body.clone()), self.rules.added(plural, &change.by)),
            (What::Modified, Some(old)) => {
                let mut new = old.clone();
                merge::apply(&mut new, &change.body);
                let origin = self.rules.modified(plural, old, &new, &change.by, &self.objects);
                (Some(new), origin)
            }
            (What::Deleted, Some(old)) => (None, self.rules.deleted(plural, old, &self.objects)),
            (_, None) => return,
        };
        let state = new.as_ref().or(old.as_ref());
        let resource = state.and_then(|object| resource_of(group, plural, &key, object));
        if let Some(resource) = resource.filter(|resource| served.has(resource)) {
            let target = Target { resource, key };
            if (group, plural) == ("", "nodes") {
                self.power(at, &target, old.as_ref(), new.as_ref());
            }
            let action = match origin {
                Origin::Component => None,
                Origin::Create => new.as_ref().map(|object| Action::Create(created(plural, object))),
                Origin::Patch(patch) => Some(Action::Patch(patch)),
                Origin::Delete { propagation, grace_period } => {
                    Some(Action::Delete { propagation, grace_period })
                }
            };
            match action {
                Some(action) => self.steps.push(Step { at, target, action }),
                None => self.left += 1,
            }
        }
        match new {
            Some(new) => {
                if (group, plural) == ("", "nodes") {
                    self.nodes.extend([node_and_zone(&new)]);
                }
                self.objects.insert(change.key.clone(), new);
            }
            None => drop(self.objects.remove(&change.key)),
        }
    }

    /// A real kubelet that stops is noticed after the grace period; a simulated one has an annotation, which is played as such.
    fn power(&mut self, at: Timestamp, target: &Target, old: Option<&Value>, new: Option<&Value>) {
        let (Some(old), Some(new)) = (old, new) else { return };
        if self.is_simulated || is_ready(old) == is_ready(new) {
            return;
        }
        let on = is_ready(new);
        let at = if on { at } else { at.checked_sub(GRACE).unwrap_or(at).max(self.start) };
        self.steps.push(Step { at, target: target.clone(), action: Action::Power { on } });
    }
}

/// Group, plural and key of `group/plural/namespace/name`.
fn parts(path: &str) -> Option<(&str, &str, Key)> {
    let mut parts = path.splitn(4, '/');
    let (group, plural) = (parts.next()?, parts.next()?);
    Some((group, plural, Key::new(parts.next()?, parts.next()?)))
}

fn resource_of(group: &str, plural: &str, key: &Key, object: &Value) -> Option<ResourceType> {
    let api_version = object["apiVersion"].as_str()?;
    let version = api_version.rsplit('/').next()?;
    Some(ResourceType {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        kind: object["kind"].as_str()?.into(),
        namespaced: !key.namespace.is_empty(),
    })
}

/// What is sent to create an object. The server takes the resources of a node from its first status.
fn created(plural: &str, object: &Value) -> Value {
    let mut body = desired(plural, object);
    if plural == "nodes" {
        body["metadata"]["labels"][SIMULATED] = json!("true");
        for field in ["capacity", "allocatable", "addresses"] {
            if let Some(value) = object["status"].get(field) {
                body["status"][field] = value.clone();
            }
        }
    }
    body
}

fn node_and_zone(node: &Value) -> (SmolStr, SmolStr) {
    let metadata = &node["metadata"];
    let text = |value: &Value| SmolStr::from(value.as_str().unwrap_or_default());
    (text(&metadata["name"]), text(&metadata["labels"][ZONE]))
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|found| found["type"] == "Ready" && found["status"] == "True")
}

/// Whether all nodes are those of a playground, which say themselves whether they run.
fn is_simulated(objects: &[(String, Value)]) -> bool {
    let mut nodes = objects.iter().filter(|(key, _)| key.starts_with("/nodes/")).peekable();
    nodes.peek().is_some() && nodes.all(|(_, node)| node["metadata"]["labels"][SIMULATED] == "true")
}

/// The resources that the embedded server stores in the version in which they were recorded.
struct Served(BTreeSet<(SmolStr, SmolStr, SmolStr)>);

impl Served {
    fn has(&self, resource: &ResourceType) -> bool {
        let ResourceType { group, version, plural, .. } = resource;
        self.0.contains(&(group.clone(), version.clone(), plural.clone()))
    }
}

fn served(objects: &BTreeMap<String, Value>) -> Served {
    let builtin = kinds::catalog().into_iter().filter_map(|builtin| {
        let info = builtin.info;
        let is_stored = info.stored_as.is_none_or(|stored| stored == (info.group, info.version));
        is_stored
            .then(|| (SmolStr::from(info.group), SmolStr::from(info.version), SmolStr::from(info.plural)))
    });
    let definitions = objects.iter().filter(|(key, _)| key.starts_with("apiextensions.k8s.io/"));
    let custom = definitions.filter_map(|(_, definition)| {
        let spec = &definition["spec"];
        let stored = spec["versions"].as_array()?.iter().find(|version| version["storage"] == true)?;
        let text = |value: &Value| value.as_str().map(SmolStr::from);
        Some((text(&spec["group"])?, text(&stored["name"])?, text(&spec["names"]["plural"])?))
    });
    Served(builtin.chain(custom).collect())
}

/// The objects that the embedded server begins with, and the resources that were left out.
fn prepared(
    objects: &BTreeMap<String, Value>,
    served: &Served,
    is_simulated: bool,
) -> (Vec<(String, Value)>, BTreeSet<String>) {
    let (mut kept, mut left_out) = (Vec::new(), BTreeSet::new());
    for (path, object) in objects {
        let Some((group, plural, key)) = parts(path) else { continue };
        let is_webhook = group == "admissionregistration.k8s.io" && plural.ends_with("webhookconfigurations");
        let resource = resource_of(group, plural, &key, object);
        if is_webhook || !resource.is_some_and(|resource| served.has(&resource)) {
            left_out.insert(if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") });
            continue;
        }
        let mut object = object.clone();
        match (group, plural) {
            ("", "nodes") => simulate(&mut object, is_simulated),
            // Nothing converts here.
            ("apiextensions.k8s.io", _) => object["spec"]["conversion"] = json!({"strategy": "None"}),
            _ => {}
        }
        kept.push((path.clone(), object));
    }
    (kept, left_out)
}

/// Has a node of another cluster simulated.
fn simulate(node: &mut Value, is_simulated: bool) {
    if !is_simulated {
        node["metadata"]["labels"][SIMULATED] = json!("true");
        if !is_ready(node) {
            node["metadata"]["annotations"][STOPPED] = json!("true");
        }
    }
}

/// That of most pods: it was the server's default when they were created.
fn toleration(recording: &Recording) -> Duration {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let at_start = recording.objects.iter().map(|(key, object)| (key, object));
    let added = recording.changes.iter().filter(|change| change.what == What::Added);
    let all = at_start.chain(added.map(|change| (&change.key, &change.body)));
    for (_, pod) in all.filter(|(key, _)| key.starts_with("/pods/")) {
        let tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
        let seconds = tolerations
            .filter(|toleration| toleration["key"] == "node.kubernetes.io/unreachable")
            .filter_map(|toleration| toleration["tolerationSeconds"].as_u64());
        seconds.for_each(|seconds| *counts.entry(seconds).or_default() += 1);
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    Duration::from_secs(most.map_or(TOLERATION, |(seconds, _)| seconds))
}

fn service_cidrs(objects: &[(String, Value)]) -> Vec<String> {
    let found = objects.iter().find(|(key, _)| key == "networking.k8s.io/servicecidrs//kubernetes");
    let cidrs = found.and_then(|(_, object)| object["spec"]["cidrs"].as_array());
    cidrs.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
