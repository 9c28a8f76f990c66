//! Creates the `default` service account of every namespace.
//!
//! - **Promise**: an active namespace has all accounts of [`plan::WANTED`]; a deleted one is created again.
//! - **Watches** Namespaces and ServiceAccounts. **Writes**: creates service accounts.
//! - Upstream: `pkg/controller/serviceaccount/serviceaccounts_controller.go`.

pub mod plan;
mod sync;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{Namespace, ServiceAccount};
use flyball_runtime::{Context, StartError, Tasks};

pub const NAME: &str = "serviceaccount-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("serviceaccount");
    let (namespaces, accounts) = (cx.informer::<Namespace>(), cx.informer::<ServiceAccount>());
    tasks.feed(&namespaces, &queue, triggers::namespace_changed);
    tasks.feed(&accounts, &queue, triggers::account_changed);
    let controller = sync::Controller { cx, namespaces, accounts };
    tasks.workers(&queue, 1, Arc::new(controller));
    Ok(())
}
