//! Deletes bootstrap tokens when they expire.
//!
//! - **Promise**: a secret of type `bootstrap.kubernetes.io/token` in `kube-system` whose `expiration` has passed, or
//!   cannot be parsed, is deleted. A token without `expiration` stays.
//! - **Watches** those secrets, and requeues each at its expiration. **Writes** nothing, deletes.
//! - Upstream: `pkg/controller/bootstrap/tokencleaner.go`. What differs: a failed deletion is retried, and a token that
//!   has changed since it was read is not deleted before it is read again.

pub mod plan;
mod sync;

use std::sync::Arc;

use flyball_api::Secret;
use flyball_runtime::{Context, StartError, Tasks};

use crate::bootstrap_token;

pub const NAME: &str = "token-cleaner-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("token_cleaner");
    let tokens = cx.informers.filtered::<Secret>(bootstrap_token::filter());
    tasks.feed(&tokens, &queue, |change| change.new.map(|_| change.key()));
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, tokens }));
    Ok(())
}
