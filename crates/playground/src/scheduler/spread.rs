//! Topology spread constraints.

use std::collections::BTreeMap;

use flyball_api::selector::Selector;

use super::filter::{Refusal, untolerated};
use super::snapshot::{NodeInfo, Snapshot};
use super::terms;
use crate::objects::{Pod, SpreadConstraint};

/// The constraints of a pod, with counts.
pub(super) struct Spread<'a> {
    hard: Vec<Counted<'a>>,
    soft: Vec<Counted<'a>>,
}

struct Counted<'a> {
    rule: &'a SpreadConstraint,
    /// Matching pods per eligible domain.
    domains: BTreeMap<&'a str, i64>,
    /// Whether the pod matches its own constraint.
    counts_itself: bool,
}

impl<'a> Spread<'a> {
    pub(super) fn new(pod: &'a Pod, snapshot: &'a Snapshot) -> Self {
        let counted = |when: &str| {
            let rules = pod.spec.topology_spread_constraints.iter();
            let rules: Vec<_> = rules.filter(|rule| rule.when_unsatisfiable == when).collect();
            rules.iter().map(|rule| Counted::new(rule, &rules, pod, snapshot)).collect()
        };
        Self { hard: counted("DoNotSchedule"), soft: counted("ScheduleAnyway") }
    }

    pub(super) fn check(&self, info: &NodeInfo) -> Result<(), Refusal> {
        for counted in &self.hard {
            let Some(domain) = info.label(&counted.rule.topology_key) else {
                let why = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Err(Refusal::unresolvable(why));
            };
            if counted.skew(domain) > counted.rule.max_skew {
                return Err(Refusal::resolvable("node(s) didn't match pod topology spread constraints"));
            }
        }
        Ok(())
    }

    /// The number of matching pods in a node's domains, by the `ScheduleAnyway` constraints.
    pub(super) fn crowding(&self, info: &NodeInfo) -> i64 {
        let crowd = |counted: &Counted<'_>| {
            let domain = info.label(&counted.rule.topology_key)?;
            counted.domains.get(domain).copied()
        };
        self.soft.iter().filter_map(crowd).sum()
    }
}

impl<'a> Counted<'a> {
    fn new(
        rule: &'a SpreadConstraint,
        rules: &[&SpreadConstraint],
        pod: &'a Pod,
        snapshot: &'a Snapshot,
    ) -> Self {
        let selector = rule.label_selector.as_ref();
        let selector = selector.map_or_else(Selector::nothing, |selector| {
            Selector::from_object(Some(selector)).unwrap_or_else(|_| Selector::nothing())
        });
        let labels = &pod.metadata.labels;
        let same_keys = |other: &Pod| {
            let keys = rule.match_label_keys.iter().filter(|key| labels.contains_key(key));
            keys.clone().all(|key| other.metadata.labels.get(key) == labels.get(key))
        };
        let counts = |other: &Pod| {
            other.metadata.namespace == pod.metadata.namespace
                && !other.metadata.is_deleting()
                && selector.matches(&other.metadata.labels)
                && same_keys(other)
        };
        let mut domains = BTreeMap::new();
        for info in &snapshot.nodes {
            let keyed = rules.iter().all(|rule| info.label(&rule.topology_key).is_some());
            let Some(domain) = info.label(&rule.topology_key).filter(|_| keyed) else { continue };
            if !takes_part(rule, pod, info) {
                continue;
            }
            let here = info.pods.iter().filter(|other| counts(other)).count();
            *domains.entry(domain).or_insert(0) += i64::try_from(here).unwrap_or(i64::MAX);
        }
        let counts_itself = selector.matches(labels);
        Self { rule, domains, counts_itself }
    }

    /// The skew if the pod ran in this domain.
    fn skew(&self, domain: &str) -> i64 {
        let wanted = usize::try_from(self.rule.min_domains.unwrap_or(1)).unwrap_or(0);
        let least = match self.domains.len() < wanted {
            true => 0,
            false => self.domains.values().min().copied().unwrap_or(0),
        };
        let here = self.domains.get(domain).copied().unwrap_or(0);
        here + i64::from(self.counts_itself) - least
    }
}

/// Whether a node is eligible: its domain counts for the constraint.
fn takes_part(rule: &SpreadConstraint, pod: &Pod, info: &NodeInfo) -> bool {
    let by_affinity = rule.node_affinity_policy.as_deref().unwrap_or("Honor") == "Honor";
    let by_taints = rule.node_taints_policy.as_deref() == Some("Honor");
    (!by_affinity || terms::accepts(pod, &info.node))
        && (!by_taints || untolerated(pod, info).next().is_none())
}
