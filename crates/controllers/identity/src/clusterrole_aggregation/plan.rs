//! What an aggregated role has to allow. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use flyball_api::cluster_role::{ClusterRole, PolicyRule};
use flyball_api::selector::InvalidSelector;
use flyball_api::{LabelSelector, Object, Resource};
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

/// The rules that `role` lacks or has too many of: all that it must have, or nothing if it has just those.
pub fn plan(
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

/// The rules of all roles that a role selects: selector by selector, name by name, each rule where it comes first.
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

/// Whether `role` gathers the rules of `other`, as far as its selectors can be read.
pub fn selects(role: &ClusterRole, other: &ClusterRole) -> bool {
    let mut compiled = selectors(role).filter_map(|selector| selector.compile().ok());
    is_other(role, other) && compiled.any(|selector| selector.matches(&other.metadata.labels))
}

fn selectors(role: &ClusterRole) -> impl Iterator<Item = &LabelSelector> {
    role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.iter())
}

/// No role gathers from itself.
fn is_other(role: &ClusterRole, other: &ClusterRole) -> bool {
    role.metadata.name != other.metadata.name
}

/// What is applied: the name and the rules, nothing else. No rules are said by leaving them out.
pub fn applied(role: &ClusterRole, rules: &[PolicyRule]) -> Value {
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
