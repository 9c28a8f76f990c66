//! What the registry observes: work queues, the API client, the supervisor, gates, the version.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flyball_client::Attempt;
use flyball_queue::Observer;
use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::{
    BUILD_INFO, CLIENT_DURATION, CLIENT_REQUEST_SIZE, CLIENT_REQUESTS, CLIENT_RESPONSE_SIZE, CLIENT_RETRIES,
    CLIENT_THROTTLE, CONTROLLER_PANICS, Counter, FEATURE_ENABLED, Gauge, Histogram, MAX_QUEUES_PER_NAME,
    Metrics, REGISTERED, RUNNING_CONTROLLERS, Stability, VERSION_INFO, WORKQUEUE_ADDS, WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST, WORKQUEUE_QUEUE_DURATION, WORKQUEUE_RETRIES, WORKQUEUE_UNFINISHED,
    WORKQUEUE_WORK_DURATION, process,
};
use crate::{
    gates::Gates,
    panics::Place,
    version::{self, Versions},
};

/// Counts what happens in one queue.
#[derive(Debug)]
pub struct QueueMetrics {
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
}

impl Observer for QueueMetrics {
    fn added(&self) {
        self.adds.inc();
    }
    fn taken(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }
    fn finished(&self, worked: Duration) {
        self.worked.observe(worked.as_secs_f64());
    }
    fn retried(&self) {
        self.retries.inc();
    }
}

/// Shows that a controller runs in a manager, from [`begin`](Self::begin) until it is dropped.
#[derive(Debug)]
pub struct RunningController {
    metrics: Metrics,
    manager: &'static str,
    name: &'static str,
    begun: OnceLock<Gauge>,
}

impl RunningController {
    /// Shows nothing yet.
    pub fn new(metrics: &Metrics, manager: &'static str, name: &'static str) -> Self {
        Self { metrics: metrics.clone(), manager, name, begun: OnceLock::new() }
    }

    pub fn begin(&self) {
        let gauge = || self.metrics.gauge(&RUNNING_CONTROLLERS, &[self.manager, self.name]);
        self.begun.get_or_init(gauge).set(1.0);
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        if let Some(gauge) = self.begun.get() {
            gauge.set(0.0);
        }
    }
}

/// Metrics of a queue that upstream has and we do not. Each change counts as added, taken and finished.
#[derive(Debug)]
pub struct Passage(QueueMetrics);

impl Passage {
    /// Does at once what upstream would have queued.
    pub fn through<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.added();
        self.0.taken(Duration::ZERO);
        let started = Instant::now();
        let done = work();
        self.0.finished(started.elapsed());
        done
    }
}

/// Counts requests to the API server.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    metrics: Metrics,
    /// There are few, and every request needs one: it must not look up each of its metrics by the texts of their labels.
    kept: Arc<Mutex<Vec<RequestMetrics>>>,
}

/// More than there are methods and status codes on a few servers.
const KEPT_REQUEST_METRICS: usize = 256;

/// The metrics of requests to a server with one method and one outcome.
#[derive(Debug, Clone)]
struct RequestMetrics {
    host: SmolStr,
    method: SmolStr,
    code: Option<u16>,
    requests: Counter,
    duration: Histogram,
    sent: Histogram,
    received: Histogram,
}

impl ClientMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), kept: Arc::default() }
    }

    /// Calls `count` with the metrics of such requests.
    fn with(&self, attempt: &Attempt<'_>, count: impl FnOnce(&RequestMetrics)) {
        let Attempt { host, method, code, .. } = *attempt;
        if self.metrics.limits_labels() {
            // Each unexpected value is counted where the labels are looked up.
            return count(&RequestMetrics::new(&self.metrics, attempt));
        }
        let mut kept = self.kept.lock();
        let is_it = |of: &&RequestMetrics| of.code == code && of.method == method && of.host == host;
        if let Some(found) = kept.iter().find(is_it) {
            return count(found);
        }
        if kept.len() == KEPT_REQUEST_METRICS {
            kept.clear();
        }
        let made = RequestMetrics::new(&self.metrics, attempt);
        count(&made);
        kept.push(made);
    }
}

impl RequestMetrics {
    fn new(metrics: &Metrics, attempt: &Attempt<'_>) -> Self {
        let Attempt { host, method, code, .. } = *attempt;
        Self {
            host: host.into(),
            method: method.into(),
            code,
            requests: metrics.counter(&CLIENT_REQUESTS, &[&code_label(code), host, method]),
            duration: metrics.histogram(&CLIENT_DURATION, &[host, method]),
            sent: metrics.histogram(&CLIENT_REQUEST_SIZE, &[host, method]),
            received: metrics.histogram(&CLIENT_RESPONSE_SIZE, &[host, method]),
        }
    }
}

