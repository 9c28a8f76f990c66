//! What a quota's status has to say, and whether that is news. Pure.

use flyball_api::resource_quota::ResourceQuotaStatus;
use flyball_api::{ResourceList, ResourceQuota};

/// The new status, if it differs from the present one. What could not be measured stays as it was last seen.
pub fn status(quota: &ResourceQuota, measured: &ResourceList) -> Option<ResourceQuotaStatus> {
    let hard = &quota.spec.hard;
    let mut used = quota.status.used.clone();
    for (name, amount) in measured.iter() {
        used.set(name, amount);
    }
    let used = used.filtered(|name| hard.get(name).is_some());
    let news = !hard.same_amounts(&quota.status.hard) || !used.same_amounts(&quota.status.used);
    news.then(|| ResourceQuotaStatus { hard: hard.clone(), used })
}

/// What is new in a status, in words.
pub fn news(quota: &ResourceQuota, status: &ResourceQuotaStatus) -> String {
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
        [] => "less is limited than before".to_owned(),
        names => format!("usage or limits changed: {}", names.join(", ")),
    }
}
