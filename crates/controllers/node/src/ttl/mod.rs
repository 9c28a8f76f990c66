//! Sets the time to live of Secrets and ConfigMaps in the caches of kubelets, by an annotation on their nodes: the larger
//! the cluster, the longer.
//!
//! - **Promise**: a node that was added or changed has the time to live for the current size of the cluster.
//! - **Watches** Nodes. **Writes** their annotation `node.alpha.kubernetes.io/ttl`, nothing else.
//! - Upstream: `pkg/controller/ttl`.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_api::Node;
use flyball_runtime::{Context, StartError, Tasks, priority};
use parking_lot::Mutex;

use self::plan::ClusterSize;

/// As upstream; no flag changes it.
const WORKERS: usize = 5;

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ttlcontroller");
    let nodes = cx.informer::<Node>();
    let size = Arc::new(Mutex::new(ClusterSize::default()));
    tasks.on(&nodes, {
        let (queue, size, nodes) = (queue.clone(), size.clone(), nodes.clone());
        move |change| {
            // Changes are not counted: after a restore of etcd the trigger sees every node once more as new.
            size.lock().update(nodes.store().len());
            // As upstream, other nodes follow with their next change, so that crossing a boundary does not cost a
            // write per node at once.
            if change.new.is_some() {
                queue.add(change.key(), priority(change.origin));
            }
        }
    });
    tasks.workers(&queue, WORKERS, Arc::new(sync::Controller { cx, nodes, size }));
    Ok(())
}
