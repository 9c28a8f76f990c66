//! PodDisruptionBudgets and quotas: the arithmetic behind "no".

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, list};
use crate::world::{World, compile};

use super::common::problem_of;

/// The budgets whose selector matches the pod.
pub(crate) fn budgets_of<'a>(world: &'a World, pod: Obj<'a>) -> Vec<Obj<'a>> {
    let matches = |budget: &Obj<'_>| {
        compile(budget.at("/spec/selector"))
            .is_some_and(|selector| selector.matches_with(|key| pod.label(key)))
    };
    world.list("PodDisruptionBudget", pod.namespace()).filter(matches).collect()
}

/// `minAvailable 2` or `maxUnavailable 1`.
fn rule_of(budget: Obj<'_>) -> String {
    let value = |name: &str| {
        let value = budget.at(&format!("/spec/{name}"));
        (!value.is_null())
            .then(|| format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    value("minAvailable")
        .or_else(|| value("maxUnavailable"))
        .unwrap_or_else(|| "no minAvailable or maxUnavailable".to_owned())
}

/// Why a budget allows no eviction.
pub(crate) fn why_none(world: &World, budget: Obj<'_>) -> String {
    let count = |name: &str| budget.count(&format!("/status/{name}"));
    let (healthy, needed, expected) =
        (count("currentHealthy"), count("desiredHealthy"), count("expectedPods"));
    let failed = budget.condition("DisruptionAllowed").filter(|condition| condition.reason == "SyncFailed");
    if let Some(failed) = failed {
        return format!(
            "the disruption controller cannot tell how many pods there should be: {}",
            failed.message
        );
    }
    if expected == 0 {
        return "its selector matches no pods".to_owned();
    }
    let arithmetic = format!(
        "{} asks for {needed} healthy pods of {expected}, and {healthy} are healthy",
        rule_of(budget)
    );
    let pods = world.selected(budget.namespace(), budget.at("/spec/selector"));
    let sick = problem_of(world, pods.into_iter());
    match (needed >= expected, sick.first()) {
        (true, _) if healthy >= expected => format!("{arithmetic}: it never allows an eviction"),
        (_, Some(problem)) => format!("{arithmetic}; {}", problem.carried(budget)),
        (_, None) => arithmetic,
    }
}

pub(super) fn budget(world: &World, budget: Obj<'_>) -> Vec<Finding> {
    let seen = budget.int("/status/observedGeneration").is_some();
    if !seen || budget.count("/status/disruptionsAllowed") > 0 {
        let text = format!(
            "{} may be evicted now ({})",
            counted(budget.count("/status/disruptionsAllowed"), "pod"),
            rule_of(budget)
        );
        return if seen { vec![Finding::notes("budget", budget, text)] } else { Vec::new() };
    }
    let text = format!("no pod may be evicted: {}", why_none(world, budget));
    let never = text.contains("never allows");
    let is_empty = budget.count("/status/expectedPods") == 0;
    let finding = if is_empty {
        Finding::notes("budget", budget, text)
    } else {
        Finding::blocks("budget", budget, text)
    };
    vec![match never {
        true => finding.advise("allow one to be missing (maxUnavailable: 1), or run one replica more"),
        false => finding.advise("repair the pods that are not healthy; unhealthyPodEvictionPolicy: AlwaysAllow lets those be evicted"),
    }]
}

pub(super) fn quota(_: &World, quota: Obj<'_>) -> Vec<Finding> {
    let full: Vec<String> = quota
        .pairs("/status/hard")
        .filter_map(|(resource, hard)| {
            let used = quota.at("/status/used").get(resource)?.as_str()?;
            let parse = |text: &str| text.parse::<flyball_api::Quantity>().ok();
            (parse(used)? >= parse(hard)?).then(|| format!("{resource} {used} of {hard}"))
        })
        .collect();
    if full.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::blocks("quota-used-up", quota, format!("used up: {}", list(&full, 6)))
            .advise("raise spec.hard, or free some of it"),
    ]
}
