//! What must hold for every status that is written.

use flyball_api::ResourceQuota;
use flyball_api::resource_quota::ResourceQuotaStatus;

use super::usage::Usage;

/// Checks a new status against the quota and what was measured. `Err` says what is wrong.
pub fn check(quota: &ResourceQuota, usage: &Usage, status: &ResourceQuotaStatus) -> Result<(), String> {
    if !status.hard.same_amounts(&quota.spec.hard) {
        return Err(format!("the limits in force are {:?}, not {:?}", status.hard, quota.spec.hard));
    }
    for (name, amount) in status.used.iter() {
        if quota.spec.hard.get(name).is_none() {
            return Err(format!("{name} is used but not limited"));
        }
        if amount.is_negative() {
            return Err(format!("{amount} of {name} is used"));
        }
    }
    for (name, amount) in usage.used.iter() {
        if status.used.get(name) != Some(amount) {
            return Err(format!("{amount} of {name} was measured, but {:?} told", status.used.get(name)));
        }
    }
    Ok(())
}