fn code_label(code: Option<u16>) -> SmolStr {
    code.map_or(SmolStr::new_static("<error>"), |code| format_smolstr!("{code}"))
}

impl flyball_client::Observer for ClientMetrics {
    fn attempted(&self, attempt: &Attempt<'_>) {
        let Attempt { host, method, code, .. } = *attempt;
        self.with(attempt, |of| {
            of.requests.inc();
            of.duration.observe(attempt.elapsed.as_secs_f64());
            of.sent.observe(attempt.sent as f64);
            of.received.observe(attempt.received as f64);
        });
        if attempt.is_retry {
            self.metrics.counter(&CLIENT_RETRIES, &[&code_label(code), host, method]).inc();
        }
    }

    fn throttled(&self, host: &str, method: &str, waited: Duration) {
        self.metrics.histogram(&CLIENT_THROTTLE, &[host, method]).observe(waited.as_secs_f64());
    }
}

impl Metrics {
    /// The observer of the queue of that name. Queues of one name share their numbers.
    pub fn queue_observer(&self, name: &'static str) -> QueueMetrics {
        QueueMetrics {
            adds: self.counter(&WORKQUEUE_ADDS, &[name]),
            retries: self.counter(&WORKQUEUE_RETRIES, &[name]),
            waited: self.histogram(&WORKQUEUE_QUEUE_DURATION, &[name]),
            worked: self.histogram(&WORKQUEUE_WORK_DURATION, &[name]),
        }
    }

    pub fn passage(&self, name: &'static str) -> Passage {
        self.watch_queue(name, Default::default);
        Passage(self.queue_observer(name))
    }

    /// Calls `read` at each scrape for the depth of a queue, the total time of its running syncs, and the longest of
    /// them.
    pub fn watch_queue(
        &self,
        name: &'static str,
        probe: impl Fn() -> (usize, (Duration, Duration)) + Send + Sync + 'static,
    ) {
        let mut queues = self.inner.queues.lock();
        let probes = queues.entry(name).or_default();
        if probes.len() == MAX_QUEUES_PER_NAME {
            drop(probes.remove(0));
        }
        probes.push(Box::new(probe));
    }

    pub fn controller_panicked(&self, name: &str, place: Place) {
        self.counter(&CONTROLLER_PANICS, &[name, place.as_str()]).inc();
    }

    /// Shows which gates are enabled.
    pub fn feature_gates(&self, gates: &Gates) {
        for (name, spec, on) in gates.all() {
            let stage = spec.stage.to_string();
            self.gauge(&FEATURE_ENABLED, &[name, &stage]).set(f64::from(u8::from(on)));
        }
    }

    pub fn build_info(&self, versions: Versions) {
        let labels = ["", "rustc", "", "clean", version::GIT_VERSION, "", version::MAJOR, version::MINOR];
        let platform = format!("{}/{}", std::env::consts::OS, version::arch());
        let labels: Vec<&str> = labels.into_iter().chain([platform.as_str()]).collect();
        self.gauge(&BUILD_INFO, &labels).set(1.0);
        let Versions { emulated, min_compatibility } = versions;
        let versions = [version::BINARY, "kube", &emulated.to_string(), &min_compatibility.to_string()];
        self.gauge(&VERSION_INFO, &versions).set(1.0);
    }

    pub(super) fn collect(&self) {
        process::collect(self);
        for (name, probes) in self.inner.queues.lock().iter() {
            let mut depth = 0;
            let (mut unfinished, mut longest) = (Duration::ZERO, Duration::ZERO);
            for probe in probes {
                let (waiting, (sum, most)) = probe();
                depth += waiting;
                unfinished += sum;
                longest = longest.max(most);
            }
            self.gauge(&WORKQUEUE_DEPTH, &[name]).set(depth as f64);
            self.gauge(&WORKQUEUE_UNFINISHED, &[name]).set(unfinished.as_secs_f64());
            self.gauge(&WORKQUEUE_LONGEST, &[name]).set(longest.as_secs_f64());
        }
        for collector in self.inner.collectors.lock().iter() {
            collector(self);
        }
        self.count_registered();
    }

    fn count_registered(&self) {
        let mut counts = [(Stability::Alpha, 0u64), (Stability::Beta, 0), (Stability::Stable, 0)];
        for entry in self.inner.families.lock().values() {
            for (stability, count) in &mut counts {
                *count += u64::from(*stability == entry.family.stability);
            }
        }
        for (stability, count) in counts {
            self.counter(&REGISTERED, &["", &stability.to_string()]).at_least(count as f64);
        }
    }
}
