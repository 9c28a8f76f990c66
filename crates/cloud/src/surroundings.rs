//! Helpers of the controllers of this crate: the cloud in their context, flags, concurrency.

use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::Informer;
use flyball_runtime::{Context, StartError};
use futures::{StreamExt, stream};

use crate::Cloud;

/// The cloud that this process was started for.
pub(crate) fn cloud(cx: &Context) -> Result<Arc<Cloud>, StartError> {
    let missing = || StartError::Misconfigured("there is no cloud provider".to_owned());
    cx.extensions.get::<Cloud>().ok_or_else(missing)
}

/// The reason not to start a controller that needs what the cloud does not support.
pub(crate) fn lacking(what: &str) -> StartError {
    StartError::NotNeeded(format!("the cloud provider does not support {what}"))
}

/// All Nodes in the cache, by name.
pub(crate) fn nodes_by_name(nodes: &Informer<Node>) -> Vec<Arc<Node>> {
    let mut nodes = nodes.store().list();
    nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    nodes
}

/// Runs all futures, at most `at_once` at a time, and returns the results in order.
pub(crate) async fn all<F: Future>(at_once: usize, work: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let work: Vec<F> = work.into_iter().collect();
    stream::iter(work).buffered(at_once).collect().await
}

/// The number of workers from a flag; at least one.
pub(crate) fn workers(flag: i32) -> usize {
    usize::try_from(flag).unwrap_or_default().max(1)
}
