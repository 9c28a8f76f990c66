//! The one who taints nodes so that their pods go, each in its turn. The shell of pacing.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Node, ResourceVersion};
use flyball_cache::{Informer, Progress as _};
use flyball_runtime::Chain;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::metrics;
use super::pacing::{Pacing, Turn};
use super::status::{Ready, readiness};
use super::taints::no_execute;
use super::writes::Hands;

pub(super) struct Tainter {
    hands: Arc<Hands>,
    nodes: Arc<Informer<Node>>,
    pacing: Mutex<Pacing>,
    changed: Notify,
    /// The version that a node got with its taint, until the cache shows it. If etcd is restored before that, the cache
    /// may not reach the version for a long time, and the taint may be lost: the version counts in its era only.
    tainted: Mutex<FxHashMap<SmolStr, (u64, ResourceVersion)>>,
}

impl Tainter {
    pub(super) fn new(hands: Arc<Hands>, nodes: Arc<Informer<Node>>) -> Self {
        Self { hands, nodes, pacing: Mutex::default(), changed: Notify::new(), tainted: Mutex::default() }
    }

    /// Sets how fast the nodes of each zone may be tainted; zones that are not named are gone.
    pub(super) fn set_rates(&self, rates: &BTreeMap<SmolStr, f32>) {
        let (mut pacing, now) = (self.pacing.lock(), Instant::now());
        pacing.keep_zones(|zone| rates.contains_key(zone));
        for (zone, rate) in rates {
            pacing.set_rate(zone, *rate, now);
        }
        self.changed.notify_one();
    }

    /// Lets a node wait for its taint, unless it has got one that the cache does not show yet.
    pub(super) fn enter(&self, zone: &SmolStr, node: &SmolStr) {
        let tainted = self.tainted.lock().get(node).copied();
        let is_unseen = |(era, version)| era == self.nodes.era() && version > self.nodes.version_reached();
        if tainted.is_some_and(is_unseen) {
            return;
        }
        self.tainted.lock().remove(node);
        self.pacing.lock().enter(zone, node);
        self.changed.notify_one();
    }

    pub(super) fn leave(&self, node: &str) {
        self.pacing.lock().leave(node);
        self.tainted.lock().remove(node);
    }

    pub(super) fn waits(&self, node: &str) -> bool {
        self.pacing.lock().waits(node)
    }

    pub(super) async fn run(&self) {
        loop {
            let turn = self.pacing.lock().next(Instant::now());
            match turn {
                Turn::Node { zone, node } => self.taint(&zone, &node).await,
                Turn::At(when) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(when) => {}
                },
                Turn::Idle => self.changed.notified().await,
            }
        }
    }

    async fn taint(&self, zone: &SmolStr, name: &SmolStr) {
        let Some(node) = self.nodes.store().get(&Key::cluster(name.clone())) else { return };
        let why = match readiness(&node) {
            Some(Ready::False) => "it says that it is not ready",
            Some(Ready::Unknown) => "nothing is heard of it",
            // Ready again. If the cache is only late to show that it is not, the next round sends it here again.
            Some(Ready::True) | None => return,
        };
        let era = self.nodes.era();
        match self.hands.swap_taints_now(&node, no_execute, why).await {
            Ok(Some(version)) => {
                self.tainted.lock().insert(name.clone(), (era, version));
                metrics::evicted(&self.hands.cx.metrics, zone);
            }
            Ok(None) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                tracing::warn!(node = %name, error = %Chain(&error), "cannot taint a node; trying again");
                self.enter(zone, name);
            }
        }
    }
}
