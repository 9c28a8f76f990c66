//! The shell: a node's change becomes a look at each of its pods; a pod's turn ends with its deletion, or with a
//! time at which to look again.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Node, Object, Uid};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_common::index::by_node;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::metrics::{Counter, Family, Histogram, Stability};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use tokio::time::Instant;

use super::book::{Book, Booking};
use super::plan::{Stay, Verdict, decide, is_done, marking, repels, stay};

const EVENT: &str = "TaintManagerEviction";
const REFUSED: &str = "its node has a NoExecute taint that it does not tolerate";
const TIME_IS_UP: &str = "its node has a NoExecute taint that it does not tolerate any longer";

static DELETIONS: Family = Family::counter(
    "taint_eviction_controller_pod_deletions_total",
    Stability::Alpha,
    &[],
    "Pods that were deleted because of a taint.",
);
static LATENCY: Family = Family::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    Stability::Alpha,
    &[],
    &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    "Time from the moment at which a pod had to go until it was deleted.",
);

/// Looks after nodes whose taints have changed.
pub(super) struct Nodes {
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) book: Arc<Book>,
    pub(super) evictions: Queue<Key>,
}

impl Reconcile for Nodes {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(node) = self.nodes.store().get(key) else { return Ok(Next::Settled) };
        let is_tainted = repels(&node.spec.taints);
        for pod in self.pods.store().by(&by_node(), &key.name) {
            let pod = pod.key();
            if is_tainted || self.book.has(&pod) {
                self.evictions.add(pod, Priority::Change);
            }
        }
        Ok(Next::Settled)
    }
}

pub(super) struct Pods {
    cx: Arc<Context>,
    nodes: Arc<Informer<Node>>,
    pods: Arc<Informer<Pod>>,
    book: Arc<Book>,
    comparisons: bool,
    deletions: Counter,
    latency: Histogram,
}

impl Pods {
    pub(super) fn new(
        cx: Arc<Context>,
        nodes: Arc<Informer<Node>>,
        pods: Arc<Informer<Pod>>,
        book: Arc<Book>,
    ) -> Self {
        let comparisons = cx.gates.enabled("TaintTolerationComparisonOperators");
        let (deletions, latency) = (cx.metrics.counter(&DELETIONS, &[]), cx.metrics.histogram(&LATENCY, &[]));
        Self { cx, nodes, pods, book, comparisons, deletions, latency }
    }
}

impl Reconcile for Pods {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let pod = self.pods.store().get(key);
        let booking = self.book.get(key);
        let meant = |booking: &Booking| pod.as_ref().is_some_and(|pod| pod.metadata.uid == booking.uid);
        if booking.as_ref().is_some_and(|booking| !meant(booking)) {
            self.call_off(key);
        }
        let Some(pod) = pod else { return Ok(Next::Settled) };
        let booking = self.book.get(key);
        let now = Instant::now();
        let node = self.nodes.store().get(&Key::cluster(pod.spec.node_name.clone()));
        let stay = node.map(|node| stay(&node.spec.taints, &pod.spec.tolerations, self.comparisons));
        match decide(stay, booking.as_ref().map(|booking| booking.due), now) {
            Verdict::Leave => Ok(Next::Settled),
            Verdict::CallOff => {
                self.call_off(key);
                Ok(Next::Settled)
            }
            Verdict::EvictAt(due) => {
                let booking = Booking { uid: pod.metadata.uid.clone(), due, told: false };
                self.book.set(key, booking);
                Ok(Next::After(due.duration_since(now)))
            }
            Verdict::EvictNow => {
                let why = if stay == Some(Stay::Refused) { REFUSED } else { TIME_IS_UP };
                self.evict(key, &pod, booking, why).await
            }
        }
    }
}

impl Pods {
    /// Forgets an eviction; users hear of it unless they were told that it is under way.
    fn call_off(&self, key: &Key) {
        if self.book.strike(key).is_some_and(|booking| !booking.told) {
            self.tell(key, format!("Cancelling deletion of Pod {key}"));
        }
    }

    async fn evict(
        &self,
        key: &Key,
        pod: &Pod,
        booking: Option<Booking>,
        why: &'static str,
    ) -> Result<Next, SyncError> {
        let now = Instant::now();
        if is_done(pod) {
            self.book.strike(key);
            return Ok(Next::Settled);
        }
        let due = booking.as_ref().map_or(now, |booking| booking.due.min(now));
        if booking.as_ref().is_none_or(|booking| !booking.told) {
            if booking.is_some_and(|booking| booking.due > now) {
                // It had time left, and has to go at once: what was announced for later is void.
                self.call_off(key);
            }
            self.tell(key, format!("Marking for deletion Pod {key}"));
            self.book.set(key, Booking { uid: pod.metadata.uid.clone(), due, told: true });
        }
        match self.delete(key, pod, why).await {
            Ok(()) => {
                self.deletions.inc();
                self.latency.observe(due.elapsed().as_secs_f64());
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(SyncError::api(format!("evicting pod {key}"))(error)),
        }
        self.book.strike(key);
        Ok(Next::Settled)
    }

    async fn delete(&self, key: &Key, pod: &Pod, why: &'static str) -> Result<(), Error> {
        let writer = self.cx.writer(key);
        if let Some(patch) = marking(pod, self.cx.clock.now()) {
            writer.patch::<Pod>(key, Some("status"), Patch::Strategic(patch), why).await?;
        }
        writer.delete::<Pod>(key, exactly(&pod.metadata), why).await
    }

    /// Upstream's events name the pod without its uid.
    fn tell(&self, key: &Key, message: String) {
        let about = ObjectRef::named::<Pod>(&key.namespace, &key.name, &Uid::default());
        self.cx.events.normal(&about, EVENT, message);
    }
}
