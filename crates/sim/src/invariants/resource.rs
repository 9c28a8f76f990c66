//! Rules for ResourceClaims and devices.

use std::sync::Arc;

use serde_json::Value;

use super::values::{ensure, has_ended, is_deleting, items, manager, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("resourceclaim-controller",             "an active pod keeps its reservation",                  reserved),
    rule("resourceclaim-controller",             "a claim is kept while its pod runs",                   owner_is_done),
    rule("resourceclaim-controller",             "one claim for each entry of a pod",                    one_each),
    rule("resourceclaim-controller",             "devices are released before the finalizer is removed", free_first),
    rule("resourcepoolstatusrequest-controller", "the status is written once",                           one_answer),
    rule("device-taint-eviction-controller",     "only pods with devices",                               has_devices),
];

const GROUP: &str = "resource.k8s.io";

/// The uids that a ResourceClaim is reserved for.
fn users(claim: &Value) -> Vec<&str> {
    items(&claim["status"]["reservedFor"]).map(|user| text(&user["uid"])).collect()
}

fn reserved(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.changes(GROUP, "resourceclaims") || uid(&write.before) != uid(&write.after) {
        return Ok(());
    }
    let left = users(&write.after);
    let pods = state.list("", "pods", Some(&write.namespace));
    for gone in users(&write.before).into_iter().filter(|user| !left.contains(user)) {
        let runs = |pod: &Arc<Value>| uid(pod) == gone && !has_ended(pod) && !is_deleting(pod);
        ensure(!pods.iter().any(runs), || format!("pod {gone} runs, and loses its devices"))?;
    }
    Ok(())
}

fn owner_is_done(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes(GROUP, "resourceclaims") {
        return Ok(());
    }
    let owner = manager(&write.before);
    let pods = state.list("", "pods", Some(&write.namespace));
    let runs = pods.iter().any(|pod| uid(pod) == owner && !has_ended(pod) && !is_deleting(pod));
    ensure(!runs, || format!("its pod {owner} runs"))
}

fn one_each(state: &ServerState, write: &Write) -> Result<(), String> {
    const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
    let entry = &write.after["metadata"]["annotations"][ENTRY];
    if !write.creates(GROUP, "resourceclaims") || entry.is_null() {
        return Ok(());
    }
    let owner = manager(&write.after);
    let claims = state.list(GROUP, "resourceclaims", Some(&write.namespace));
    let is_same = |claim: &&Arc<Value>| {
        manager(claim) == owner
            && claim["metadata"]["annotations"][ENTRY] == *entry
            && !is_deleting(claim)
            && state.was_made_by(&write.account, claim)
    };
    let same = claims.iter().filter(is_same).count();
    ensure(same <= 1, || format!("{same} claims for {entry} of {owner}"))
}

fn free_first(_: &ServerState, write: &Write) -> Result<(), String> {
    let is_held = !write.before["status"]["allocation"].is_null();
    ensure(!write.drops("resource.kubernetes.io/delete-protection") || !is_held, || {
        "it holds devices".to_owned()
    })
}

fn one_answer(_: &ServerState, write: &Write) -> Result<(), String> {
    let is_answered =
        |request: &Value| request["status"].as_object().is_some_and(|status| !status.is_empty());
    ensure(write.verb == "delete" || !is_answered(&write.before), || "it was answered before".to_owned())
}

fn has_devices(_: &ServerState, write: &Write) -> Result<(), String> {
    let pod = &write.before;
    let has = items(&pod["spec"]["resourceClaims"]).next().is_some()
        || !pod["status"]["extendedResourceClaimStatus"].is_null();
    ensure(!write.deletes("", "pods") || has, || "it has none".to_owned())
}
