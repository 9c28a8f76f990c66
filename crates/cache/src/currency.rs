//! Whether a cache is up to date. The cache alone does not show that: on a quiet resource, a watch that lags looks like one
//! without events.

use std::time::Duration;

use flyball_api::ResourceVersion;
use flyball_client::Chain;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::source::Source;
use crate::state::InformerState;

const RETRY: Duration = Duration::from_secs(1);
/// How long a cache may take to reach the server's version before it is listed again.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Completes when the cache has shown a state that the server had after `since`. Concurrent waiters share one request.
///
/// A list of one object returns the server's current version. The watch of a quiet resource shows that version only with the
/// next bookmark, so one is requested from the reflector.
pub(crate) async fn confirm(
    state: &InformerState,
    source: &dyn Source,
    since: Instant,
    reached: impl Fn() -> ResourceVersion,
) {
    let mut confirmed = state.confirmed.lock().await;
    let mut requested = false;
    while confirmed.is_none_or(|time| time < since) {
        let sent = Instant::now();
        let version = match source.page(1, None).await {
            Ok(page) => page.version,
            Err(failure) => {
                debug!(resource = %state.resource, error = %Chain(&failure), "cannot get the current version");
                sleep(RETRY).await;
                continue;
            }
        };
        if reached() < version {
            let request = if requested { &state.relist_requests } else { &state.bookmark_requests };
            request.notify_one();
            requested = true;
        }
        if timeout(TIMEOUT, state.version_waits.wait(version, &reached)).await.is_ok() {
            *confirmed = Some(sent);
        }
    }
}
