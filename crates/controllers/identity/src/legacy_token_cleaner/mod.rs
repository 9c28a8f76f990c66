//! Invalidates, and later deletes, token secrets that were made by older releases and that nobody uses any more.
//!
//! - **Promise**: a token that was made for an account automatically (the account lists it) and was neither used nor
//!   mounted for `--legacy-service-account-token-clean-up-period` is marked as invalid, and deleted when it was not
//!   missed for as long again. Tokens made by hand are left alone.
//! - **Watches** ServiceAccounts, Secrets and Pods; reads since when uses are tracked from a ConfigMap. Looks once a
//!   day. **Writes** the label `kubernetes.io/legacy-token-invalid-since`, and deletes.
//! - Upstream: `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. What differs: after a look that
//!   failed the next one comes in minutes, not in a day.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Secret, ServiceAccount};
use flyball_runtime::{Context, StartError, Tasks};

use crate::token_secret::BY_ACCOUNT;

/// The name under which the controller runs.
pub const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let period = cx.config.legacy_sa_token_cleaner.clean_up_period;
    if period.is_zero() {
        return Err(StartError::Misconfigured(
            "--legacy-service-account-token-clean-up-period must be longer than zero".to_owned(),
        ));
    }
    let (accounts, secrets, pods) =
        (cx.informer::<ServiceAccount>(), cx.informer::<Secret>(), cx.informer::<Pod>());
    secrets.index(&BY_ACCOUNT);
    tasks.needs(&accounts);
    tasks.needs(&secrets);
    tasks.needs(&pods);
    let cleaner = sync::Cleaner { cx, accounts, secrets, pods, period };
    tasks.spawn("daily look", async move { cleaner.run().await });
    Ok(())
}
