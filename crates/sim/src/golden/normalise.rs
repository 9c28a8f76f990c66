//! Makes two runs of a scenario comparable: random names, ids and times get placeholders, numbered in an order that is not
//! random.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::text::{canonical, natural};
use super::tokens::Tokens;

/// Owners before dependents, so that names of dependents can refer to the placeholders of their owners.
const KIND_ORDER: [&str; 17] = [
    "Namespace",
    "Node",
    "Deployment",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "CronJob",
    "Job",
    "ReplicaSet",
    "ControllerRevision",
    "Pod",
    "ResourceClaim",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "Service",
    "Endpoints",
    "EndpointSlice",
];

/// Remembers every object it has seen and the placeholders for its name, uid and addresses.
pub struct Normaliser {
    tokens: Tokens,
    counters: BTreeMap<String, usize>,
    known: BTreeSet<String>,
}

impl Normaliser {
    /// For a run in `namespace`.
    pub fn new(namespace: &str) -> Self {
        let mut tokens = Tokens::default();
        tokens.add(namespace, "<ns>".to_owned());
        Self { tokens, counters: BTreeMap::new(), known: BTreeSet::new() }
    }

    pub fn text(&self, text: &str) -> String {
        self.tokens.replace(text)
    }

    /// Whether an object with this uid has been observed.
    pub fn knows(&self, uid: &str) -> bool {
        self.known.contains(uid)
    }

    /// Assigns placeholders to every new object, in a canonical order.
    pub fn observe(&mut self, objects: &[Value]) {
        let fresh: Vec<&Value> =
            objects.iter().filter(|o| !self.known.contains(text(&o["metadata"]["uid"]))).collect();
        self.known.extend(fresh.iter().map(|o| text(&o["metadata"]["uid"]).to_owned()));
        let rank = |kind: &str| KIND_ORDER.iter().position(|k| *k == kind).unwrap_or(KIND_ORDER.len());
        let kinds: BTreeSet<(usize, &str)> =
            fresh.iter().map(|o| text(&o["kind"])).map(|kind| (rank(kind), kind)).collect();
        for (_, kind) in kinds {
            let mut group: Vec<&Value> = fresh.iter().copied().filter(|o| o["kind"] == kind).collect();
            group.sort_by_cached_key(|o| {
                let meta = &o["metadata"];
                let (created, name) = (text(&meta["creationTimestamp"]), text(&meta["name"]));
                (self.base(o), self.masked(o), created.to_owned(), name.to_owned())
            });
            for object in group {
                self.register(object);
            }
        }
    }

    /// Addresses are assigned later than their pods are created.
    pub fn learn_addresses(&mut self, pod: &Value) {
        let name = self.text(text(&pod["metadata"]["name"]));
        for ip in items(&pod["status"]["podIPs"]) {
            let ip = text(&ip["ip"]);
            let family = if ip.contains(':') { "6" } else { "" };
            self.tokens.add(ip, format!("<ip{family}:{name}>"));
        }
    }

    fn count(&mut self, what: &str) -> usize {
        let counter = self.counters.entry(what.to_owned()).or_default();
        *counter += 1;
        *counter
    }

