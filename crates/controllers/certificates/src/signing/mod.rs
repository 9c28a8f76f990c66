//! Signs approved certificate requests with the cluster's authorities.
//!
//! - **Promise**: an approved request to one of Kubernetes' own four signers gets a certificate if it keeps the signer's
//!   rules, and the condition `Failed` if it does not. Certificates are valid for `--cluster-signing-duration`, or
//!   `spec.expirationSeconds` if that is shorter, and never longer than their authority.
//! - **Watches** CertificateSigningRequests. **Writes** `status.certificate` and the condition `Failed`.
//! - The authorities' files are read again when they change. While certificate and key do not match, the old ones are used.
//! - Upstream: `pkg/controller/certificates/signer`. What differs: one queue for all signers, not one for each; a request
//!   that cannot be parsed is not retried.
//!
//! Without an authority it does not run. If only some signers have files, the requests to the others are left alone.

pub mod authorities;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::CertificateSigningRequest;
use flyball_queue::Backoff;
use flyball_runtime::config::Config;
use flyball_runtime::{Context, StartError, Tasks};

use crate::rules::Signer;

pub const NAME: &str = "certificatesigningrequest-signing-controller";

/// The backoff of failing requests, here and in approval.
pub(crate) const RETRIES: Backoff =
    Backoff { base: Duration::from_millis(200), max: Duration::from_secs(1000), rate: 10.0, burst: 100.0 };

const WORKERS_PER_SIGNER: usize = 5;

/// Whether it can be set up: reads the certificates and keys.
pub fn check(config: &Config) -> Result<(), StartError> {
    authorities::load(&config.csr_signing_controller).map(drop)
}

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let authorities = authorities::load(&cx.config.csr_signing_controller)?;
    let queue = tasks.queue_with("certificate", RETRIES);
    let requests = cx.informer::<CertificateSigningRequest>();
    let signers: Vec<Signer> = authorities.keys().copied().collect();
    tasks.feed(&requests, &queue, move |change| {
        let csr = change.new?;
        Signer::of(csr).filter(|signer| signers.contains(signer)).map(|_| change.key())
    });
    let workers = WORKERS_PER_SIGNER * authorities.len();
    tasks.workers(&queue, workers, Arc::new(sync::Controller { cx, requests, authorities }));
    Ok(())
}
