//! The budgets that select a pod, and the pods that a budget selects.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::selector::InvalidSelector;
use flyball_api::{Labels, PodDisruptionBudget, Selector};
use flyball_cache::{Index, Store};
use flyball_common::labelled::{digest, pods_with, selector_keys};

/// Budgets by one of the labels they select; those without match labels by their namespace.
pub(super) const BUDGETS_BY_SELECTOR: Index<PodDisruptionBudget> = Index::new("selector", |budget, emit| {
    if let Some(selector) = &budget.spec.selector {
        emit(&digest(&budget.metadata.namespace, selector.match_labels.iter().next()));
    }
});

/// The budgets that select an object with these labels, by name. One with an invalid selector selects nothing.
pub(super) fn budgets_selecting(
    budgets: &Store<PodDisruptionBudget>,
    namespace: &str,
    labels: &Labels,
) -> Vec<Arc<PodDisruptionBudget>> {
    let candidates = selector_keys(namespace, labels).flat_map(|key| budgets.by(&BUDGETS_BY_SELECTOR, &key));
    let selects = |budget: &Arc<PodDisruptionBudget>| {
        budget.metadata.namespace == namespace
            && Selector::from_object(budget.spec.selector.as_ref())
                .is_ok_and(|selector| selector.matches(labels))
    };
    let mut found: Vec<_> = candidates.filter(selects).collect();
    found.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    // Two labels may have the same digest.
    found.dedup_by(|a, b| a.metadata.name == b.metadata.name);
    found
}

/// The pods that a budget selects, by name.
pub(super) fn pods_of(
    budget: &PodDisruptionBudget,
    pods: &Store<Pod>,
) -> Result<Vec<Arc<Pod>>, InvalidSelector> {
    let selector = Selector::from_object(budget.spec.selector.as_ref())?;
    let Some(given) = &budget.spec.selector else { return Ok(vec![]) };
    let mut found = pods_with(pods, &budget.metadata.namespace, &given.match_labels);
    if !given.match_expressions.is_empty() {
        found.retain(|pod| selector.matches(&pod.metadata.labels));
    }
    Ok(found)
}
