//! Signs the public ConfigMap `cluster-info` with every bootstrap token, so that a node that has a token can trust it.
//!
//! - **Promise**: if `kube-public/cluster-info` has a `kubeconfig`, it has a signature of it under `jws-kubeconfig-<id>`
//!   for every token in `kube-system` with the usage for signing, and for no other.
//! - **Watches** secrets of type `bootstrap.kubernetes.io/token` in `kube-system` and that one ConfigMap. **Writes** its
//!   `jws-kubeconfig-*` entries.
//! - Upstream: `pkg/controller/bootstrap/bootstrapsigner.go`. What differs: a failed write is retried.

pub mod jws;
pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::{ConfigMap, Key, Secret};
use flyball_cache::{Change, Filter};
use flyball_runtime::{Context, StartError, Tasks};

use crate::bootstrap_token;

pub const NAME: &str = "bootstrap-signer-controller";

const NAMESPACE: &str = "kube-public";
const CONFIG_MAP: &str = "cluster-info";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("bootstrap_signer_queue");
    let only = Filter {
        namespace: Some(NAMESPACE.into()),
        fields: Some(format!("metadata.name={CONFIG_MAP}")),
        ..Filter::default()
    };
    let infos = cx.informers.filtered::<ConfigMap>(only);
    let tokens = cx.informers.filtered::<Secret>(bootstrap_token::filter());
    let info = Key::new(NAMESPACE, CONFIG_MAP);
    let wanted = info.clone();
    tasks.feed(&infos, &queue, move |change| Some(change.key()).filter(|key| *key == wanted));
    tasks.feed(&tokens, &queue, move |_: &Change<'_, Secret>| Some(info.clone()));
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, infos, tokens }));
    Ok(())
}
