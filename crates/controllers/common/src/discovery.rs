//! Repeated discovery, for controllers that watch every resource that the server serves.

use std::time::Duration;

use flyball_client::{Client, Discovery};
use flyball_runtime::Chain;

/// How often discovery is repeated.
pub const PERIOD: Duration = Duration::from_secs(30);
/// The pause after a discovery that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The pause after a round of discovery.
pub fn pause(has_succeeded: bool) -> Duration {
    if has_succeeded { PERIOD } else { AFTER_FAILURE }
}

/// A client for discovery. It has a rate limit of its own, so that discovery does not wait behind writes.
pub fn client(of: &Client) -> Client {
    of.with_options(of.options().clone())
}

/// What the server serves; `None`, with a line in the log, if that cannot be read or is nothing.
pub async fn read(client: &Client) -> Option<Discovery> {
    let discovery = match client.discover().await {
        Ok(discovery) if !discovery.resources.is_empty() => discovery,
        Ok(_) => {
            tracing::warn!("discovery returned no resources; informers stay as they are");
            return None;
        }
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "discovery failed; informers stay as they are");
            return None;
        }
    };
    for failure in &discovery.failures {
        let (group_version, problem) = (&failure.group_version, &failure.problem);
        tracing::warn!(group_version, problem, "a group version cannot be discovered");
    }
    Some(discovery)
}
