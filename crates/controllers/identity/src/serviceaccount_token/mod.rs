//! Fills secrets with tokens of service accounts that do not expire, and deletes them with the account.
//!
//! - **Promise**: a secret of type `kubernetes.io/service-account-token` that names an existing account holds a token for
//!   it, the namespace and the cluster's CA; what is missing or wrong is repaired. Such a secret is deleted with its
//!   account, and the account's reference to it is removed with the secret.
//! - **Watches** ServiceAccounts and Secrets. **Writes**: updates and deletes these secrets, and removes references
//!   from ServiceAccounts. It uses the manager's own identity, as the identities of other controllers may depend on
//!   such tokens.
//! - Upstream: `pkg/controller/serviceaccount/tokens_controller.go`. What differs: the deletion of an
//!   account is confirmed by the server before its tokens are deleted, and a token that names no uid stays if there is
//!   another account of the name; a failing sync is retried without limit, not ten times.
//!
//! As upstream, a secret that is deleted while no manager runs leaves its reference in the account: a user may list a
//! secret before creating it.
//!
//! Without `--service-account-private-key-file` it does not run.

pub mod contents;
pub mod invariants;
pub mod keys;
pub mod plan;
pub mod signer;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{Secret, ServiceAccount};
use flyball_common::server_ca;
use flyball_runtime::config::Config;
use flyball_runtime::{Context, StartError, Tasks};

use crate::token_secret::BY_ACCOUNT;
use signer::Signer;

pub const NAME: &str = "serviceaccount-token-controller";

/// Whether it can be set up: reads the key and the CA.
pub fn check(config: &Config) -> Result<(), StartError> {
    signer(config).and_then(|_| server_ca::check(config))
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let signer = signer(&cx.config)?;
    let authority = server_ca::bundle(&cx)?;
    let workers = usize::try_from(cx.config.sa_controller.concurrent_sa_token_syncs).unwrap_or(1);

    // Upstream gives both queues the same name.
    let (deleted, tokens) =
        (tasks.queue("serviceaccount_tokens_service"), tasks.queue("serviceaccount_tokens_service"));
    let (accounts, secrets) = (cx.informer::<ServiceAccount>(), cx.informer::<Secret>());
    secrets.index(&BY_ACCOUNT);
    tasks.feed(&accounts, &deleted, triggers::account_changed);
    tasks.feed(&secrets, &tokens, triggers::secret_changed);
    let controller = Arc::new(sync::Controller { cx, accounts, secrets, signer, authority });
    tasks.workers(&deleted, workers, controller.clone());
    tasks.workers(&tokens, workers, controller);
    Ok(())
}

fn signer(config: &Config) -> Result<Signer, StartError> {
    let file = config.sa_controller.service_account_key_file.as_str();
    if file.is_empty() {
        return Err(StartError::NotNeeded(
            "there is no private key to sign tokens with (--service-account-private-key-file)".to_owned(),
        ));
    }
    let misconfigured = |problem: String| {
        StartError::Misconfigured(format!("--service-account-private-key-file {file}: {problem}"))
    };
    let pem = std::fs::read(file).map_err(|error| misconfigured(format!("cannot be read: {error}")))?;
    Signer::from_pem(&pem).map_err(|error| misconfigured(error.to_string()))
}
