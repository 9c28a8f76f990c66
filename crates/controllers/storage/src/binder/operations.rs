//! Provisioning and deletion under way: since when, for metrics, and how long to wait after a failure.

use flyball_api::Key;
use flyball_runtime::metrics::Metrics;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::metrics::{ERRORS, LATENCY, OLD_ERRORS};
use crate::backoff::Backoff;

/// The operations by claim (provision) or volume (delete).
pub(super) struct Operations {
    metrics: Metrics,
    begun: Mutex<FxHashMap<Key, Operation>>,
}

struct Operation {
    plugin: SmolStr,
    name: &'static str,
    since: Instant,
    backoff: Backoff,
    is_deletion_requested: bool,
}

impl Operations {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, begun: Mutex::default() }
    }

    /// Begins an operation, unless it has begun.
    pub(super) fn begin(&self, key: &Key, plugin: &str, name: &'static str) {
        let begin = || Operation {
            plugin: plugin.into(),
            name,
            since: Instant::now(),
            backoff: Backoff::default(),
            is_deletion_requested: false,
        };
        self.begun.lock().entry(key.clone()).or_insert_with(begin);
    }

    pub(super) fn failed(&self, key: &Key) {
        if let Some(Operation { plugin, name, .. }) = self.begun.lock().get(key) {
            for family in [&ERRORS, &OLD_ERRORS] {
                self.metrics.counter(family, &[plugin, name]).inc();
            }
        }
    }

    /// Delays the next attempt.
    pub(super) fn back_off(&self, key: &Key) {
        if let Some(operation) = self.begun.lock().get_mut(key) {
            operation.backoff.failed(Instant::now());
        }
    }

    pub(super) fn is_backing_off(&self, key: &Key) -> bool {
        self.begun.lock().get(key).is_some_and(|operation| operation.backoff.is_active(Instant::now()))
    }

    /// Records that the deletion of the volume was requested from the server.
    pub(super) fn deletion_requested(&self, key: &Key) {
        if let Some(operation) = self.begun.lock().get_mut(key) {
            operation.is_deletion_requested = true;
        }
    }

    pub(super) fn is_deletion_requested(&self, key: &Key) -> bool {
        self.begun.lock().get(key).is_some_and(|operation| operation.is_deletion_requested)
    }

    /// Ends an operation and records how long it took.
    pub(super) fn done(&self, key: &Key) {
        if let Some(Operation { plugin, name, since, .. }) = self.begun.lock().remove(key) {
            self.metrics.histogram(&LATENCY, &[&plugin, name]).observe(since.elapsed().as_secs_f64());
        }
    }

    /// Ends an operation whose object was deleted.
    pub(super) fn forget(&self, key: &Key) {
        self.begun.lock().remove(key);
    }
}
