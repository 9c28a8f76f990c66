//! Finds autoscalers that select the same pods. They could scale in opposite directions, so neither of them scales. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Selector};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The selectors of all autoscalers, by namespace and name; `None` before the first sync.
#[derive(Debug, Default)]
pub struct Selections(FxHashMap<SmolStr, BTreeMap<SmolStr, Option<Selector>>>);

impl Selections {
    pub fn add(&mut self, key: &Key) {
        self.0.entry(key.namespace.clone()).or_default().entry(key.name.clone()).or_default();
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(all) = self.0.get_mut(&key.namespace) {
            all.remove(&key.name);
            if all.is_empty() {
                self.0.remove(&key.namespace);
            }
        }
    }

    /// Sets the selector of an autoscaler, if it was added and not removed.
    pub fn set(&mut self, key: &Key, selector: &Selector) {
        let known = self.0.get_mut(&key.namespace).and_then(|all| all.get_mut(&key.name));
        if let Some(known) = known {
            *known = Some(selector.clone());
        }
    }

    /// The names of the autoscalers in a namespace that select any of these pods.
    pub fn selecting(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<&SmolStr> {
        let selects = |selector: &Option<Selector>| {
            selector
                .as_ref()
                .is_some_and(|selector| pods.iter().any(|pod| selector.matches(&pod.metadata.labels)))
        };
        let all = self.0.get(namespace).into_iter().flatten();
        all.filter(|(_, selector)| selects(selector)).map(|(name, _)| name).collect()
    }
}

/// Upstream's message about pods that several autoscalers select.
pub fn ambiguous(selector: &str, namespace: &str, names: &[&SmolStr]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("{namespace}/{name}")).collect();
    format!("pods by selector {selector} are controlled by multiple HPAs: [{}]", list.join(" "))
}
