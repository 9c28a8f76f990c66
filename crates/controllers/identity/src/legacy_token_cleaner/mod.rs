//! Invalidates, and later deletes, unused token secrets that older releases created for service accounts.
//!
//! - **Promise**: a token that was created for an account automatically (the account lists it) and was neither used nor
//!   mounted for `--legacy-service-account-token-clean-up-period` is labelled as invalid. It is deleted when it stays
//!   unused for the same period again. Tokens that users created are left alone.
//! - **Watches** ServiceAccounts, Secrets and Pods; reads from a ConfigMap since when the use of tokens is tracked. One
//!   round per day. **Writes** the label `kubernetes.io/legacy-token-invalid-since`, and deletes.
//! - Upstream: `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`. What differs: a round that failed
//!   is repeated after minutes, not after a day.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Secret, ServiceAccount};
use flyball_runtime::config::Config;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::token_secret::BY_ACCOUNT;

pub const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

pub fn check(config: &Config) -> Result<(), StartError> {
    match config.legacy_sa_token_cleaner.clean_up_period.is_zero() {
        true => Err(StartError::Misconfigured(
            "--legacy-service-account-token-clean-up-period must be longer than zero".to_owned(),
        )),
        false => Ok(()),
    }
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    check(&cx.config)?;
    let period = cx.config.legacy_sa_token_cleaner.clean_up_period;
    let (accounts, secrets, pods) =
        (cx.informer::<ServiceAccount>(), cx.informer::<Secret>(), cx.informer::<Pod>());
    secrets.index(&BY_ACCOUNT);
    tasks.needs(&accounts);
    tasks.needs(&secrets);
    tasks.needs(&pods);
    let schedule = Schedule::every(PERIOD).after_failure(plan::AFTER_FAILURE);
    tasks.periodic("daily round", schedule, sync::Cleaner { cx, accounts, secrets, pods, period });
    Ok(())
}
