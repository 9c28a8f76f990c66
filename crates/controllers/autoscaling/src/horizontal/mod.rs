//! Gives a workload as many replicas as its HorizontalPodAutoscaler finds that it needs.
//!
//! - **Promise**: every period the metrics of an autoscaler are asked for, and the scale of its workload is set to the
//!   most replicas that any of them calls for, within the bounds and at the pace of the spec. What cannot be measured is
//!   never a reason to take replicas away. Conditions say whether it can act, what it goes by and what limits it.
//! - **Watches** HorizontalPodAutoscalers and Pods; reads scales and metrics live. **Writes** the `status` of autoscalers
//!   and the `scale` of workloads, nothing else.
//! - Upstream: `pkg/controller/podautoscaler`. What differs: autoscalers that share pods are told in the order of their
//!   names, a kind that the server begins to serve is found within seconds, and a huge measure calls for many replicas
//!   rather than a negative number.

pub mod census;
pub mod history;
pub mod invariants;
pub mod mapping;
mod meters;
pub mod metric;
mod numbers;
pub mod pace;
pub mod plan;
pub mod proposal;
pub mod replicas;
pub mod report;
mod scales;
pub mod selections;
mod sync;
#[cfg(test)]
mod tests;
mod triggers;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use flyball_common::labelled::PODS_BY_LABEL;
use flyball_runtime::{Context, StartError, Tasks};
use jiff::SignedDuration;
use parking_lot::Mutex;

use self::census::WarmUp;
use self::numbers::Numbers;
use self::plan::Settings;
use self::selections::Selections;

/// Where its events come from.
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
        let numbers = Numbers(cx.metrics.clone());
        move |change| {
            let key = triggers::changed(change, &mut selections.lock());
            key.into_iter().for_each(|key| queue.add_after(key, period));
            numbers.autoscalers(autoscalers.store().len());
        }
    });
    let controller = sync::Controller {
        events: cx.events.with_source(EVENT_SOURCE),
        scales: scales::Scales::new(cx.client.clone()),
        meters: meters::Meters::new(cx.client.clone(), period),
        numbers: Numbers(cx.metrics.clone()),
        histories: Mutex::default(),
        cx,
        autoscalers,
        pods,
        settings,
        period,
        selections,
    };
    tasks.workers(&queue, usize::try_from(workers).unwrap_or(1), Arc::new(controller));
    Ok(())
}

fn settings(cx: &Context) -> Settings {
    let config = &cx.config.hpa_controller;
    let signed = |period: Duration| SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    Settings {
        tolerance: config.tolerance,
        downscale_window: signed(config.downscale_stabilization_window),
        warm_up: WarmUp {
            initialization: signed(config.cpu_initialization_period),
            readiness: signed(config.initial_readiness_delay),
        },
        own_tolerance: cx.gates.enabled("HPAConfigurableTolerance"),
        scale_to_zero: cx.gates.enabled("HPAScaleToZero"),
        pod_level: cx.gates.enabled("PodLevelResources"),
    }
}