    /// An object with placeholders for its random parts.
    fn masked(&self, object: &Value) -> String {
        let mut object = object.clone();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in
                ["uid", "resourceVersion", "name", "creationTimestamp", "managedFields", "generateName"]
            {
                meta.remove(field);
            }
            if let Some(labels) = meta.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove("pod-template-hash");
                labels.remove("controller-revision-hash");
            }
        }
        self.text(&canonical(&object))
    }

    /// An object's name without its random suffix; sorts objects of one owner together, revisions in order.
    fn base(&self, object: &Value) -> String {
        let meta = &object["metadata"];
        let name = text(&meta["name"]);
        if object["kind"] == "ControllerRevision" {
            let owner = items(&meta["ownerReferences"]).first().map_or("None", |owner| text(&owner["name"]));
            return format!("{owner} {:09}", object["revision"].as_i64().unwrap_or_default());
        }
        let of_stateful_set =
            items(&meta["ownerReferences"]).iter().any(|owner| owner["kind"] == "StatefulSet");
        let stem = text(&meta["generateName"]);
        if !stem.is_empty() && name.starts_with(stem) && !of_stateful_set {
            return self.text(stem);
        }
        let hash = text(&meta["labels"]["pod-template-hash"]);
        if let Some(stem) = name.strip_suffix(hash).filter(|_| !hash.is_empty()) {
            let revision = meta["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or("0");
            return format!("{stem}{revision:0>9}");
        }
        self.text(name)
    }

    fn register(&mut self, object: &Value) {
        let meta = &object["metadata"];
        let (kind, name) = (text(&object["kind"]), text(&meta["name"]));
        let owner = items(&meta["ownerReferences"]).iter().find(|owner| owner["controller"] == true);
        let owner_kind = owner.map_or("", |owner| text(&owner["kind"]));
        match kind {
            "ReplicaSet" => self.register_hash(text(&meta["labels"]["pod-template-hash"])),
            "ControllerRevision" => self.register_hash(revision_hash(meta)),
            _ => {}
        }
        let stem = text(&meta["generateName"]);
        let last = name.rsplit('-').next().unwrap_or_default();
        if !stem.is_empty()
            && name.starts_with(stem)
            && name.len() > stem.len()
            && owner_kind != "StatefulSet"
        {
            self.register_generated(name, stem);
        } else if kind == "Job" && owner_kind == "CronJob" && is_minute(name, last) {
            let minute = self.count("minute");
            self.tokens.add(last, format!("<minute-{minute}>"));
        } else if kind == "Pod" && owner_kind == "Job" && has_suffix(name, last) {
            self.register_generated(name, &name[..name.len() - last.len()]);
        }
        let shown = self.text(name);
        self.tokens.add(text(&meta["uid"]), format!("<uid:{kind}/{shown}>"));
        if kind == "Pod" {
            self.learn_addresses(object);
        }
        if kind == "Service" {
            for ip in items(&object["spec"]["clusterIPs"]).iter().map(text).filter(|ip| *ip != "None") {
                let family = if ip.contains(':') { "6" } else { "" };
                self.tokens.add(ip, format!("<clusterIP{family}:{shown}>"));
            }
        }
    }

    fn register_hash(&mut self, hash: &str) {
        if !hash.is_empty() && !self.tokens.knows(hash) {
            let number = self.count("hash");
            self.tokens.add(hash, format!("<hash-{number}>"));
        }
    }

    fn register_generated(&mut self, name: &str, stem: &str) {
        let stem = self.text(stem);
        let number = self.count(&format!("rand {stem}"));
        self.tokens.add(name, format!("{stem}<rand-{number}>"));
    }

    /// A whole object for a recording: without what every server fills in, with sorted sets.
    pub fn object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let kind = text(&object["kind"]).to_owned();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "uid",
                "resourceVersion",
                "managedFields",
                "selfLink",
                "creationTimestamp",
                "name",
                "namespace",
            ] {
                meta.remove(field);
            }
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("kind");
        }
        blank_secrets(&kind, &mut object);
        drop_pod_defaults(&kind, &mut object);
        let mut out = self.walk(&object);
        sort_sets(&kind, &mut out);
        out
    }

    fn walk(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.walk(item)).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .filter(|(key, _)| *key != "resourceVersion")
                    .map(|(key, item)| (self.text(key), self.walk(item)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

fn revision_hash(meta: &Value) -> &str {
    let name = text(&meta["name"]);
    let labels = &meta["labels"];
    let labelled = [&labels["controller.kubernetes.io/hash"], &labels["controller-revision-hash"]]
        .into_iter()
        .map(text)
        .find(|hash| !hash.is_empty() && name.ends_with(hash));
    labelled.unwrap_or_else(|| name.rsplit('-').next().unwrap_or_default())
}

fn is_minute(name: &str, last: &str) -> bool {
    name.len() > last.len() && last.len() >= 7 && last.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_suffix(name: &str, last: &str) -> bool {
    name.len() > last.len()
        && last.len() == 5
        && last.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Ports, keys, tokens and certificates that the server or a controller chose at random.
fn blank_secrets(kind: &str, object: &mut Value) {
    match kind {
        "Service" => {
            for port in items_mut(object.pointer_mut("/spec/ports")) {
                blank_port(port, "nodePort");
            }
            blank_port(&mut object["spec"], "healthCheckNodePort");
        }
        "Secret" => {
            let of_account = object["type"] == "kubernetes.io/service-account-token";
            let of_bootstrap = object["type"] == "bootstrap.kubernetes.io/token";
            for (key, value) in entries_mut(object.get_mut("data")) {
                if of_bootstrap || of_account && key == "namespace" {
                    let raw = BASE64.decode(text(value)).unwrap_or_default();
                    *value = Value::String(String::from_utf8_lossy(&raw).into_owned());
                } else if of_account {
                    *value = json!("<bytes>");
                }
            }
        }
        "ConfigMap" => {
            for (key, value) in entries_mut(object.get_mut("data")) {
                if text(value).contains("BEGIN CERTIFICATE") {
                    *value = json!("<certificate>");
                } else if key.starts_with("jws-kubeconfig-") && is_detached_jws(text(value)) {
                    *value = json!("<jws>");
                }
            }
        }
        "CertificateSigningRequest" => {
            object["spec"]["request"] = json!("<request>");
            if !text(&object["status"]["certificate"]).is_empty() {
                object["status"]["certificate"] = json!("<certificate>");
            }
        }
        _ => {}
    }
}

/// `header..signature`: a signature over content that is elsewhere.
fn is_detached_jws(text: &str) -> bool {
    Regex::new(r"^[^.]+\.\.[^.]+$").is_ok_and(|pattern| pattern.is_match(text))
}

fn blank_port(fields: &mut Value, name: &str) {
    if fields[name].as_i64().is_some_and(|port| port != 0) {
        fields[name] = json!("<port>");
    }
}

/// Values that every API server fills in say nothing about the controllers.
fn drop_pod_defaults(kind: &str, object: &mut Value) {
    let spec = match kind {
        "Pod" => object.pointer_mut("/spec"),
        "CronJob" => object.pointer_mut("/spec/jobTemplate/spec/template/spec"),
        "ControllerRevision" => object.pointer_mut("/data/spec/template/spec"),
        _ => object.pointer_mut("/spec/template/spec"),
    };
    let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
    let defaults = [
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
        ("enableServiceLinks", json!(true)),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("restartPolicy", json!("Always")),
    ];
    drop_defaults(spec, &defaults);
    let defaults = [
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("resources", json!({})),
    ];
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec.get_mut(list)).iter_mut().filter_map(Value::as_object_mut) {
            container.remove("imagePullPolicy");
            drop_defaults(container, &defaults);
        }
    }
}

fn drop_defaults(fields: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (name, default) in defaults {
        if fields.get(*name) == Some(default) {
            fields.remove(*name);
        }
    }
}

/// Lists that are sets, and whose order is therefore random.
fn sort_sets(kind: &str, out: &mut Value) {
    if let Some(conditions) = out.pointer_mut("/status/conditions") {
        sort(conditions);
    }
    match kind {
        "EndpointSlice" => {
            if let Some(meta) = out.get_mut("metadata").and_then(Value::as_object_mut) {
                meta.remove("generation"); // depends on how updates were batched
            }
            for endpoint in items_mut(out.get_mut("endpoints")) {
                if let Some(addresses) = endpoint.get_mut("addresses").and_then(Value::as_array_mut) {
                    addresses.sort_by(|a, b| text(a).cmp(text(b)));
                }
            }
            sort_fields(out, &["endpoints", "ports"]);
        }
        "Endpoints" => {
            for subset in items_mut(out.get_mut("subsets")) {
                sort_fields(subset, &["addresses", "notReadyAddresses", "ports"]);
            }
            sort_fields(out, &["subsets"]);
        }
        "Node" => {
            if let Some(taints) = out.pointer_mut("/spec/taints") {
                sort(taints);
            }
        }
        _ => {}
    }
}

/// Sorts the lists among the named fields by their natural text.
pub(super) fn sort_fields(fields: &mut Value, names: &[&str]) {
    for name in names {
        if let Some(list) = fields.as_object_mut().and_then(|map| map.get_mut(*name)) {
            sort(list);
        }
    }
}

fn sort(list: &mut Value) {
    if let Some(list) = list.as_array_mut() {
        list.sort_by_cached_key(|item| natural(&canonical(item)));
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn items_mut(value: Option<&mut Value>) -> &mut [Value] {
    value.and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

fn entries_mut(value: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    value.and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
}
