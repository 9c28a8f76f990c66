//! The Node authorizer: kubelets (`system:node:NAME` in the group `system:nodes`) may read what the pods on their node need, and
//! work on their own objects. What they write is restricted further by admission.

use std::sync::Arc;

use serde_json::Value;

use super::{Attributes, Rule, references};
use crate::registry::User;
use crate::server::Inner;
use crate::store::{Entry, Key, ShelfId};

const GROUP: &str = "system:nodes";
const PREFIX: &str = "system:node:";
const LEASES: &str = "kube-node-lease";
/// The role whose rules apply to everything that is not restricted here.
const ROLE: &str = "system:node";
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The name of the node that a user is; `None` if it is no node.
pub(crate) fn identity(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(PREFIX)?;
    user.groups.iter().any(|group| group == GROUP).then_some(name)
}

/// The rules of all nodes, as they are built in: changes of the role have no effect on them.
pub(super) fn rules(server: &Inner) -> Vec<Rule> {
    let objects = crate::kinds::bootstrap(&server.options.feature_gates);
    let role = objects
        .into_iter()
        .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == ROLE);
    role.as_ref().and_then(|role| role["rules"].as_array()).into_iter().flatten().map(Rule::read).collect()
}

/// One request of a node.
struct Asked<'a> {
    server: &'a Inner,
    node: &'a str,
    wanted: &'a Attributes<'a>,
}

/// Why a request is not allowed here; RBAC may still allow it.
type Decision = Result<(), String>;

/// Decides about a request of a node.
pub(super) fn decide(
    server: &Inner,
    node: &str,
    rules: &[Rule],
    user: &User,
    wanted: &Attributes<'_>,
) -> Decision {
    if node.is_empty() {
        return Err(format!("unknown node for user {:?}", user.name));
    }
    let asked = Asked { server, node, wanted };
    if wanted.path.is_none() {
        match (wanted.group, wanted.resource) {
            ("", "secrets") => return asked.read_one(|| asked.is_secret_needed()),
            ("", "configmaps") => {
                return asked
                    .read_one(|| asked.is_on_pod(|pod, name| references::config_maps(pod).contains(&name)));
            }
            ("", "persistentvolumeclaims") if wanted.subresource == "status" => {
                return match wanted.verb {
                    "update" | "patch" => {
                        asked.related(|| asked.is_claim_used(wanted.namespace, wanted.name))
                    }
                    _ => refuse("can only get/update/patch this type"),
                };
            }
            ("", "persistentvolumeclaims") => {
                return asked.get(|| asked.is_claim_used(wanted.namespace, wanted.name));
            }
            ("", "persistentvolumes") => return asked.get(|| asked.is_volume_used()),
            ("resource.k8s.io", "resourceclaims") => {
                return asked
                    .get(|| asked.is_on_pod(|pod, name| references::resource_claims(pod).contains(&name)));
            }
            ("storage.k8s.io", "volumeattachments") => return asked.get(|| asked.is_named("storage.k8s.io")),
            ("", "serviceaccounts") => return asked.account(),
            ("coordination.k8s.io", "leases") => return asked.lease(),
            ("storage.k8s.io", "csinodes") => return asked.csi_node(),
            ("resource.k8s.io", "resourceslices") => return asked.slice(),
            ("", "nodes") => return asked.node(),
            ("", "pods") => return asked.pod(),
            // A kind that is off by default.
            ("certificates.k8s.io", "podcertificaterequests") => return refuse(""),
            _ => {}
        }
    }
    if rules.iter().any(|rule| rule.allows(wanted)) { Ok(()) } else { refuse("") }
}

fn refuse(why: &str) -> Decision {
    Err(why.to_owned())
}

