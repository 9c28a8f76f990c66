//! Namespaces, nodes, secrets, accounts, certificate requests: kinds with a few special rules each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::apps::prints;
use super::json::Json;
use super::print;
use super::shape::format_time;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, NameRule, Strategy, Subresource};

/// `v1` Namespace.
pub(super) struct Namespace;
/// `v1` Node.
pub(super) struct Node;
/// `v1` Secret.
pub(super) struct Secret;
/// `v1` ServiceAccount.
pub(super) struct ServiceAccount;
/// `certificates.k8s.io/v1` CertificateSigningRequest.
pub(super) struct SigningRequest;
/// `resource.k8s.io/v1` ResourceSlice.
pub(super) struct ResourceSlice;

/// Sets the label with the namespace's name.
pub(super) fn default_namespace(namespace: &mut Value) {
    let name = namespace.text("metadata.name").to_owned();
    if !name.is_empty() {
        namespace.put_entry("metadata.labels", "kubernetes.io/metadata.name", name);
    }
}

/// `allocatable` defaults to the capacity.
pub(super) fn default_node_status(status: &mut Value) {
    let capacity = status.at("capacity").clone();
    if capacity.is_object() {
        status.or_put("allocatable", capacity);
    }
}

/// For containers, the limit defaults to the maximum, the request to the limit, then to the minimum.
pub(super) fn default_limit_range_item(item: &mut Value) {
    if item.text("type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let source = item.map(from).cloned().unwrap_or_default();
        if let Some(target) = item.map_mut(to) {
            for (name, quantity) in source {
                target.entry(name).or_insert(quantity);
            }
        }
    }
}

/// The API group of users and groups is RBAC's, that of service accounts is the core group.
pub(super) fn default_subject(subject: &mut Value) {
    if matches!(subject.text("kind"), "User" | "Group") {
        subject.or_put("apiGroup", "rbac.authorization.k8s.io");
    }
}

