//! What must hold for every plan; for tables and the simulator.

use std::collections::BTreeSet;

use flyball_api::{Namespace, Object, Resource};
use flyball_runtime::{Effect, Plan, Write, all_hold};

use super::FINALIZER;
use super::plan::View;

/// Checks what follows once the content of a namespace was deleted.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let (writes, mut broken) = (plan.writes(), vec![]);
    for write in &writes {
        if write.resource != Namespace::TYPE || write.key != view.namespace.key() {
            broken.push(format!("{write} is not about the namespace"));
        }
    }
    match writes.iter().find(|write| write.subresource == Some("finalize")) {
        Some(finalize) => broken.extend(wrong_finalize(view, finalize)),
        None if plan.requeue.is_none() && !fails(plan) => {
            broken.push("the namespace is neither finalized nor synced again".to_owned());
        }
        None => {}
    }
    all_hold(broken)
}

fn wrong_finalize(view: &View<'_>, finalize: &Write) -> Vec<String> {
    let mut broken = vec![];
    if !view.namespace.is_deleting() {
        broken.push("a namespace that is not being deleted is finalized".to_owned());
    }
    if let Some(failure) = view.findings.failure() {
        broken.push(format!("a namespace is finalized after a failure: {failure}"));
    }
    for (collection, remains) in view.remains {
        if remains.objects > 0 || !remains.wait.is_zero() || remains.error.is_some() {
            broken.push(format!("a namespace is finalized that may have {}", collection.resource.plural));
        }
    }
    let body = finalize.body().unwrap_or_default();
    let after: BTreeSet<_> = body["spec"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    let before = view.namespace.spec.finalizers.iter().map(|name| name.as_str());
    let others: BTreeSet<_> = before.filter(|name| *name != FINALIZER).collect();
    if after != others {
        broken.push(format!("finalizing leaves {after:?} of {others:?}"));
    }
    broken
}

fn fails(plan: &Plan) -> bool {
    plan.effects().iter().any(|effect| matches!(effect, Effect::Fail(_)))
}
