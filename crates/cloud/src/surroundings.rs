//! What the controllers of this crate find in their context, and what they say when it is not there.

use std::sync::Arc;

use flyball_runtime::{Context, StartError};
use futures::{StreamExt, stream};

use crate::Cloud;

/// The cloud that this process works for.
pub(crate) fn cloud(cx: &Context) -> Result<Arc<Cloud>, StartError> {
    let missing = || StartError::Misconfigured("there is no cloud to work for".to_owned());
    cx.extensions.get::<Cloud>().ok_or_else(missing)
}

/// Why a controller is not started in a cloud that cannot do something.
pub(crate) fn lacking(what: &str) -> StartError {
    StartError::NotNeeded(format!("the cloud provider does not support {what}"))
}

/// Does all of it, so many at a time, and gives the results in order.
pub(crate) async fn all<F: Future>(at_once: usize, work: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let work: Vec<F> = work.into_iter().collect();
    stream::iter(work).buffered(at_once).collect().await
}

/// How many at once, as a flag says it; one at least.
pub(crate) fn workers(flag: i32) -> usize {
    usize::try_from(flag).unwrap_or_default().max(1)
}