impl Asked<'_> {
    fn get(&self, is_related: impl Fn() -> bool) -> Decision {
        match (self.wanted.verb, self.wanted.subresource) {
            ("get", "") => self.related(is_related),
            ("get", _) => refuse("cannot get subresource"),
            _ => refuse("can only get individual resources of this type"),
        }
    }

    fn read_one(&self, is_related: impl Fn() -> bool) -> Decision {
        if !matches!(self.wanted.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        match (self.wanted.subresource, self.wanted.namespace) {
            ("", "") => refuse("can only read namespaced object of this type"),
            ("", _) => self.related(is_related),
            _ => refuse("cannot read subresource"),
        }
    }

    fn related(&self, is_related: impl Fn() -> bool) -> Decision {
        if self.wanted.name.is_empty() {
            return refuse("No Object name found");
        }
        match is_related() {
            true => Ok(()),
            false => Err(format!("no relationship found between node '{}' and this object", self.node)),
        }
    }

    /// Pods of the node in a namespace, or in all.
    fn pods(&self, namespace: Option<&str>) -> Vec<Value> {
        let at =
            self.server.catalog.get("", "v1", "pods").and_then(|pods| {
                pods.strategy.field_labels().iter().position(|label| *label == "spec.nodeName")
            });
        let is_here = |entry: &&Arc<Entry>| {
            at.and_then(|at| entry.facets.fields.get(at)).is_some_and(|node| node == self.node)
        };
        let all = self.server.store.all(&ShelfId::new("", "pods"), namespace);
        all.iter().filter(is_here).map(|entry| entry.value()).collect()
    }

    /// Whether a pod of the node in the object's namespace refers to it. Mirror pods give access to nothing: kubelets make them.
    fn is_on_pod(&self, refers: impl Fn(&Value, &str) -> bool) -> bool {
        let pods = self.pods(Some(self.wanted.namespace));
        pods.iter().filter(|pod| !is_mirror(pod)).any(|pod| refers(pod, self.wanted.name))
    }

    fn is_secret_needed(&self) -> bool {
        if self.is_on_pod(|pod, name| references::secrets(pod).contains(&name)) {
            return true;
        }
        let secret = (self.wanted.namespace, self.wanted.name);
        self.volumes().iter().any(|volume| {
            references::volume_secrets(volume).contains(&secret) && self.is_bound_to_used_claim(volume)
        })
    }

    fn volumes(&self) -> Vec<Value> {
        let all = self.server.store.all(&ShelfId::new("", "persistentvolumes"), None);
        all.iter().map(|entry| entry.value()).collect()
    }

    fn is_claim_used(&self, namespace: &str, name: &str) -> bool {
        let pods = self.pods(Some(namespace));
        pods.iter()
            .filter(|pod| !is_mirror(pod))
            .any(|pod| references::claims(pod).iter().any(|claim| claim == name))
    }

    fn is_bound_to_used_claim(&self, volume: &Value) -> bool {
        let text = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default();
        self.is_claim_used(text("namespace"), text("name"))
    }

    fn is_volume_used(&self) -> bool {
        let volume = self.stored("");
        volume.is_some_and(|volume| self.is_bound_to_used_claim(&volume))
    }

    /// Whether the object names the node in its spec.
    fn is_named(&self, group: &str) -> bool {
        self.stored(group).is_some_and(|object| object["spec"]["nodeName"] == self.node)
    }

    fn stored(&self, group: &str) -> Option<Value> {
        let key = Key::new(self.wanted.namespace, self.wanted.name);
        Some(self.server.store.get(&ShelfId::new(group, self.wanted.resource), &key)?.value())
    }

    fn account(&self) -> Decision {
        let is_used = || self.is_on_pod(|pod, name| pod["spec"]["serviceAccountName"] == name);
        match (self.wanted.verb, self.wanted.subresource) {
            ("get", "") => self.read_one(is_used),
            ("create", "token") if !self.wanted.name.is_empty() => self.related(is_used),
            ("create", _) if !self.wanted.name.is_empty() => {
                refuse("can only create token subresource of serviceaccount")
            }
            _ => refuse("can only create tokens for individual service accounts"),
        }
    }

    fn is_own_work(&self) -> bool {
        matches!(self.wanted.verb, "get" | "create" | "update" | "patch" | "delete")
    }

    /// Whether the object has the name of the node, or will be looked at by admission.
    fn is_own_name(&self) -> bool {
        self.wanted.verb == "create" || self.wanted.name == self.node
    }

    fn lease(&self) -> Decision {
        if !self.is_own_work() {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        if self.wanted.namespace != LEASES {
            return Err(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        match self.is_own_name() {
            true => Ok(()),
            false => refuse("can only access node lease with the same name as the requesting node"),
        }
    }

    fn csi_node(&self) -> Decision {
        if !self.is_own_work() {
            return refuse("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.wanted.subresource.is_empty() {
            return refuse("cannot authorize CSINode subresources");
        }
        match self.is_own_name() {
            true => Ok(()),
            false => refuse("can only access CSINode with the same name as the requesting node"),
        }
    }

    /// Whether the request selects by a field what belongs to the node.
    fn selects_own(&self) -> bool {
        self.wanted.selected.iter().any(|(field, value)| field == "spec.nodeName" && value == self.node)
    }

    fn slice(&self) -> Decision {
        match (self.wanted.subresource, self.wanted.verb) {
            ("", "create") => Ok(()),
            ("", "get" | "update" | "patch" | "delete") => self.related(|| self.is_named("resource.k8s.io")),
            ("", "watch" | "list" | "deletecollection") if self.selects_own() => Ok(()),
            ("", "watch" | "list" | "deletecollection") => {
                refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            ("", _) => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            ),
            _ => refuse("cannot authorize ResourceSlice subresources"),
        }
    }

    fn node(&self) -> Decision {
        match (self.wanted.subresource, self.wanted.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match self.wanted.name {
                name if name == self.node => Ok(()),
                "" => Err(format!("node '{}' cannot read all nodes, only its own Node object", self.node)),
                name => Err(format!("node '{}' cannot read '{name}', only its own Node object", self.node)),
            },
            _ => refuse(""),
        }
    }

    fn pod(&self) -> Decision {
        let is_own = || self.is_named("");
        match (self.wanted.subresource, self.wanted.verb) {
            ("", "get") => self.get(is_own),
            ("", "list" | "watch") if self.selects_own() => Ok(()),
            ("", "list" | "watch") if !self.wanted.name.is_empty() => self.related(is_own),
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => refuse(""),
        }
    }
}

pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}
