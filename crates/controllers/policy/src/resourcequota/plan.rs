//! The status of a quota. Pure.

use flyball_api::ResourceQuota;
use flyball_api::resource_quota::ResourceQuotaStatus;
use flyball_runtime::{Effect, Plan, Write};

use super::usage::Usage;

/// Everything that the decision depends on.
pub struct View<'a> {
    pub quota: &'a ResourceQuota,
    pub usage: &'a Usage,
}

/// Writes the status, if it changes. If some resources cannot be listed yet, the rest is written, and the sync is retried.
pub fn plan(view: &View<'_>) -> Plan {
    let unknown = view.usage.unknown.first().map(|(group, plural)| {
        let resource = if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") };
        Effect::Fail(format!("{resource} cannot be listed yet"))
    });
    let write = |status| Write::status(view.quota, &status).why(changes(view.quota, &status));
    Plan::of(unknown).with_status(status(view).map(write))
}

/// The new status, if it differs. Amounts that could not be measured keep their last value.
fn status(view: &View<'_>) -> Option<ResourceQuotaStatus> {
    let (hard, current) = (&view.quota.spec.hard, &view.quota.status);
    let mut used = current.used.clone();
    for (name, amount) in view.usage.used.iter() {
        used.set(name, amount);
    }
    let used = used.filtered(|name| hard.get(name).is_some());
    let is_changed = !hard.same_amounts(&current.hard) || !used.same_amounts(&current.used);
    is_changed.then(|| ResourceQuotaStatus { hard: hard.clone(), used })
}

/// The changes of a status, for the decision log.
fn changes(quota: &ResourceQuota, status: &ResourceQuotaStatus) -> String {
    let before = &quota.status;
    let mut names: Vec<&str> = status
        .used
        .iter()
        .filter(|(name, amount)| before.used.get(name) != Some(*amount))
        .chain(status.hard.iter().filter(|(name, amount)| before.hard.get(name) != Some(*amount)))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => "fewer resources are limited than before".to_owned(),
        names => format!("usage or limits changed: {}", names.join(", ")),
    }
}
