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
pub mod keys;
pub mod plan;
pub mod signer;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{Secret, ServiceAccount};
use flyball_runtime::{Context, StartError, Tasks};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::token_secret::BY_ACCOUNT;
use signer::Signer;

pub const NAME: &str = "serviceaccount-token-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.sa_controller;
    let file = config.service_account_key_file.as_str();
    if file.is_empty() {
        return Err(StartError::NotNeeded(
            "there is no private key to sign tokens with (--service-account-private-key-file)".to_owned(),
        ));
    }
    let misconfigured = |problem: String| {
        StartError::Misconfigured(format!("--service-account-private-key-file {file}: {problem}"))
    };
    let pem = std::fs::read(file).map_err(|error| misconfigured(error.to_string()))?;
    let signer = Signer::from_pem(&pem).map_err(|error| misconfigured(error.to_string()))?;
    let authority = authority(&cx)?;
    let workers = usize::try_from(config.concurrent_sa_token_syncs).unwrap_or(1);

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

/// The CA for the secrets from `--root-ca-file`, or else the one that this process itself verifies the API server with. Empty
/// if there is none.
fn authority(cx: &Context) -> Result<Vec<u8>, StartError> {
    let file = cx.config.sa_controller.root_ca_file.as_str();
    if file.is_empty() {
        return Ok(cx.server_ca.as_deref().map(|bundle| bundle.as_bytes().to_vec()).unwrap_or_default());
    }
    let misconfigured =
        |problem: String| StartError::Misconfigured(format!("--root-ca-file {file}: {problem}"));
    let bundle = std::fs::read(file).map_err(|error| misconfigured(error.to_string()))?;
    let mut certificates = CertificateDer::pem_slice_iter(&bundle);
    match certificates.next() {
        Some(Ok(_)) => Ok(bundle),
        Some(Err(error)) => Err(misconfigured(format!("it is not a PEM bundle of certificates: {error}"))),
        None => Err(misconfigured("it holds no certificate in PEM form".to_owned())),
    }
}
