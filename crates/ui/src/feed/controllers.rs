//! The controllers as the page gets them: health, work, and how current their caches are.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_runtime::{ControllerState, Health, Insight, Work};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Controller {
    pub(super) name: &'static str,
    /// Why its health check fails; absent if it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    unhealthy: Option<String>,
    /// What its health check has to say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    /// Absent if it works in rounds instead of by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Numbers>,
    caches: usize,
    /// Caches that do not follow the server: resource, seconds, error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stale: Vec<(String, u64, String)>,
}

#[derive(Debug, Serialize)]
struct Numbers {
    ready: usize,
    delayed: usize,
    running: usize,
    failing: usize,
    barrier: usize,
    quarantine: usize,
    syncs: u64,
    failures: u64,
    oldest: Option<(String, f64)>,
    longest: Option<(String, f64)>,
    worst: Option<(String, u32)>,
    quarantined: Vec<(String, f64)>,
}

/// All controllers, by name.
pub(super) fn controllers(insight: &Insight, health: &Health) -> Vec<Controller> {
    let mut checks: BTreeMap<_, _> = health.checks().into_iter().collect();
    let mut remarks: BTreeMap<_, _> = health.remarks().into_iter().collect();
    let state = |state: ControllerState| Controller {
        unhealthy: checks.remove(state.name).and_then(Result::err),
        remark: remarks.remove(state.name),
        work: state.work.map(numbers),
        caches: state.caches,
        stale: state
            .stale
            .into_iter()
            .map(|stale| (stale.resource.to_string(), stale.lasts.as_secs(), stale.error.to_string()))
            .collect(),
        name: state.name,
    };
    insight.controllers().into_iter().map(state).collect()
}

fn numbers(work: Work) -> Numbers {
    let seconds = |(key, time): (String, Duration)| (key, (time.as_secs_f64() * 10.0).round() / 10.0);
    Numbers {
        ready: work.ready,
        delayed: work.delayed,
        running: work.running,
        failing: work.failing,
        barrier: work.at_barrier,
        quarantine: work.in_quarantine,
        syncs: work.syncs,
        failures: work.failures,
        oldest: work.oldest.map(seconds),
        longest: work.longest.map(seconds),
        worst: work.worst,
        quarantined: work.quarantined.into_iter().map(seconds).collect(),
    }
}
