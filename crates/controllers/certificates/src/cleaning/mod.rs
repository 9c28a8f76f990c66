//! Deletes certificate requests that nobody needs any more, however they ended.
//!
//! - **Promise**: within an hour a request goes that was issued or refused more than an hour ago, that has waited (for a
//!   decision, or for its signer) for more than a day, or whose certificate has expired.
//! - **Watches** CertificateSigningRequests; looks once an hour. **Writes** nothing, deletes.
//! - Upstream: `pkg/controller/certificates/cleaner/cleaner.go`. What differs: a request that was changed since it
//!   was looked at stays until the next look.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::CertificateSigningRequest;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "certificatesigningrequest-cleaner-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let requests = cx.informer::<CertificateSigningRequest>();
    tasks.needs(&requests);
    let cleaner = sync::Cleaner { cx, requests };
    tasks.spawn("hourly look", async move { cleaner.run().await });
    Ok(())
}
