//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::resource_quota::ResourceQuotaStatus;
use flyball_runtime::Plan;
use serde_json::Value;

use super::plan::View;

/// The status that a plan writes.
pub(super) fn written(plan: &Plan) -> Option<ResourceQuotaStatus> {
    let mut body = plan.status.as_ref()?.body()?;
    serde_json::from_value(body.get_mut("status").map(Value::take)?).ok()
}

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let Some(status) = written(plan) else { return Ok(()) };
    let hard = &view.quota.spec.hard;
    if !status.hard.same_amounts(hard) {
        return Err(format!("the limits in the status are {:?}, not {hard:?}", status.hard));
    }
    for (name, amount) in status.used.iter() {
        if hard.get(name).is_none() {
            return Err(format!("{name} is used but not limited"));
        }
        if amount.is_negative() {
            return Err(format!("{amount} of {name} is used"));
        }
    }
    for (name, amount) in view.usage.used.iter() {
        if status.used.get(name) != Some(amount) {
            return Err(format!(
                "{amount} of {name} is used, but the status has {:?}",
                status.used.get(name)
            ));
        }
    }
    Ok(())
}
