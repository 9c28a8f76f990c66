//! Deletes the certificate requests of pods that have had their time.
//!
//! - **Promise**: a PodCertificateRequest that is older than fifteen minutes is deleted within five.
//! - **Watches** PodCertificateRequests, of which it needs no more than the metadata; looks every five minutes.
//!   **Writes** nothing, deletes.
//! - Upstream: `pkg/controller/certificates/cleaner/pcrcleaner.go`. Where v1beta1 is not served it waits until it is.

mod sync;

use std::sync::Arc;

use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs.
pub const NAME: &str = "podcertificaterequest-cleaner-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let requests = cx.informers.dynamic(&sync::REQUESTS);
    tasks.needs(&requests);
    let cleaner = sync::Cleaner { cx, requests };
    tasks.spawn("look", async move { cleaner.run().await });
    Ok(())
}
