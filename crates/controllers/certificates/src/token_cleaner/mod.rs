//! Deletes bootstrap tokens when they expire.
//!
//! - **Promise**: a secret of type `bootstrap.kubernetes.io/token` in `kube-system` whose `expiration` has passed, or is
//!   no time, is deleted. One without stays.
//! - **Watches** those secrets, and wakes when the next one expires. **Writes** nothing, deletes.
//! - Upstream: `pkg/controller/bootstrap/tokencleaner.go`. What differs: a deletion that fails is tried again,
//!   and a token that was changed since it was looked at is looked at again first.

pub mod plan;
mod sync;

use std::sync::Arc;

use flyball_api::Secret;
use flyball_runtime::{Context, StartError, Tasks};

use crate::bootstrap_token;

/// The name under which the controller runs.
pub const NAME: &str = "token-cleaner-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("token_cleaner");
    let tokens = cx.informers.filtered::<Secret>(bootstrap_token::filter());
    tasks.feed(&tokens, &queue, |change| change.new.map(|_| change.key()));
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, tokens }));
    Ok(())
}
