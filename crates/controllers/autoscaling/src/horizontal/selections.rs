//! Which autoscalers look at which pods. Two that look at the same pods would pull in different directions, so neither
//! may act. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Selector};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The selectors of all autoscalers, by namespace and name; none before the first look.
#[derive(Debug, Default)]
pub struct Selections(FxHashMap<SmolStr, BTreeMap<SmolStr, Option<Selector>>>);

impl Selections {
    pub fn add(&mut self, key: &Key) {
        self.0.entry(key.namespace.clone()).or_default().entry(key.name.clone()).or_default();
    }

    /// There is no such autoscaler any more.
    pub fn remove(&mut self, key: &Key) {
        if let Some(all) = self.0.get_mut(&key.namespace) {
            all.remove(&key.name);
            if all.is_empty() {
                self.0.remove(&key.namespace);
            }
        }
    }

    /// What an autoscaler selects. One that is gone by now selects nothing.
    pub fn set(&mut self, key: &Key, selector: &Selector) {
        let known = self.0.get_mut(&key.namespace).and_then(|all| all.get_mut(&key.name));
        if let Some(known) = known {
            *known = Some(selector.clone());
        }
    }

    /// Those that select any of these pods of a namespace, by name.
    pub fn of(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<&SmolStr> {
        let selects = |selector: &Option<Selector>| {
            selector
                .as_ref()
                .is_some_and(|selector| pods.iter().any(|pod| selector.matches(&pod.metadata.labels)))
        };
        let all = self.0.get(namespace).into_iter().flatten();
        all.filter(|(_, selector)| selects(selector)).map(|(name, _)| name).collect()
    }
}

/// What is told of pods that several autoscalers look at.
pub fn ambiguous(selector: &str, namespace: &str, names: &[&SmolStr]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("{namespace}/{name}")).collect();
    format!("pods by selector {selector} are controlled by multiple HPAs: [{}]", list.join(" "))
}
