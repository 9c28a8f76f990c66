//! Signs approved certificate requests with the cluster's authorities.
//!
//! - **Promise**: an approved request to one of Kubernetes' own four signers gets a certificate if it keeps the signer's
//!   rules, and the condition `Failed` if it does not. Certificates are good for `--cluster-signing-duration`, or
//!   `spec.expirationSeconds` if that is shorter; never for longer than their authority.
//! - **Watches** CertificateSigningRequests. **Writes** `status.certificate` and the condition `Failed`.
//! - The authorities' files are read again when they change; halfway through a change the old ones stay in force.
//! - Upstream: `pkg/controller/certificates/signer`. What differs: one queue for all signers, not one for each; a request
//!   that can never be read is not tried again.
//!
//! Without an authority it does not run; a signer without files of its own, while others have some, leaves its requests.

pub mod authorities;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::CertificateSigningRequest;
use flyball_queue::Backoff;
use flyball_runtime::{Context, StartError, Tasks};

use crate::rules::Signer;

/// The name under which the controller runs.
pub const NAME: &str = "certificatesigningrequest-signing-controller";

/// How failing requests are spaced, here and in approval.
pub(crate) const RETRIES: Backoff =
    Backoff { base: Duration::from_millis(200), max: Duration::from_secs(1000), rate: 10.0, burst: 100.0 };

const WORKERS_PER_SIGNER: usize = 5;

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
