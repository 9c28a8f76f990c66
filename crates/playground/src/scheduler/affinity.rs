//! Pods that want to be near other pods, or far from them.

use std::collections::BTreeMap;

use flyball_api::selector::Selector;
use smol_str::SmolStr;

use super::filter::Refusal;
use super::world::{Seat, World};
use crate::objects::{Pod, PodAffinity, PodTerm};

/// A label of nodes and one of its values.
type Domain<'a> = (&'a str, &'a str);

/// How a pod relates to the pods that are placed, by domain.
pub(super) struct Relations<'a> {
    pod: &'a Pod,
    near: Vec<Term<'a>>,
    far: Vec<Term<'a>>,
    /// Domains in which pods are that do not want this one.
    unwelcome: Vec<Domain<'a>>,
}

/// One term of the pod: where pods are that match it.
struct Term<'a> {
    key: &'a str,
    at: Vec<&'a str>,
    /// Whether the pod itself is one of those that it wants to be near.
    includes_itself: bool,
}

/// A term that can be asked.
struct Compiled<'a> {
    term: &'a PodTerm,
    selector: Selector,
    namespaces: Option<Selector>,
    own: &'a str,
}

impl<'a> Compiled<'a> {
    fn new(term: &'a PodTerm, owner: &'a Pod) -> Self {
        // A selector that cannot be read was refused by the API server; it matches nothing.
        let compile =
            |selector| Selector::from_object(Some(selector)).unwrap_or_else(|_| Selector::nothing());
        Self {
            term,
            selector: term.label_selector.as_ref().map_or_else(Selector::nothing, compile),
            namespaces: term.namespace_selector.as_ref().map(compile),
            own: &owner.metadata.namespace,
        }
    }

    fn matches(&self, pod: &Pod, world: &World) -> bool {
        let namespace = &pod.metadata.namespace;
        let listed = match (&self.term.namespaces[..], &self.namespaces) {
            ([], None) => namespace == self.own,
            (names, _) => names.contains(namespace),
        };
        let selected = || {
            let labels = world.namespaces.get(namespace).cloned().unwrap_or_default();
            self.namespaces.as_ref().is_some_and(|selector| selector.matches(&labels))
        };
        (listed || selected()) && self.selector.matches(&pod.metadata.labels)
    }
}

impl<'a> Relations<'a> {
    pub(super) fn new(pod: &'a Pod, world: &'a World) -> Self {
        let required = |affinity: &'a Option<PodAffinity>| {
            let terms = affinity.as_ref().map(|affinity| &affinity.required[..]).unwrap_or_default();
            terms.iter().map(|term| Term::new(term, pod, world)).collect()
        };
        let mut unwelcome = Vec::new();
        for (seat, other) in world.placed() {
            let Some(anti) = &other.spec.affinity.pod_anti_affinity else { continue };
            for term in &anti.required {
                if let Some(value) = seat.label(&term.topology_key)
                    && Compiled::new(term, other).matches(pod, world)
                {
                    unwelcome.push((term.topology_key.as_str(), value));
                }
            }
        }
        Self {
            pod,
            near: required(&pod.spec.affinity.pod_affinity),
            far: required(&pod.spec.affinity.pod_anti_affinity),
            unwelcome,
        }
    }

    // Upstream: plugins/interpodaffinity/filtering.go, Filter: in this order, and only missing company is hopeless.
    pub(super) fn check(&self, seat: &Seat) -> Result<(), Refusal> {
        if !self.has_company(seat) {
            return Err(Refusal::hopeless("node(s) didn't match pod affinity rules"));
        }
        if self.far.iter().any(|term| term.is_at(seat)) {
            return Err(Refusal::resolvable("node(s) didn't match pod anti-affinity rules"));
        }
        if self.unwelcome.iter().any(|(key, value)| seat.label(key) == Some(value)) {
            return Err(Refusal::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }

    /// The first of a group that wants to be together may go anywhere in the topology.
    fn has_company(&self, seat: &Seat) -> bool {
        let keyed = self.near.iter().all(|term| seat.label(term.key).is_some());
        let nobody = self.near.iter().all(|term| term.at.is_empty() && term.includes_itself);
        keyed && (nobody || self.near.iter().all(|term| term.is_at(seat)))
    }

    /// How much the pod would like, and be liked, to be in each domain.
    pub(super) fn wishes(&self, world: &'a World) -> BTreeMap<(SmolStr, SmolStr), i64> {
        let mut wishes = BTreeMap::new();
        let own =
            [(&self.pod.spec.affinity.pod_affinity, 1), (&self.pod.spec.affinity.pod_anti_affinity, -1)];
        for (affinity, sign) in own {
            for wish in affinity.iter().flat_map(|affinity| &affinity.preferred) {
                let compiled = Compiled::new(&wish.pod_affinity_term, self.pod);
                for (seat, other) in world.placed() {
                    if compiled.matches(other, world) {
                        note(&mut wishes, seat, &compiled.term.topology_key, sign * wish.weight);
                    }
                }
            }
        }
        for (seat, other) in world.placed() {
            let theirs =
                [(&other.spec.affinity.pod_affinity, 1), (&other.spec.affinity.pod_anti_affinity, -1)];
            for (affinity, sign) in theirs {
                for wish in affinity.iter().flat_map(|affinity| &affinity.preferred) {
                    let term = &wish.pod_affinity_term;
                    if Compiled::new(term, other).matches(self.pod, world) {
                        note(&mut wishes, seat, &term.topology_key, sign * wish.weight);
                    }
                }
            }
        }
        wishes
    }
}

fn note(wishes: &mut BTreeMap<(SmolStr, SmolStr), i64>, seat: &Seat, key: &SmolStr, weight: i64) {
    if let Some(value) = seat.label(key) {
        let wish = wishes.entry((key.clone(), value.into())).or_default();
        *wish = wish.saturating_add(weight);
    }
}

impl<'a> Term<'a> {
    fn new(term: &'a PodTerm, pod: &'a Pod, world: &'a World) -> Self {
        let compiled = Compiled::new(term, pod);
        let key = term.topology_key.as_str();
        let mut at: Vec<&str> = world
            .placed()
            .filter(|(_, other)| compiled.matches(other, world))
            .filter_map(|(seat, _)| seat.label(key))
            .collect();
        at.sort_unstable();
        at.dedup();
        Self { key, at, includes_itself: compiled.matches(pod, world) }
    }

    fn is_at(&self, seat: &Seat) -> bool {
        seat.label(self.key).is_some_and(|value| self.at.binary_search(&value).is_ok())
    }
}
