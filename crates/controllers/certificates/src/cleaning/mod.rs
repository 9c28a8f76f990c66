//! Deletes CertificateSigningRequests that are no longer needed, however they ended.
//!
//! - **Promise**: a request is deleted within an hour if it was issued or refused more than an hour ago, if it has been
//!   waiting for approval or for its signer for more than a day, or if its certificate has expired.
//! - **Watches** CertificateSigningRequests; one round per hour. **Writes** nothing, deletes.
//! - Upstream: `pkg/controller/certificates/cleaner/cleaner.go`. What differs: a request that has changed since it was
//!   read stays until the next round.

pub mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::CertificateSigningRequest;
use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::cleaner::Cleaner;

pub const NAME: &str = "certificatesigningrequest-cleaner-controller";

const PERIOD: Duration = Duration::from_secs(60 * 60);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let requests = cx.informer::<CertificateSigningRequest>();
    tasks.needs(&requests);
    // Upstream: cleaner.go, Run: the round at the start sees an empty cache, and so finds nothing.
    let schedule = Schedule::every(PERIOD).pausing_first();
    tasks.periodic("hourly round", schedule, Cleaner { cx, requests });
    Ok(())
}
