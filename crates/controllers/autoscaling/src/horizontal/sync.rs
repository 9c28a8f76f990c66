//! The shell: read the scale and the metrics, decide, rescale, write the status.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use flyball_api::{Key, Selector, Timestamp};
use flyball_cache::Informer;
use flyball_common::labelled::pods_selected;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Executor, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::after::{After, after};
use super::decision::{
    Decision, Metrics, NextStep, Observations, ScaleError, Scaling, SelectorError, Settings, View, decide,
    next_step, reference, target_key,
};
use super::history::History;
use super::invariants;
use super::mapping::{GroupKind, group_of};
use super::metric::Metric;
use super::metrics_client::MetricsClient;
use super::monitor::{Action, Fault, Monitor};
use super::plan::plan;
use super::scale_client::{Scale, ScaleClient};
use super::selections::{Selections, ambiguous};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) autoscalers: Arc<Informer<HorizontalPodAutoscaler>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) scales: ScaleClient,
    pub(super) metrics: MetricsClient,
    pub(super) settings: Settings,
    pub(super) selections: Arc<Mutex<Selections>>,
    pub(super) histories: Mutex<FxHashMap<Key, History>>,
    pub(super) monitor: Monitor,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(hpa) = self.autoscalers.store().get(key) else {
            self.histories.lock().remove(key);
            self.monitor.forget(key);
            return Ok(Next::Settled);
        };
        let (started, now) = (Instant::now(), self.cx.clock.now());
        let (observed, durations) = self.observe(key, &hpa, now).await;
        let history = self.histories.lock().get(key).cloned().unwrap_or_default();
        let view = View { hpa: &hpa, observed: &observed, history: &history, settings: &self.settings, now };
        let decision = decide(&view);
        self.cx.judge(|| invariants::check(&view, &decision));
        for ((metric, computed), took) in hpa.spec.metrics.iter().zip(&decision.computed).zip(durations) {
            self.monitor.computed(*computed, &metric.type_, took);
        }
        let result = self.carry_out(key, &view, &decision).await;
        let (action, fault) = match &result {
            Ok(action) => (*action, Fault::None),
            Err((action, _)) if decision.is_spec_error => (*action, Fault::Spec),
            Err((action, _)) => (*action, Fault::Internal),
        };
        self.monitor.reconciled(action, fault, started.elapsed());
        result.map(|_| Next::After(self.settings.period)).map_err(|(_, error)| error)
    }
}

impl Controller {
    /// Carries out a decision. Returns whether the workload was scaled up or down, also when something failed.
    async fn carry_out(
        &self,
        key: &Key,
        view: &View<'_>,
        decision: &Decision,
    ) -> Result<Action, (Action, SyncError)> {
        let executor =
            || -> Executor<'_> { self.cx.executor(key).about(ObjectRef::of(view.hpa)).events(&self.events) };
        let planned = plan(view, decision);
        // The scale is read from the server each time, so no cache has to show what was written.
        let outcome = executor().without_barrier().perform(planned.effects).await;
        let failure = outcome.failures.iter().find_map(|failure| failure.tag.and(failure.error.as_ref()));
        let failure = failure.zip(view.observed.scale.as_ref().ok()).map(|(error, scale)| scale.quote(error));
        let After { plan, history, desired } = after(view, decision, failure.as_deref());
        self.histories.lock().insert(key.clone(), history);
        desired.into_iter().for_each(|desired| self.monitor.desired(key, desired));
        let action = match (decision.current, &decision.rescale, &failure) {
            (Some(current), Some(rescale), None) => Action::of(current, rescale.replicas),
            _ => Action::None,
        };
        let written = executor().execute(plan.waiting_for(planned.waiting)).await;
        outcome.result().and(written.map(drop)).map(|()| action).map_err(|error| (action, error))
    }

    /// Reads the scale and, if they decide, the metrics. Also returns how long each metric took.
    async fn observe(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        now: Timestamp,
    ) -> (Observations, Vec<Duration>) {
        let scale = self.read_scale(hpa).await;
        let is_needed = |scale: &Scale| {
            next_step(&Scaling { hpa, current: scale.replicas, settings: &self.settings, now })
                == NextStep::ReadMetrics
        };
        let Some(found) = scale.as_ref().ok().filter(|scale| is_needed(scale)) else {
            return (Observations { scale, metrics: Metrics::NotRead }, vec![]);
        };
        let (selector, pods) = match self.select(key, found) {
            Ok(selected) => selected,
            Err(error) => return (Observations { scale, metrics: Metrics::NoPods(error) }, vec![]),
        };
        let (mut answers, mut durations) = (vec![], vec![]);
        for spec in &hpa.spec.metrics {
            let started = Instant::now();
            answers.push(match Metric::read(spec) {
                Ok(metric) => self.metrics.fetch(&self.scales, &key.namespace, &metric, &selector).await,
                Err(invalid) => Err(invalid.error),
            });
            durations.push(started.elapsed());
        }
        (Observations { scale, metrics: Metrics::Read { pods, answers } }, durations)
    }

    async fn read_scale(&self, hpa: &HorizontalPodAutoscaler) -> Result<Scale, ScaleError> {
        let target = &hpa.spec.scale_target_ref;
        let group = group_of(&target.api_version).map_err(|message| {
            let error = format!("invalid API version in scale target reference: {message}");
            ScaleError { message, error, is_spec_error: true }
        })?;
        let kind = GroupKind { group, kind: &target.kind };
        let resources = self.scales.resources(kind).await.map_err(|message| {
            let error = format!("unable to determine resource for scale target reference: {message}");
            ScaleError { message, error, is_spec_error: false }
        })?;
        self.scales.read(&resources, &target_key(hpa)).await.map_err(|message| {
            let error = format!("failed to query scale subresource for {}: {message}", reference(hpa));
            ScaleError { message, error, is_spec_error: false }
        })
    }

    /// The pods of the workload, if no other autoscaler selects them.
    fn select(&self, key: &Key, scale: &Scale) -> Result<(Selector, Vec<Arc<Pod>>), SelectorError> {
        if scale.selector.is_empty() {
            return Err(SelectorError::Missing);
        }
        let selector = Selector::parse(&scale.selector).map_err(|error| {
            SelectorError::Invalid(format!(
                "couldn't convert selector into a corresponding internal selector object: {error}"
            ))
        })?;
        let pods = pods_selected(self.pods.store(), &key.namespace, &selector);
        let mut selections = self.selections.lock();
        selections.set(key, &selector);
        let selecting = selections.selecting(&key.namespace, &pods);
        match selecting.len() > 1 {
            true => Err(SelectorError::Ambiguous(ambiguous(&scale.selector, &key.namespace, &selecting))),
            false => Ok((selector, pods)),
        }
    }
}
