//! What must hold for every response to the check of a node, and for the plans of the two queues; for tables, properties and the simulator.

use flyball_api::Node;
use flyball_api::taint;
use flyball_runtime::{Plan, Write};
use serde_json::{Value, json};

use super::response::{Response, Taint, View};
use super::status::Ready;
use super::taints::{NO_SCHEDULE, has_no_execute};

/// Checks a response against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View, response: &Response) -> Result<(), String> {
    let Response { taint, became_not_ready, marks_pods } = *response;
    let evicts = matches!(taint, Taint::Queue | Taint::Replace);
    let is_ready = view.after == Some(Ready::True);
    let fell = view.before == Ready::True && !is_ready && view.after.is_some();
    let rules = [
        ("no pods are evicted while no node is ready", !view.no_node_ready || !evicts),
        ("no pods are evicted from a ready node", !is_ready || !evicts),
        (
            "a node that never reported is left alone",
            view.after.is_some() || *response == Response::default(),
        ),
        (
            "a node that is ready again loses its taints",
            !(is_ready && has_no_execute(&view.node)) || taint == Taint::Clear,
        ),
        ("the pods of a node that becomes not ready are marked", !fell || became_not_ready && marks_pods),
        ("a ready node has no NodeNotReady event", !is_ready || !became_not_ready),
        ("no pods of a ready node are marked", view.before != Ready::True || fell || !marks_pods),
    ];
    rules
        .iter()
        .find(|(_, holds)| !holds)
        .map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {view:?} led to {response:?}")))
}

/// Checks the plan for the taints and labels of a node.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_node(node: &Node, plan: &Plan) -> Result<(), String> {
    let patches = plan.writes().into_iter().filter_map(Write::body);
    let lists = patches.filter(|patch| patch["spec"].get("taints").is_some());
    for patch in lists {
        let listed = patch["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let is_kept = |taint: &taint::Taint| taint.effect == NO_SCHEDULE || listed.contains(&json!(taint));
        if !node.spec.taints.iter().all(is_kept) {
            return Err(format!(
                "taints with other effects are kept: {:?} becomes {listed:?}",
                node.spec.taints
            ));
        }
        if patch["metadata"]["resourceVersion"] != node.metadata.resource_version.to_string() {
            return Err(format!("a list of taints replaces the one that was read: {patch}"));
        }
    }
    Ok(())
}

/// Checks the plan that marks a pod as not ready.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_mark(live: &Value, plan: &Plan) -> Result<(), String> {
    for body in plan.writes().into_iter().filter_map(Write::body) {
        let other_conditions = |pod: &Value| -> Vec<Value> {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().filter(|condition| condition["type"] != "Ready").collect()
        };
        let other_fields = |pod: &Value| {
            let mut status = pod["status"].clone();
            status["conditions"] = Value::Null;
            (status, pod["metadata"]["uid"].clone(), pod["metadata"]["resourceVersion"].clone())
        };
        if other_conditions(&body) != other_conditions(live) || other_fields(&body) != other_fields(live) {
            return Err(format!("only the condition Ready changes: {live} becomes {body}"));
        }
    }
    Ok(())
}
