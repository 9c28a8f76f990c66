//! NodeRestriction: kubelets write only what concerns their own node.

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::Value;

use super::{Operation, enabled, forbid};
use crate::authz::node::{MIRROR, is_mirror};
use crate::authz::{Attributes, references};
use crate::error::{ApiError, Named};
use crate::life::Ops;
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};

const LEASES: &str = "kube-node-lease";
/// Labels of Kubernetes that kubelets may set.
const LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// And those with these prefixes, or with ones that end so after a dot.
const LABEL_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const RESTRICTED: &str = "node-restriction.kubernetes.io";
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// A write of a node.
struct Write<'a> {
    ops: &'a Ops<'a>,
    node: &'a str,
    operation: Operation,
    sub: Option<Subresource>,
    namespace: &'a str,
    name: &'a str,
    /// The object that is written; that which is deleted.
    object: &'a Value,
    old: &'a Value,
}

/// Refuses what a node may not write. `key` is that of the object, or of what a subresource belongs to.
pub(super) fn check(
    ops: &Ops<'_>,
    (operation, sub): (Operation, Option<Subresource>),
    key: &Key,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(node) = crate::authz::node::identity(ops.user) else { return Ok(()) };
    if !enabled(ops, "NodeRestriction") || operation == Operation::Connect {
        return Ok(());
    }
    let old = old.unwrap_or(&Value::Null);
    let write = Write { ops, node, operation, sub, namespace: &key.namespace, name: &key.name, object, old };
    if node.is_empty() {
        return write.refuse(&format!("could not determine node from user {:?}", ops.user.name));
    }
    match (ops.resource.group.as_str(), ops.resource.plural.as_str()) {
        ("", "pods") => write.pod(),
        ("", "nodes") => write.own_node(),
        ("", "persistentvolumeclaims") => write.claim(),
        ("", "serviceaccounts") if sub == Some(Subresource::Token) => write.token(),
        ("certificates.k8s.io", "podcertificaterequests") => {
            write.refuse("PodCertificateRequest feature gate is disabled")
        }
        ("coordination.k8s.io", "leases") => write.lease(),
        ("storage.k8s.io", "csinodes") => write.csi_node(),
        ("resource.k8s.io", "resourceslices") => write.slice(),
        ("certificates.k8s.io", "certificatesigningrequests") => write.signing_request(),
        _ => Ok(()),
    }
}

type Checked = Result<(), ApiError>;