pub(super) fn default_device_request(request: &mut Value) {
    request.or_put("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" {
        request.or_put("count", 1);
    }
}

impl Strategy for Namespace {
    fn prepare_create(&self, _: &Cx<'_>, namespace: &mut Value) {
        namespace.put("status", json!({"phase": "Active"}));
        namespace.or_put("spec.finalizers", json!([]));
        if let Some(Value::Array(finalizers)) = namespace.at_mut("spec.finalizers")
            && !finalizers.iter().any(|present| present == "kubernetes")
        {
            finalizers.push("kubernetes".into());
        }
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, old: &Value) {
        match old.at("spec.finalizers") {
            Value::Null => drop(new.pull("spec.finalizers")),
            finalizers => new.put("spec.finalizers", finalizers.clone()),
        }
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if sub == Subresource::Finalize {
            new.put("status", old.at("status").clone());
        }
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, _: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::status::namespace(new) } else { Vec::new() }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn field_values(&self, namespace: &Value) -> Vec<String> {
        vec![namespace.text("status.phase").to_owned()]
    }

    prints!(print::NAMESPACE);
}

impl Strategy for Node {
    /// A new node is tainted until controllers find it ready, as by upstream's admission plugin; and the first
    /// pod range is also in the field that old clients read.
    fn prepare_create(&self, _: &Cx<'_>, node: &mut Value) {
        sync_pod_ranges(node);
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        node.or_put("spec.taints", json!([]));
        if let Some(Value::Array(taints)) = node.at_mut("spec.taints")
            && !taints.iter().any(|t| t.at("key") == taint.at("key") && t.at("effect") == taint.at("effect"))
        {
            taints.push(taint);
        }
    }

    fn keep_status_on_create(&self) -> bool {
        true
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        sync_pod_ranges(new);
    }

    fn validate_create(&self, node: &Value) -> Vec<Cause> {
        validate::cluster::node(node)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::cluster::node_update(new, old)
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn field_values(&self, node: &Value) -> Vec<String> {
        vec![node.flag("spec.unschedulable").to_string()]
    }

    prints!(print::NODE);
}

fn sync_pod_ranges(node: &mut Value) {
    let single = node.text("spec.podCIDR").to_owned();
    match node.items("spec.podCIDRs").first().cloned() {
        None if !single.is_empty() => node.put("spec.podCIDRs", json!([single])),
        Some(first) if single.is_empty() => node.put("spec.podCIDR", first),
        _ => {}
    }
}

impl Strategy for Secret {
    fn prepare_create(&self, _: &Cx<'_>, secret: &mut Value) {
        encode_plain_text(secret);
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        encode_plain_text(new);
    }

    fn validate_create(&self, secret: &Value) -> Vec<Cause> {
        validate::config::secret(secret)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::config::secret_update(new, old)
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn field_values(&self, secret: &Value) -> Vec<String> {
        vec![secret.text("type").to_owned()]
    }

    prints!(print::SECRET);
}

/// `stringData` is written into `data` and never kept.
fn encode_plain_text(secret: &mut Value) {
    let Some(Value::Object(plain)) = secret.pull("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    if let Some(data) = secret.map_mut("data") {
        for (key, text) in plain {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or("")).into());
        }
    }
}

impl Strategy for ServiceAccount {
    fn prepare_create(&self, _: &Cx<'_>, account: &mut Value) {
        keep_only_names(account);
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        keep_only_names(new);
    }

    prints!(print::NAME_AND_AGE);
}

/// Keeps only the names of references to secrets.
fn keep_only_names(account: &mut Value) {
    for secret in account.items_mut("secrets") {
        if let Value::Object(fields) = secret {
            let mut kept = Map::new();
            if let Some(name) = fields.remove("name") {
                kept.insert("name".to_owned(), name);
            }
            *fields = kept;
        }
    }
}

impl Strategy for SigningRequest {
    /// The user of a request is the authenticated one, whatever the request says.
    fn prepare_create(&self, cx: &Cx<'_>, csr: &mut Value) {
        for path in ["spec.username", "spec.uid", "spec.groups", "spec.extra"] {
            csr.pull(path);
        }
        csr.put("spec.username", cx.user.name.clone());
        if !cx.user.uid.is_empty() {
            csr.put("spec.uid", cx.user.uid.clone());
        }
        csr.put("spec.groups", json!(cx.user.groups));
        if !cx.user.extra.is_empty() {
            csr.put("spec.extra", json!(cx.user.extra));
        }
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, old: &Value) {
        new.put("spec", old.at("spec").clone());
    }

    /// Approval is decided at `/approval`, everything else at `/status`.
    fn prepare_subresource_update(&self, cx: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        match sub {
            Subresource::Status => keep_decisions(new, old),
            Subresource::Approval => {
                let conditions = new.at("status.conditions").clone();
                new.put("spec", old.at("spec").clone());
                new.put("status", old.at("status").clone());
                new.put("status.conditions", conditions);
            }
            _ => return,
        }
        stamp_conditions(cx, new, old);
    }

    fn validate_create(&self, csr: &Value) -> Vec<Cause> {
        validate::certificates::request(csr)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
        validate::certificates::status(new, old, sub == Subresource::Approval)
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn field_values(&self, csr: &Value) -> Vec<String> {
        vec![csr.text("spec.signerName").to_owned()]
    }

    prints!(print::SIGNING_REQUEST);
}

/// Keeps existing decisions unchanged; validation refuses added and removed ones.
fn keep_decisions(new: &mut Value, old: &Value) {
    let earlier: Vec<&Value> = old.items("status.conditions").iter().collect();
    for condition in new.items_mut("status.conditions") {
        let kind = condition.text("type").to_owned();
        let same = |c: &&&Value| matches!(kind.as_str(), "Approved" | "Denied") && c.text("type") == kind;
        if let Some(decided) = earlier.iter().find(same) {
            *condition = (**decided).clone();
        }
    }
}

/// New conditions get the current time; unchanged ones keep theirs.
fn stamp_conditions(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    let now = format_time(cx.now, 0);
    for condition in new.items_mut("status.conditions") {
        let kind = condition.text("type").to_owned();
        let earlier = old.items("status.conditions").iter().find(|c| c.text("type") == kind);
        if !condition.has("lastTransitionTime") {
            let unchanged = earlier.filter(|earlier| earlier.at("status") == condition.at("status"));
            let since = unchanged.map(|earlier| earlier.text("lastTransitionTime")).filter(|t| !t.is_empty());
            condition.put("lastTransitionTime", since.unwrap_or(&now).to_owned());
        }
        condition.or_put("lastUpdateTime", now.clone());
    }
}

impl Strategy for ResourceSlice {
    fn prepare_create(&self, cx: &Cx<'_>, slice: &mut Value) {
        stamp_taints(cx, slice);
    }

    fn prepare_update(&self, cx: &Cx<'_>, new: &mut Value, _: &Value) {
        stamp_taints(cx, new);
    }

    fn validate_create(&self, slice: &Value) -> Vec<Cause> {
        validate::cluster::resource_slice(slice)
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn field_values(&self, slice: &Value) -> Vec<String> {
        vec![slice.text("spec.nodeName").to_owned(), slice.text("spec.driver").to_owned()]
    }

    prints!(print::RESOURCE_SLICE);
}

/// Sets the time of a taint without one.
fn stamp_taints(cx: &Cx<'_>, slice: &mut Value) {
    for taint in slice.items_mut("spec.devices").iter_mut().flat_map(|device| device.items_mut("taints")) {
        taint.or_put("timeAdded", format_time(cx.now, 0));
    }
}
