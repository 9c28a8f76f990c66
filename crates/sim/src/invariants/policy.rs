//! Rules for budgets, quotas, roles and policies.

use serde_json::Value;

use super::values::{ensure, items, text};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("disruption-controller",                       "allowed disruptions leave the desired healthy pods",    budget),
    rule("disruption-controller",                       "the condition matches the number",                      condition),
    rule("resourcequota-controller",                    "status.hard is spec.hard",                              limits),
    rule("resourcequota-controller",                    "only limited resources are counted, from zero",         used),
    rule("clusterrole-aggregation-controller",          "only aggregated roles, and only rules that a role has", gathered),
    rule("validatingadmissionpolicy-status-controller", "only the status, and of this generation",               policy),
];

fn budget(_: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("policy", "poddisruptionbudgets") {
        return Ok(());
    }
    let status = &write.after["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let (allowed, healthy, desired) =
        (number("disruptionsAllowed"), number("currentHealthy"), number("desiredHealthy"));
    let holds = allowed >= 0 && (allowed == 0 || healthy - allowed >= desired && number("expectedPods") > 0);
    ensure(holds, || status.to_string())
}

fn condition(_: &ServerState, write: &Write) -> Result<(), String> {
    let status = &write.after["status"];
    let Some(said) = items(&status["conditions"]).find(|said| said["type"] == "DisruptionAllowed") else {
        return Ok(());
    };
    let allows = status["disruptionsAllowed"].as_i64().unwrap_or(0) > 0;
    ensure(!write.is_on("policy", "poddisruptionbudgets") || (said["status"] == "True") == allows, || {
        status.to_string()
    })
}

fn limits(_: &ServerState, write: &Write) -> Result<(), String> {
    let (asked, enforced) = (&write.after["spec"]["hard"], &write.after["status"]["hard"]);
    let is_none = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
    let holds =
        !write.is_on("", "resourcequotas") || asked == enforced || is_none(asked) && is_none(enforced);
    ensure(holds, || format!("{asked} is in the spec, {enforced} in the status"))
}

fn used(_: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("", "resourcequotas") {
        return Ok(());
    }
    for (name, amount) in write.after["status"]["used"].as_object().into_iter().flatten() {
        let is_limited = !write.after["spec"]["hard"][name].is_null();
        ensure(is_limited && !text(amount).starts_with('-'), || format!("{amount} of {name}"))?;
    }
    Ok(())
}

fn gathered(state: &ServerState, write: &Write) -> Result<(), String> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let roles = state.list(GROUP, "clusterroles", None);
    ensure(write.after["aggregationRule"].is_object(), || "it gathers no others".to_owned())?;
    for rule in items(&write.after["rules"]) {
        let has = |role: &Value| items(&role["rules"]).any(|own| own == rule);
        let is_other = |role: &Value| super::values::name(role) != write.name;
        let is_held = roles.iter().any(|role| is_other(role) && has(role))
            || roles.iter().filter(|role| is_other(role)).any(|role| {
                state.versions(GROUP, "clusterroles", super::values::uid(role)).iter().any(|old| has(old))
            });
        ensure(is_held || has(&write.before), || format!("no role has {rule}"))?;
    }
    Ok(())
}

fn policy(_: &ServerState, write: &Write) -> Result<(), String> {
    let (before, after) = (&write.before, &write.after);
    ensure(before["spec"] == after["spec"], || "the policy itself has changed".to_owned())?;
    let (observed, now) = (&after["status"]["observedGeneration"], &after["metadata"]["generation"]);
    ensure(observed == now, || format!("it is about generation {observed} of {now}"))
}
