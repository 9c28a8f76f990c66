//! The rules of an aggregated role. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use flyball_api::cluster_role::{ClusterRole, PolicyRule};
use flyball_api::selector::InvalidSelector;
use flyball_api::{LabelSelector, Object, Resource};
use flyball_client::Patch;
use flyball_runtime::{Chain, Effect, Plan, Write};
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use super::NAME;

/// Applies the rules that `role` must have, unless it has exactly those.
pub fn plan(role: &ClusterRole, all: &[Arc<ClusterRole>]) -> Plan {
    let apply = |rules: Vec<PolicyRule>| {
        let patch = Patch::Apply { manager: NAME.into(), force: true, object: applied(role, &rules) };
        let why = "it must allow what the roles it selects allow";
        Write::patch::<ClusterRole>(role.key(), patch).why(why)
    };
    match missing_rules(role, all) {
        Ok(rules) => Plan::of(rules.map(apply)),
        Err(error) => {
            let message = format!("invalid selector of ClusterRole {}: {}", role.key(), Chain(&error));
            Plan::of([Effect::Invalid(message)])
        }
    }
}

/// All rules that `role` must have; `None` if it has exactly those, or is not aggregated.
pub(super) fn missing_rules(
    role: &ClusterRole,
    all: &[Arc<ClusterRole>],
) -> Result<Option<Vec<PolicyRule>>, InvalidSelector> {
    if role.aggregation_rule.is_none() {
        return Ok(None);
    }
    let wanted = gathered(role, all)?;
    let held = role.rules.as_deref().unwrap_or_default();
    Ok((held != wanted).then_some(wanted))
}

/// The rules of all roles that a role selects, in the order of selectors and names, without duplicates.
fn gathered(role: &ClusterRole, all: &[Arc<ClusterRole>]) -> Result<Vec<PolicyRule>, InvalidSelector> {
    let (mut rules, mut known) = (vec![], HashSet::with_hasher(FxBuildHasher));
    for selector in selectors(role) {
        let selector = selector.compile()?;
        let matching =
            all.iter().filter(|other| selector.matches(&other.metadata.labels) && is_other(role, other));
        let mut matching: Vec<&Arc<ClusterRole>> = matching.collect();
        matching.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        for rule in matching.into_iter().flat_map(|other| other.rules.iter().flatten()) {
            if known.insert(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Ok(rules)
}

/// Whether a valid selector of `role` matches `other`.
pub fn selects(role: &ClusterRole, other: &ClusterRole) -> bool {
    let mut compiled = selectors(role).filter_map(|selector| selector.compile().ok());
    is_other(role, other) && compiled.any(|selector| selector.matches(&other.metadata.labels))
}

fn selectors(role: &ClusterRole) -> impl Iterator<Item = &LabelSelector> {
    role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.iter())
}

/// A role does not aggregate itself.
fn is_other(role: &ClusterRole, other: &ClusterRole) -> bool {
    role.metadata.name != other.metadata.name
}

/// The name and the rules, nothing else. An empty list of rules is left out.
pub(super) fn applied(role: &ClusterRole, rules: &[PolicyRule]) -> Value {
    let mut body = json!({
        "apiVersion": ClusterRole::TYPE.api_version(),
        "kind": ClusterRole::TYPE.kind,
        "metadata": {"name": role.key().name},
    });
    if !rules.is_empty() {
        body["rules"] = json!(rules);
    }
    body
}
