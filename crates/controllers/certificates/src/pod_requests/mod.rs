//! Deletes old PodCertificateRequests.
//!
//! - **Promise**: a PodCertificateRequest that is older than fifteen minutes is deleted within five.
//! - **Watches** PodCertificateRequests, of which it needs only the metadata; one round every five minutes. **Writes**
//!   nothing, deletes.
//! - Upstream: `pkg/controller/certificates/cleaner/pcrcleaner.go`. Where v1beta1 is not served it waits until it is.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use flyball_runtime::{Context, Schedule, StartError, Tasks};

use crate::cleaner::Cleaner;

pub const NAME: &str = "podcertificaterequest-cleaner-controller";

const PERIOD: Duration = Duration::from_secs(5 * 60);

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let requests = cx.informers.dynamic(&plan::REQUESTS);
    tasks.needs(&requests);
    tasks.periodic("round", Schedule::every(PERIOD), Cleaner { cx, requests });
    Ok(())
}
