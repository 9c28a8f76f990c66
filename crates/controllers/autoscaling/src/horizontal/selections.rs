//! Finds autoscalers that select the same pods. They could scale in opposite directions, so neither of them scales. Pure.
//!
//! Upstream compares the pods of each autoscaler with the selectors of all others (kubernetes/kubernetes#139111). Here selectors are
//! found by one of the labels that they require, so the cost of a check does not grow with the number of autoscalers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Labels, Selector};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

use super::decision::SelectorError;

/// The selectors of all autoscalers, by namespace.
#[derive(Debug, Default)]
pub struct Selections {
    namespaces: FxHashMap<SmolStr, Namespace>,
    /// How many selectors were compared with the labels of a pod.
    #[cfg(test)]
    pub compared: std::cell::Cell<usize>,
}

/// A label with its value.
type Pair = (SmolStr, SmolStr);

/// The autoscalers of one namespace.
#[derive(Debug, Default)]
struct Namespace {
    /// By name; `None` before the first sync.
    selectors: BTreeMap<SmolStr, Option<Selector>>,
    /// The names of those whose selector requires a label, by the most telling one of these labels.
    by_label: FxHashMap<Pair, BTreeSet<SmolStr>>,
    /// The names of those whose selector requires no label with one value.
    others: BTreeSet<SmolStr>,
}

impl Selections {
    pub fn add(&mut self, key: &Key) {
        let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
        namespace.selectors.entry(key.name.clone()).or_default();
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.set(&key.name, None);
            namespace.selectors.remove(&key.name);
            if namespace.selectors.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    /// Sets the selector of an autoscaler, if it was added and not removed.
    pub fn set(&mut self, key: &Key, selector: &Selector) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.set(&key.name, Some(selector));
        }
    }

    /// Checks the pods that the selector of one autoscaler selects.
    ///
    /// # Errors
    /// Several autoscalers select some of them.
    pub fn check(&self, namespace: &str, selector: &str, pods: &[Arc<Pod>]) -> Result<(), SelectorError> {
        match self.selecting(namespace, pods).as_slice() {
            [] | [_] => Ok(()),
            several => Err(SelectorError::Ambiguous(ambiguous(selector, namespace, several))),
        }
    }

    /// The names of the autoscalers in a namespace that select any of these pods, in order.
    pub fn selecting(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<&SmolStr> {
        let Some(namespace) = self.namespaces.get(namespace) else { return vec![] };
        let (mut found, mut seen) = (BTreeSet::new(), FxHashSet::default());
        for labels in pods.iter().map(|pod| &pod.metadata.labels) {
            // Nearly all pods of an autoscaler have the same labels.
            if !seen.insert(labels) {
                continue;
            }
            for name in namespace.candidates(labels) {
                #[cfg(test)]
                self.compared.set(self.compared.get() + 1);
                let selector = namespace.selectors.get(name).and_then(Option::as_ref);
                if selector.is_some_and(|selector| selector.matches(labels)) {
                    found.insert(name);
                }
            }
        }
        found.into_iter().collect()
    }
}

impl Namespace {
    /// Replaces the selector of an autoscaler that is known.
    fn set(&mut self, name: &SmolStr, selector: Option<&Selector>) {
        let Some(known) = self.selectors.get(name) else { return };
        if known.as_ref() == selector {
            return;
        }
        if let Some(old) = known {
            match pair(old) {
                Some(pair) => self.remove_from(&pair, name),
                None => drop(self.others.take(name)),
            }
        }
        if let Some(new) = selector {
            let names = match pair(new) {
                Some(pair) => self.by_label.entry(pair).or_default(),
                None => &mut self.others,
            };
            names.insert(name.clone());
        }
        self.selectors.insert(name.clone(), selector.cloned());
    }

    fn remove_from(&mut self, pair: &Pair, name: &SmolStr) {
        if let Some(names) = self.by_label.get_mut(pair) {
            names.remove(name);
            if names.is_empty() {
                self.by_label.remove(pair);
            }
        }
    }

    /// The autoscalers that may select a pod with these labels: all of those that do.
    fn candidates<'a, 'l>(&'a self, labels: &'l Labels) -> impl Iterator<Item = &'a SmolStr> + use<'a, 'l> {
        let pairs = labels.iter().map(|(key, value)| (key.into(), value.into()));
        let by_label = pairs.filter_map(|pair: Pair| self.by_label.get(&pair)).flatten();
        by_label.chain(&self.others)
    }
}

/// The label by which a selector is found: of those that it requires, the one with the longest value, which the fewest others are
/// likely to require.
fn pair(selector: &Selector) -> Option<Pair> {
    let longest = selector.required().max_by_key(|(key, value)| (value.len(), *key));
    longest.map(|(key, value)| (key.into(), value.into()))
}

/// The selector of a scale.
///
/// # Errors
/// It is empty or cannot be parsed.
pub fn parse(selector: &str) -> Result<Selector, SelectorError> {
    if selector.is_empty() {
        return Err(SelectorError::Missing);
    }
    Selector::parse(selector).map_err(|error| {
        SelectorError::Invalid(format!(
            "couldn't convert selector into a corresponding internal selector object: {error}"
        ))
    })
}

/// Upstream's message about pods that several autoscalers select.
pub fn ambiguous(selector: &str, namespace: &str, names: &[&SmolStr]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("{namespace}/{name}")).collect();
    format!("pods by selector {selector} are controlled by multiple HPAs: [{}]", list.join(" "))
}