impl Write<'_> {
    fn refuse(&self, why: &str) -> Checked {
        match self.name {
            "" => Err(forbid(self.ops, self.object, why)),
            name => Err(ApiError::forbidden(self.ops.resource.named(name), why)),
        }
    }

    fn operation(&self) -> &'static str {
        match self.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    fn stored(&self, plural: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let found = self.ops.server.store.get(&ShelfId::new("", plural), &Key::new(namespace, name));
        let missing = || ApiError::not_found(Named { group: "", what: kind, name });
        found.map(|entry| entry.value()).ok_or_else(missing)
    }

    fn pod(&self) -> Checked {
        let node = self.node;
        match (self.sub, self.operation) {
            (None, Operation::Create) => self.mirror_pod(),
            (None, Operation::Delete) if self.is_here(self.object) => Ok(()),
            (None, Operation::Delete) => {
                self.refuse(&format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
            }
            (None, _) => self.refuse(&format!(
                "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                self.operation()
            )),
            (Some(Subresource::Status), Operation::Update) => self.pod_status(),
            (Some(Subresource::Eviction), Operation::Create) => {
                let pod = self.stored("pods", "pod", self.namespace, self.name)?;
                match self.is_here(&pod) {
                    true => Ok(()),
                    false => self
                        .refuse(&format!("node {node} can only evict pods with spec.nodeName set to itself")),
                }
            }
            (Some(Subresource::Status | Subresource::Eviction), _) => {
                self.refuse(&format!("unexpected operation {:?}", self.operation()))
            }
            (Some(sub), _) => self.refuse(&format!(
                "unexpected pod subresource {:?}, only 'status' and 'eviction' are allowed",
                sub.segment()
            )),
        }
    }

    fn is_here(&self, pod: &Value) -> bool {
        pod["spec"]["nodeName"] == self.node
    }

    /// Kubelets show the pods that they run from files, and those need nothing from the API.
    fn mirror_pod(&self) -> Checked {
        let (node, pod) = (self.node, self.object);
        if !is_mirror(pod) {
            return self.refuse(&format!(
                "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
            ));
        }
        if !self.is_here(pod) {
            return self
                .refuse(&format!("node {node:?} can only create pods with spec.nodeName set to itself"));
        }
        let owners = pod["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        let with = |what: &str| format!("node {node:?} can only create pods with {what} set to itself");
        let owner = match owners {
            [] => return self.refuse(&with("an owner reference")),
            [owner] => owner,
            _ => return self.refuse(&with("a single owner reference")),
        };
        if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
            return self.refuse(&with("an owner reference"));
        }
        if owner["controller"] != true {
            return self.refuse(&with("a controller owner reference"));
        }
        if owner["blockOwnerDeletion"] == true {
            return self
                .refuse(&format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
        }
        let known = self.stored("nodes", "node", "", node)?;
        let (given, uid) = (owner["uid"].as_str().unwrap_or_default(), meta::text(&known, "uid"));
        if given != uid {
            return self.refuse(&format!("node {node} UID mismatch: expected {given} got {uid}"));
        }
        match referenced(pod) {
            Some(what) => self.refuse(&format!("node {node:?} can not create pods that reference {what}")),
            None => Ok(()),
        }
    }

    fn pod_status(&self) -> Checked {
        let (node, new, old) = (self.node, self.object, self.old);
        if !self.is_here(old) {
            return self.refuse(&format!(
                "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        if labels(new) != labels(old) {
            return self.refuse(&format!("node {node:?} cannot update labels through pod status"));
        }
        let same = |field: &str| new["status"][field] == old["status"][field];
        if !same("resourceClaimStatuses") {
            return self.refuse(&format!("node {node:?} cannot update resource claim statues"));
        }
        if !same("extendedResourceClaimStatus") {
            return self.refuse(&format!("node {node:?} cannot update extended resource claim status"));
        }
        Ok(())
    }

    fn own_node(&self) -> Checked {
        let (node, new, old) = (self.node, self.object, self.old);
        let name = if self.name.is_empty() { meta::text(new, "name") } else { self.name };
        if name != node {
            return self.refuse(&format!("node {node:?} is not allowed to modify node {name:?}"));
        }
        let source = &new["spec"]["configSource"];
        match self.operation {
            Operation::Create => {
                if source.is_object() {
                    return self.refuse(&format!(
                        "node {node:?} is not allowed to create pods with a non-nil configSource"
                    ));
                }
                match forbidden_labels(new, &Value::Null) {
                    labels if labels.is_empty() => Ok(()),
                    labels => self.refuse(&format!(
                        "node {node:?} is not allowed to set the following labels: {labels}"
                    )),
                }
            }
            Operation::Update => {
                if source.is_object() && *source != old["spec"]["configSource"] {
                    return self.refuse(&format!(
                        "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                    ));
                }
                if !same_list(&new["spec"]["taints"], &old["spec"]["taints"]) {
                    return self.refuse(&format!("node {node:?} is not allowed to modify taints"));
                }
                if !same_list(&new["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]) {
                    return self.refuse(&format!("node {node:?} is not allowed to modify ownerReferences"));
                }
                match forbidden_labels(new, old) {
                    labels if labels.is_empty() => Ok(()),
                    labels => self.refuse(&format!("is not allowed to modify labels: {labels}")),
                }
            }
            _ => Ok(()),
        }
    }

    /// Kubelets report how large a volume has become.
    fn claim(&self) -> Checked {
        match (self.sub, self.operation) {
            (Some(Subresource::Status), Operation::Update) => {
                let compared = |claim: &Value| {
                    let mut claim = claim.clone();
                    meta::of(&mut claim)
                        .retain(|name, _| !matches!(name.as_str(), "resourceVersion" | "managedFields"));
                    let reported =
                        ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
                    if let Some(status) = claim["status"].as_object_mut() {
                        status.retain(|name, _| !reported.contains(&name.as_str()));
                    }
                    claim
                };
                if compared(self.object) == compared(self.old) {
                    return Ok(());
                }
                self.refuse(&format!(
                    "node {:?} is not allowed to update fields other than status.quantity and status.conditions",
                    self.node
                ))
            }
            (Some(Subresource::Status), _) => {
                self.refuse(&format!("unexpected operation {:?}", self.operation()))
            }
            _ => self.refuse("may only update PVC status"),
        }
    }

    fn token(&self) -> Checked {
        if self.operation != Operation::Create {
            return Ok(());
        }
        let spec = &self.object["spec"];
        let to = &spec["boundObjectRef"];
        let name = to["name"].as_str().unwrap_or_default();
        if to["apiVersion"] != "v1" || to["kind"] != "Pod" || name.is_empty() {
            return self.refuse("node requested token not bound to a pod");
        }
        let Some(uid) = to["uid"].as_str().filter(|uid| !uid.is_empty()) else {
            return self.refuse("node requested token with a pod binding without a uid");
        };
        let pod = self.stored("pods", "pod", self.namespace, name)?;
        if uid != meta::text(&pod, "uid") {
            return self.refuse(&format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            ));
        }
        if !self.is_here(&pod) {
            return self.refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audiences: Vec<&str> =
            spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let audience = match audiences[..] {
            [] => "",
            [one] => one,
            _ => return self.refuse("node may only request 0 or 1 audiences"),
        };
        if self.has_audience(&pod, audience) || self.may_request(audience) {
            return Ok(());
        }
        self.refuse(&format!(
            "audience {audience:?} not found in pod spec volume, {} is not authorized to request tokens for this audience",
            self.ops.user.name
        ))
    }

    fn may_request(&self, audience: &str) -> bool {
        let wanted = Attributes {
            verb: "request-serviceaccounts-token-audience",
            namespace: self.namespace,
            resource: audience,
            name: self.name,
            ..Attributes::default()
        };
        self.ops.server.authz.allows(self.ops.server, self.ops.user, &wanted)
    }

    /// Whether a volume of the pod, or the CSI driver of one, needs tokens for an audience.
    fn has_audience(&self, pod: &Value, audience: &str) -> bool {
        let of = |entry: &Value| entry["audience"].as_str().unwrap_or_default() == audience;
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        list(&pod["spec"]["volumes"]).iter().any(|volume| {
            let mut tokens = list(&volume["projected"]["sources"])
                .into_iter()
                .map(|source| source["serviceAccountToken"].clone());
            if tokens.any(|token| token.is_object() && of(&token)) {
                return true;
            }
            let Some(driver) = self.driver(pod, volume) else { return false };
            let driver = self
                .ops
                .server
                .store
                .get(&ShelfId::new("storage.k8s.io", "csidrivers"), &Key::new("", driver.as_str()));
            driver.is_some_and(|driver| list(&driver.value()["spec"]["tokenRequests"]).iter().any(of))
        })
    }

    fn driver(&self, pod: &Value, volume: &Value) -> Option<String> {
        if let Some(driver) = volume["csi"]["driver"].as_str() {
            return Some(driver.to_owned());
        }
        let claim = references::claim(pod, volume)?;
        let claim = self.stored("persistentvolumeclaims", "", self.namespace, &claim).ok()?;
        let volume = self.stored("persistentvolumes", "", "", claim["spec"]["volumeName"].as_str()?).ok()?;
        volume["spec"]["csi"]["driver"].as_str().map(str::to_owned)
    }

    /// The name of the object, also if it is new.
    fn own_name(&self) -> &str {
        if self.operation == Operation::Create { meta::text(self.object, "name") } else { self.name }
    }

    fn lease(&self) -> Checked {
        if self.namespace != LEASES {
            return self.refuse(&format!("can only access leases in the {LEASES:?} system namespace"));
        }
        match self.own_name() == self.node {
            true => Ok(()),
            false => self.refuse("can only access node lease with the same name as the requesting node"),
        }
    }

    fn csi_node(&self) -> Checked {
        match self.own_name() == self.node {
            true => Ok(()),
            false => self.refuse("can only access CSINode with the same name as the requesting node"),
        }
    }

    fn slice(&self) -> Checked {
        let what = match self.operation {
            Operation::Create => "create",
            Operation::Delete => "delete",
            _ => return Ok(()),
        };
        match self.object["spec"]["nodeName"] == self.node {
            true => Ok(()),
            false => self.refuse(&format!(
                "can only {what} ResourceSlice with the same NodeName as the requesting node"
            )),
        }
    }

    fn signing_request(&self) -> Checked {
        let signer = self.object["spec"]["signerName"].as_str().unwrap_or_default();
        if self.operation != Operation::Create || !KUBELET_SIGNERS.contains(&signer) {
            return Ok(());
        }
        let Some(name) = common_name(self.object) else {
            return self.refuse("unable to parse csr: PEM block type must be CERTIFICATE REQUEST");
        };
        let wanted = format!("system:node:{}", self.node);
        match name == wanted {
            true => Ok(()),
            false => self.refuse(&format!("can only create a node CSR with CN={wanted}")),
        }
    }
}

fn labels(object: &Value) -> Vec<(&String, &Value)> {
    object["metadata"]["labels"].as_object().into_iter().flatten().collect()
}

/// No list is the same as an empty one.
fn same_list(a: &Value, b: &Value) -> bool {
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    list(a) == list(b)
}

/// The labels of Kubernetes that differ and that kubelets may not set, in order.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let (new, old) = (&new["metadata"]["labels"], &old["metadata"]["labels"]);
    let keys = [new, old].into_iter().filter_map(Value::as_object).flat_map(|labels| labels.keys());
    let differ = keys.filter(|key| new.get(key.as_str()) != old.get(key.as_str()));
    let forbidden: BTreeSet<&str> = differ.map(String::as_str).filter(|key| is_forbidden(key)).collect();
    forbidden.into_iter().collect::<Vec<_>>().join(", ")
}

fn is_forbidden(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_below =
        |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let is_allowed = LABELS.contains(&key) || LABEL_PREFIXES.iter().any(|domain| is_below(domain));
    is_below(RESTRICTED) || ((is_below("kubernetes.io") || is_below("k8s.io")) && !is_allowed)
}

/// What a pod needs from the API, in upstream's words.
fn referenced(pod: &Value) -> Option<&'static str> {
    let spec = &pod["spec"];
    if spec["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty()) {
        return Some("serviceaccounts");
    }
    if !references::secrets(pod).is_empty() {
        return Some("secrets");
    }
    if !references::config_maps(pod).is_empty() {
        return Some("configmaps");
    }
    if spec["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty()) {
        return Some("resourceclaims");
    }
    spec["volumes"].as_array().into_iter().flatten().find_map(of_volume)
}

fn of_volume(volume: &Value) -> Option<&'static str> {
    const VOLUMES: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const SOURCES: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let find = |of: &Value, table: &[(&str, &'static str)]| {
        table.iter().find(|(kind, _)| of[*kind].is_object()).map(|(_, what)| *what)
    };
    find(volume, &VOLUMES).or_else(|| {
        let sources = volume["projected"]["sources"].as_array();
        sources.into_iter().flatten().find_map(|source| find(source, &SOURCES))
    })
}

fn common_name(request: &Value) -> Option<String> {
    use x509_parser::prelude::FromDer as _;
    let encoded = request["spec"]["request"].as_str().unwrap_or_default();
    let pem = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let (_, parsed) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &parsed.certification_request_info.subject;
    let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
    Some(name.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_set_labels_of_their_own_only() {
        #[rustfmt::skip]
        let table = [
            ("a",                                      false),
            ("example.com/a",                          false),
            ("kubernetes.io/hostname",                 false),
            ("node.kubernetes.io/x",                   false),
            ("sub.kubelet.kubernetes.io/x",            false),
            ("notkubelet.kubernetes.io/x",             true),
            ("kubernetes.io/x",                        true),
            ("mykubernetes.io/x",                      false),
            ("some.k8s.io/x",                          true),
            ("node-restriction.kubernetes.io/x",       true),
            ("a.node-restriction.kubernetes.io/x",     true),
            ("node-role.kubernetes.io/control-plane",  true),
        ];
        for (key, want) in table {
            assert_eq!(is_forbidden(key), want, "{key}");
        }
    }
}
