//! Affinity and anti-affinity between pods.

use std::collections::BTreeMap;

use flyball_api::selector::Selector;
use smol_str::SmolStr;

use super::filter::Refusal;
use super::snapshot::{NodeInfo, Snapshot};
use crate::objects::{Pod, PodAffinity, PodTerm};

/// A label of nodes and one of its values.
type Domain<'a> = (&'a str, &'a str);

/// How a pod relates to the scheduled pods, by topology domain.
pub(super) struct Relations<'a> {
    pod: &'a Pod,
    near: Vec<Term<'a>>,
    far: Vec<Term<'a>>,
    /// Domains with pods whose anti-affinity matches this one.
    excluded: Vec<Domain<'a>>,
}

/// One affinity term of the pod, and the domains with pods that match it.
struct Term<'a> {
    key: &'a str,
    at: Vec<&'a str>,
    /// Whether the pod matches its own term.
    includes_itself: bool,
}

/// A term with its selectors parsed.
struct Compiled<'a> {
    term: &'a PodTerm,
    selector: Selector,
    namespaces: Option<Selector>,
    own: &'a str,
}

impl<'a> Compiled<'a> {
    fn new(term: &'a PodTerm, owner: &'a Pod) -> Self {
        // An invalid selector was rejected by the API server; it matches nothing.
        let compile =
            |selector| Selector::from_object(Some(selector)).unwrap_or_else(|_| Selector::nothing());
        Self {
            term,
            selector: term.label_selector.as_ref().map_or_else(Selector::nothing, compile),
            namespaces: term.namespace_selector.as_ref().map(compile),
            own: &owner.metadata.namespace,
        }
    }

    fn matches(&self, pod: &Pod, snapshot: &Snapshot) -> bool {
        let namespace = &pod.metadata.namespace;
        let listed = match (&self.term.namespaces[..], &self.namespaces) {
            ([], None) => namespace == self.own,
            (names, _) => names.contains(namespace),
        };
        let selected = || {
            let labels = snapshot.namespaces.get(namespace).cloned().unwrap_or_default();
            self.namespaces.as_ref().is_some_and(|selector| selector.matches(&labels))
        };
        (listed || selected()) && self.selector.matches(&pod.metadata.labels)
    }
}

impl<'a> Relations<'a> {
    pub(super) fn new(pod: &'a Pod, snapshot: &'a Snapshot) -> Self {
        let required = |affinity: &'a Option<PodAffinity>| {
            let terms = affinity.as_ref().map(|affinity| &affinity.required[..]).unwrap_or_default();
            terms.iter().map(|term| Term::new(term, pod, snapshot)).collect()
        };
        let mut excluded = Vec::new();
        for (info, other) in snapshot.placed() {
            let Some(anti) = &other.spec.affinity.pod_anti_affinity else { continue };
            for term in &anti.required {
                if let Some(value) = info.label(&term.topology_key)
                    && Compiled::new(term, other).matches(pod, snapshot)
                {
                    excluded.push((term.topology_key.as_str(), value));
                }
            }
        }
        Self {
            pod,
            near: required(&pod.spec.affinity.pod_affinity),
            far: required(&pod.spec.affinity.pod_anti_affinity),
            excluded,
        }
    }

    // Upstream: plugins/interpodaffinity/filtering.go, Filter: in this order, and only missing affinity is unresolvable.
    pub(super) fn check(&self, info: &NodeInfo) -> Result<(), Refusal> {
        if !self.satisfies_affinity(info) {
            return Err(Refusal::unresolvable("node(s) didn't match pod affinity rules"));
        }
        if self.far.iter().any(|term| term.is_at(info)) {
            return Err(Refusal::resolvable("node(s) didn't match pod anti-affinity rules"));
        }
        if self.excluded.iter().any(|(key, value)| info.label(key) == Some(value)) {
            return Err(Refusal::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }

    /// Whether the node satisfies the affinity terms. The first pod of a group with affinity to itself may run in any domain.
    fn satisfies_affinity(&self, info: &NodeInfo) -> bool {
        let keyed = self.near.iter().all(|term| info.label(term.key).is_some());
        let first = self.near.iter().all(|term| term.at.is_empty() && term.includes_itself);
        keyed && (first || self.near.iter().all(|term| term.is_at(info)))
    }

    /// The preferences of the pod, and of other pods for it, by domain.
    pub(super) fn preferences(&self, snapshot: &'a Snapshot) -> BTreeMap<(SmolStr, SmolStr), i64> {
        let mut preferences = BTreeMap::new();
        let own =
            [(&self.pod.spec.affinity.pod_affinity, 1), (&self.pod.spec.affinity.pod_anti_affinity, -1)];
        for (affinity, sign) in own {
            for preference in affinity.iter().flat_map(|affinity| &affinity.preferred) {
                let compiled = Compiled::new(&preference.pod_affinity_term, self.pod);
                for (info, other) in snapshot.placed() {
                    if compiled.matches(other, snapshot) {
                        add_weight(
                            &mut preferences,
                            info,
                            &compiled.term.topology_key,
                            sign * preference.weight,
                        );
                    }
                }
            }
        }
        for (info, other) in snapshot.placed() {
            let theirs =
                [(&other.spec.affinity.pod_affinity, 1), (&other.spec.affinity.pod_anti_affinity, -1)];
            for (affinity, sign) in theirs {
                for preference in affinity.iter().flat_map(|affinity| &affinity.preferred) {
                    let term = &preference.pod_affinity_term;
                    if Compiled::new(term, other).matches(self.pod, snapshot) {
                        add_weight(&mut preferences, info, &term.topology_key, sign * preference.weight);
                    }
                }
            }
        }
        preferences
    }
}

fn add_weight(
    preferences: &mut BTreeMap<(SmolStr, SmolStr), i64>,
    info: &NodeInfo,
    key: &SmolStr,
    weight: i64,
) {
    if let Some(value) = info.label(key) {
        let preference = preferences.entry((key.clone(), value.into())).or_default();
        *preference = preference.saturating_add(weight);
    }
}

impl<'a> Term<'a> {
    fn new(term: &'a PodTerm, pod: &'a Pod, snapshot: &'a Snapshot) -> Self {
        let compiled = Compiled::new(term, pod);
        let key = term.topology_key.as_str();
        let mut at: Vec<&str> = snapshot
            .placed()
            .filter(|(_, other)| compiled.matches(other, snapshot))
            .filter_map(|(info, _)| info.label(key))
            .collect();
        at.sort_unstable();
        at.dedup();
        Self { key, at, includes_itself: compiled.matches(pod, snapshot) }
    }

    fn is_at(&self, info: &NodeInfo) -> bool {
        info.label(self.key).is_some_and(|value| self.at.binary_search(&value).is_ok())
    }
}
