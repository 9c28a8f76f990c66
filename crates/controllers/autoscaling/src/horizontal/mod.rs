//! Sets the replicas of a workload to what the metrics of its HorizontalPodAutoscaler call for.
//!
//! - **Promise**: every sync period the metrics of an autoscaler are read, and the scale of its workload is set to the
//!   highest number of replicas that any of them calls for, within the bounds and the behavior of the spec. A metric that
//!   cannot be read never leads to fewer replicas. Conditions say whether the autoscaler can scale, which metric it uses
//!   and what limits it.
//! - **Watches** HorizontalPodAutoscalers and Pods; reads scales and metrics live. **Writes** the `status` of autoscalers
//!   and the `scale` of workloads, nothing else.
//! - Upstream: `pkg/controller/podautoscaler`. What differs: events name autoscalers that select the same pods in
//!   alphabetical order, a kind that the server begins to serve is found within seconds, and a huge metric value calls for
//!   many replicas instead of a negative number. Series of an external metric may be negative: their sum counts, where
//!   upstream takes a negative sum for an overflow if the target is an average value, and scales up to the maximum. With
//!   `HPAScaleToZero`, an autoscaler that has scaled to zero, or up from zero, and could not write its status remembers so, until it
//!   is written or the process ends: upstream takes the zero for a user's and stays disabled, or a user's zero for its own.
//! - It requeues the key of an autoscaler a period after each sync, without the runner for rounds: there is a key for each
//!   autoscaler, and all of them at once would burden the metrics API.
//! - Besides `sync.rs`, `scale_client` and `metrics_client` are async: they read the scale subresource and the metrics APIs live.

pub mod after;
pub mod decision;
pub mod history;
pub mod invariants;
pub mod mapping;
pub mod metric;
mod metrics_client;
mod monitor;
pub mod normalize;
pub mod plan;
pub mod pod_groups;
pub mod proposal;
pub mod replicas;
mod scale_client;
pub mod selections;
pub mod status;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;
mod waiting;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use flyball_common::labelled::PODS_BY_LABEL;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Context, StartError, Tasks};
use jiff::SignedDuration;
use parking_lot::Mutex;

use self::decision::Settings;
use self::monitor::Monitor;
use self::pod_groups::WarmUp;
use self::selections::Selections;

/// The source of its events.
pub const EVENT_SOURCE: &str = "horizontal-pod-autoscaler";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.hpa_controller;
    let (period, workers) = (config.sync_period, config.concurrent_horizontal_pod_autoscaler_syncs);
    let settings = settings(&cx);
    let queue = tasks.queue_with("horizontalpodautoscaler", triggers::every(period));
    let (autoscalers, pods) = (cx.informer::<HorizontalPodAutoscaler>(), cx.informer::<Pod>());
    pods.index(&PODS_BY_LABEL);
    tasks.needs(&pods);
    let selections = Arc::new(Mutex::new(Selections::default()));
    tasks.on(&autoscalers, {
        let (queue, selections, autoscalers) = (queue.clone(), selections.clone(), autoscalers.clone());
        let monitor = Monitor(cx.metrics.clone());
        move |change| {
            let key = triggers::changed(change, &mut selections.lock());
            key.into_iter().for_each(|key| queue.add_after(key, period));
            monitor.autoscalers(autoscalers.store().len());
        }
    });
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        scales: scale_client::ScaleClient::new(cx.client.clone()),
        metrics: metrics_client::MetricsClient::new(cx.client.clone(), period),
        monitor: Monitor(cx.metrics.clone()),
        histories: Mutex::default(),
        cx,
        autoscalers,
        pods,
        settings,
        selections,
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}

fn settings(cx: &Context) -> Settings {
    let config = &cx.config.hpa_controller;
    let signed = |period: Duration| SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    Settings {
        period: config.sync_period,
        tolerance: config.tolerance,
        downscale_window: signed(config.downscale_stabilization_window),
        warm_up: WarmUp {
            initialization: signed(config.cpu_initialization_period),
            readiness: signed(config.initial_readiness_delay),
        },
        own_tolerance: cx.gates.enabled(Gate::HPAConfigurableTolerance),
        scale_to_zero: cx.gates.enabled(Gate::HPAScaleToZero),
        pod_level: cx.gates.enabled(Gate::PodLevelResources),
    }
}
