//! Approves the client certificates of kubelets, so that nodes can join and renew without a person.
//!
//! - **Promise**: a request for `kubernetes.io/kube-apiserver-client-kubelet` that keeps the signer's rules is approved
//!   if the requester may create `certificatesigningrequests/selfnodeclient` (a node for itself) or
//!   `certificatesigningrequests/nodeclient` (for any node). It never denies: other requests wait for a person.
//! - **Watches** CertificateSigningRequests. **Writes** the condition `Approved` through `/approval`; creates
//!   SubjectAccessReviews, again with backoff, as rights may be granted later.
//! - Upstream: `pkg/controller/certificates/approver`. What differs: a request that cannot be parsed is not retried.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::CertificateSigningRequest;
use flyball_runtime::{Context, StartError, Tasks};

use crate::signing::RETRIES;

pub const NAME: &str = "certificatesigningrequest-approving-controller";

const WORKERS: usize = 5;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue_with("certificate", RETRIES);
    let requests = cx.informer::<CertificateSigningRequest>();
    tasks.feed(&requests, &queue, |change| change.new.map(|_| change.key()));
    tasks.workers(&queue, WORKERS, Arc::new(sync::Controller { cx, requests }));
    Ok(())
}
