//! Taints the nodes of the eviction queue, each when the rate of its zone allows it. The shell of [`super::eviction_queue`].

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::{Informer, Progress as _};
use flyball_runtime::{Chain, Context};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::eviction_queue::{EvictionQueue, Next};
use super::metrics;
use super::taints::evict;
use super::unseen_taints::{Progress, UnseenTaints};

pub(super) struct Tainter {
    cx: Arc<Context>,
    nodes: Arc<Informer<Node>>,
    queue: Mutex<EvictionQueue>,
    changed: Notify,
    tainted: Mutex<UnseenTaints>,
}

impl Tainter {
    pub(super) fn new(cx: Arc<Context>, nodes: Arc<Informer<Node>>) -> Self {
        let (queue, tainted) = (Mutex::default(), Mutex::default());
        Self { cx, nodes, queue, changed: Notify::new(), tainted }
    }

    /// Sets how fast the nodes of each zone may be tainted; other zones are forgotten.
    pub(super) fn set_rates(&self, rates: &BTreeMap<SmolStr, f32>) {
        let (mut queue, now) = (self.queue.lock(), Instant::now());
        queue.retain_zones(|zone| rates.contains_key(zone));
        for (zone, rate) in rates {
            queue.set_rate(zone, *rate, now);
        }
        self.changed.notify_one();
    }

    /// Adds a node to the queue, unless it has a taint that the cache does not show yet.
    pub(super) fn add(&self, zone: &SmolStr, node: &SmolStr) {
        let shown = Progress { era: self.nodes.era(), version: self.nodes.version_reached() };
        if self.tainted.lock().has(node, shown) {
            return;
        }
        self.queue.lock().add(zone, node);
        self.changed.notify_one();
    }

    pub(super) fn remove(&self, node: &str) {
        self.queue.lock().remove(node);
        self.tainted.lock().remove(node);
    }

    pub(super) fn queued(&self) -> FxHashSet<SmolStr> {
        self.queue.lock().nodes().cloned().collect()
    }

    pub(super) async fn run(&self) {
        loop {
            let next = self.queue.lock().pop(Instant::now());
            match next {
                Next::Taint { zone, node } => self.taint(&zone, &node).await,
                Next::At(time) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(time) => {}
                },
                Next::Idle => self.changed.notified().await,
            }
        }
    }

    async fn taint(&self, zone: &SmolStr, name: &SmolStr) {
        let key = Key::cluster(name.clone());
        let Some(node) = self.nodes.store().get(&key) else { return };
        let write = evict(&node, self.cx.clock.now());
        let era = self.nodes.era();
        match self.cx.executor(&key).without_barrier().perform(write).await.answer() {
            Ok(answer) => {
                if let Some(written) = answer.written() {
                    let tainted = Progress { era, version: written.resource_version };
                    self.tainted.lock().insert(name.clone(), tainted);
                    metrics::evicted(&self.cx.metrics, zone);
                }
            }
            Err(error) => {
                tracing::warn!(node = %name, error = %Chain(&error), "cannot taint a node; it is queued again");
                self.add(zone, name);
            }
        }
    }
}
