//! The shell: read the scale and the metrics, decide, rescale, write the status.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use flyball_api::{Key, Selector, Timestamp};
use flyball_cache::Informer;
use flyball_common::labelled::pods_selected;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Executed, Executor, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::after::{After, Failed, after, fault};
use super::decision::{
    Decision, Metrics, NextStep, Observations, ScaleError, Scaling, SelectorError, Settings, View, decide,
    next_step, target_key,
};
use super::history::History;
use super::invariants;
use super::mapping::{GroupKind, group_of};
use super::metric::Metric;
use super::metrics_client::MetricsClient;
use super::monitor::{Action, Monitor};
use super::plan::plan;
use super::scale_client::{Scale, ScaleClient};
use super::selections::{self, Selections};

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
        let history = self.histories.lock().get(key).cloned().unwrap_or_default();
        let (observed, durations) = self.observe(key, &hpa, &history, now).await;
        let view = View { hpa: &hpa, observed: &observed, history: &history, settings: &self.settings, now };
        let decision = decide(&view);
        self.cx.judge(|| invariants::check(&view, &decision));
        for ((metric, computed), took) in hpa.spec.metrics.iter().zip(&decision.computed).zip(durations) {
            self.monitor.computed(*computed, &metric.type_, took);
        }
        let (action, result) = self.carry_out(key, &view, &decision).await;
        self.monitor.reconciled(action, fault(&decision, result.is_err()), started.elapsed());
        result
    }
}

impl Controller {
    /// Carries out a decision. Returns whether the workload was scaled up or down, also if something failed, and when to sync
    /// again.
    async fn carry_out(
        &self,
        key: &Key,
        view: &View<'_>,
        decision: &Decision,
    ) -> (Action, Result<Next, SyncError>) {
        let executor =
            || -> Executor<'_> { self.cx.executor(key).about(ObjectRef::of(view.hpa)).events(&self.events) };
        // Before the write, whose outcome may stay unknown.
        let before = self.histories.lock().insert(key.clone(), decision.history.clone());
        // The scale is read from the server each time, so no cache has to show what was written.
        let Executed { next, outcome, .. } = executor().without_barrier().run(plan(view, decision)).await;
        if outcome.is_outdated() {
            match before {
                Some(before) => self.histories.lock().insert(key.clone(), before),
                None => self.histories.lock().remove(key),
            };
            return (Action::None, outcome.result().map(|()| next));
        }
        let failure = Failed::of(view, &outcome);
        let After { effects, history, desired, action } = after(view, decision, failure.as_ref());
        self.histories.lock().insert(key.clone(), history);
        desired.into_iter().for_each(|desired| self.monitor.desired(key, desired));
        let written = executor().perform(effects).await;
        (action, outcome.result().and(written.result()).map(|()| next))
    }

    /// Reads the scale and, if they decide, the metrics. Also returns how long each metric took.
    async fn observe(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        history: &History,
        now: Timestamp,
    ) -> (Observations, Vec<Duration>) {
        let scale = self.read_scale(hpa).await;
        let is_needed = |scale: &Scale| {
            let scaling = Scaling::new(hpa, scale.replicas, history, &self.settings, now);
            next_step(&scaling) == NextStep::ReadMetrics
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
        let group = group_of(&target.api_version).map_err(ScaleError::of_target)?;
        let kind = GroupKind { group, kind: &target.kind };
        let resources = self.scales.resources(kind).await.map_err(ScaleError::of_kind)?;
        let scale = self.scales.read(&resources, &target_key(hpa)).await;
        scale.map_err(|message| ScaleError::of_scale(hpa, message))
    }

    /// The pods of the workload, if no other autoscaler selects them.
    fn select(&self, key: &Key, scale: &Scale) -> Result<(Selector, Vec<Arc<Pod>>), SelectorError> {
        let selector = selections::parse(&scale.selector)?;
        let pods = pods_selected(self.pods.store(), &key.namespace, &selector);
        let mut selections = self.selections.lock();
        selections.set(key, &selector);
        selections.check(&key.namespace, &scale.selector, &pods)?;
        Ok((selector, pods))
    }
}
