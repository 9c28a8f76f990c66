//! Rules for the controllers of cloud-controller-manager.

use std::sync::Arc;

use serde_json::Value;

use super::values::{condition, ensure, has_finalizer, items, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("cloud-node-controller",           "a node keeps its provider id",            provider_id),
    rule("cloud-node-controller",           "a node is initialized once",              initialized_once),
    rule("cloud-node-lifecycle-controller", "no deletion of a node that was always ready", deleted),
    rule("service-lb-controller",           "an address only with the finalizer",      protected),
    rule("service-lb-controller",           "an address only for a load balancer",     balanced),
    rule("node-route-controller",           "only its condition",                      only_condition),
];

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

fn provider_id(_: &ServerState, write: &Write) -> Result<(), String> {
    let (before, after) =
        (text(&write.before["spec"]["providerID"]), text(&write.after["spec"]["providerID"]));
    let holds = !write.changes("", "nodes") || before.is_empty() || before == after;
    ensure(holds, || format!("{before:?} became {after:?}"))
}

fn initialized_once(_: &ServerState, write: &Write) -> Result<(), String> {
    let waits = |node: &Value| items(&node["spec"]["taints"]).any(|taint| taint["key"] == UNINITIALIZED);
    let holds = !write.changes("", "nodes") || waits(&write.before) || !waits(&write.after);
    ensure(holds, || format!("the taint {UNINITIALIZED} is back"))
}

fn deleted(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes("", "nodes") {
        return Ok(());
    }
    let was_unwell =
        |node: &Arc<Value>| condition(node, "Ready").is_none_or(|ready| ready["status"] != "True");
    let holds = state.versions("", "nodes", uid(&write.before)).iter().any(was_unwell);
    ensure(holds, || "it was always ready".to_owned())
}

/// Whether some state of the Service that now gets another address was such.
fn had(state: &ServerState, write: &Write, fits: impl Fn(&Value) -> bool) -> bool {
    let ingress =
        |service: &Value| items(&service["status"]["loadBalancer"]["ingress"]).cloned().collect::<Vec<_>>();
    let after = ingress(&write.after);
    if !write.changes("", "services") || after.is_empty() || after == ingress(&write.before) {
        return true;
    }
    state.versions("", "services", uid(&write.after)).iter().any(|service| fits(service))
}

fn protected(state: &ServerState, write: &Write) -> Result<(), String> {
    let holds = had(state, write, |service| has_finalizer(service, CLEANUP));
    ensure(holds, || format!("it never had the finalizer {CLEANUP}, so its load balancer would leak"))
}

fn balanced(state: &ServerState, write: &Write) -> Result<(), String> {
    let is_ours = |service: &Value| {
        service["spec"]["type"] == "LoadBalancer" && text(&service["spec"]["loadBalancerClass"]).is_empty()
    };
    ensure(had(state, write, is_ours), || "it never was a load balancer of this cloud".to_owned())
}

fn only_condition(_: &ServerState, write: &Write) -> Result<(), String> {
    if !write.changes("", "nodes") {
        return Ok(());
    }
    let others = |node: &Value| {
        let conditions = items(&node["status"]["conditions"]).cloned();
        conditions.filter(|condition| condition["type"] != NETWORK_UNAVAILABLE).collect::<Vec<_>>()
    };
    let holds = write.before["spec"] == write.after["spec"] && others(&write.before) == others(&write.after);
    ensure(holds, || "it changes more of the node".to_owned())
}
