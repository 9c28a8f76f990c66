//! The kinds that a policy names. Pure.

use std::collections::BTreeSet;
use std::fmt;

use flyball_client::Discovery;
use serde::Deserialize;
use smol_str::SmolStr;

use super::policy::{Rule, Spec};

/// A kind in one version of its group. Ordered by group, version, kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(crate) struct Kind {
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) kind: SmolStr,
}

impl Kind {
    /// Where its schema is published.
    pub(crate) fn document(&self) -> String {
        match self.group.as_str() {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// The most kinds of one rule that are checked.
const MOST: usize = 10;

/// Whether any rule names kinds, so that discovery is needed.
pub(super) fn names_any(spec: &Spec) -> bool {
    spec.match_constraints.resource_rules.iter().any(|rule| !named(rule).is_empty())
}

/// The kinds that the rules name, each once, in order. A rule with a wildcard for a group or version names none.
pub(super) fn kinds(spec: &Spec, served: &Discovery) -> BTreeSet<Kind> {
    let mut kinds = BTreeSet::new();
    for rule in &spec.match_constraints.resource_rules {
        let found = named(rule)
            .into_iter()
            .flat_map(|(group, version, resource)| serving(served, group, version, &resource.to_lowercase()));
        let mut count = 0;
        for kind in found {
            kinds.insert(kind);
            count += 1;
            // Upstream: typechecking.go, typesToCheck: one rule with that many ends the search, also for the others.
            if count == MOST {
                return kinds;
            }
        }
    }
    kinds
}

/// All combinations that a rule names, in order.
fn named(rule: &Rule) -> Vec<(&str, &str, &str)> {
    let is_wild = |names: &[SmolStr]| names.iter().any(|name| name.contains('*'));
    if is_wild(&rule.api_groups) || is_wild(&rule.api_versions) {
        return vec![];
    }
    let mut groups: Vec<&str> = rule.api_groups.iter().map(SmolStr::as_str).collect();
    let mut versions: Vec<&str> = rule.api_versions.iter().map(SmolStr::as_str).collect();
    let resources = rule.resources.iter().map(SmolStr::as_str);
    let mut resources: Vec<&str> = resources.filter(|name| !name.contains(['*', '/'])).collect();
    groups.sort_unstable();
    versions.sort_unstable();
    resources.sort_unstable();
    let mut all = vec![];
    for group in &groups {
        for version in &versions {
            all.extend(resources.iter().map(|resource| (*group, *version, *resource)));
        }
    }
    all
}

/// The kinds of a resource, which may be named in the singular.
fn serving<'a>(
    served: &'a Discovery,
    group: &'a str,
    version: &'a str,
    resource: &str,
) -> impl Iterator<Item = Kind> + use<'a> {
    let resource = resource.to_owned();
    let matching = served.resources.iter().map(|found| &found.resource).filter(move |found| {
        let is_named = found.plural == resource || found.kind.to_lowercase() == resource;
        // Upstream: restmapper.go, ResourcesFor: no group means any.
        is_named && found.version == version && (group.is_empty() || found.group == group)
    });
    matching.map(|found| Kind {
        group: found.group.clone(),
        version: found.version.clone(),
        kind: found.kind.clone(),
    })
}
