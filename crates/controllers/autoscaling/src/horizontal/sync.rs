//! The shell: read the scale, ask the metrics APIs, set the scale, write the status, tell.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus,
};
use flyball_api::pod::Pod;
use flyball_api::{Key, Object, Selector, manifest_with_status};
use flyball_cache::Informer;
use flyball_common::labelled::pods_selected;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::census::Scope;
use super::history::History;
use super::invariants;
use super::mapping::{GroupKind, group_of};
use super::meters::Meters;
use super::metric::{Metric, Unusable};
use super::numbers::{Action, Fault, Numbers};
use super::plan::{Course, Settings, Step, View, Weighed, course, decide, taken, weigh};
use super::proposal::{Bench, Proposal, propose};
use super::report::{Desired, Report, is_news};
use super::scales::{Scaled, Scales};
use super::selections::{Selections, ambiguous};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) autoscalers: Arc<Informer<HorizontalPodAutoscaler>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) scales: Scales,
    pub(super) meters: Meters,
    pub(super) settings: Settings,
    pub(super) period: Duration,
    pub(super) selections: Arc<Mutex<Selections>>,
    pub(super) histories: Mutex<FxHashMap<Key, History>>,
    pub(super) numbers: Numbers,
}

/// How a look at an autoscaler ended.
struct Looked {
    action: Action,
    fault: Fault,
    /// What kept it from being done in full.
    problem: Option<String>,
}

impl Looked {
    fn failed(fault: Fault, problem: String) -> Self {
        Self { action: Action::None, fault, problem: Some(problem) }
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(hpa) = self.autoscalers.store().get(key) else {
            self.histories.lock().remove(key);
            self.numbers.gone(key);
            return Ok(Next::Settled);
        };
        let started = Instant::now();
        let Looked { action, fault, problem } = self.look(key, &hpa).await;
        self.numbers.looked(action, fault, started.elapsed());
        match problem {
            None => Ok(Next::After(self.period)),
            Some(problem) => Err(SyncError::other(format!("autoscaling by {key}"), problem)),
        }
    }
}

impl Controller {
    async fn look(&self, key: &Key, hpa: &HorizontalPodAutoscaler) -> Looked {
        let now = self.cx.clock.now();
        let mut report = Report::new(hpa, now);
        let mut scaled = match self.find(hpa).await {
            Ok(scaled) => scaled,
            Err((fault, error, told)) => {
                report.scale_unknown(&error);
                let status = report.unchanged(hpa);
                self.publish(key, hpa, &status, report).await;
                return Looked::failed(fault, told);
            }
        };
        report.scale_known();
        let view = View { hpa, current: scaled.replicas, settings: &self.settings, now };
        self.remember(key, |history| history.begin(view.current, now));

        let mut measures = None;
        let mut problem = None;
        let step = match course(&view) {
            Course::Off => {
                report.off(self.settings.scale_to_zero);
                None
            }
            Course::Into(replicas, reason) => Some(Step { replicas, reason: reason.to_owned() }),
            Course::Measure => {
                let weighed = self.measure(key, &view, &scaled, &mut report).await;
                measures = weighed.shown;
                problem = weighed.problem;
                let Some((recommended, metric)) = &weighed.recommended else {
                    return self.give_up(key, &view, report, measures, problem).await;
                };
                self.remember(key, |history| {
                    self.cx.judge(|| {
                        let (mut later, mut said) = (history.clone(), report.clone());
                        let step = decide(&view, (*recommended, metric), &mut later, &mut said);
                        invariants::check(&view, history, step.as_ref())
                    });
                    decide(&view, (*recommended, metric), history, &mut report)
                })
            }
        };
        let Some(step) = step else {
            let problem = self.conclude(key, &view, report, Desired::AsIs, measures).await.or(problem);
            let fault = if problem.is_some() { Fault::Internal } else { Fault::None };
            return Looked { action: Action::None, fault, problem };
        };
        let target = Key::new(hpa.metadata.namespace.as_str(), hpa.spec.scale_target_ref.name.as_str());
        // The scale is read from the server each time, so there is no cache to wait for.
        let writer = self.cx.writer(key).unawaited();
        if let Err(error) = self.scales.set(&writer, &mut scaled, &target, step.replicas, &step.reason).await
        {
            report.not_rescaled(&step, &error);
            self.conclude(key, &view, report, Desired::Unknown, measures).await;
            return Looked::failed(Fault::Internal, format!("failed to rescale {}: {error}", reference(hpa)));
        }
        self.remember(key, |history| taken(&view, &step, history, &mut report));
        let problem =
            self.conclude(key, &view, report, Desired::Set(step.replicas), measures).await.or(problem);
        let fault = if problem.is_some() { Fault::Internal } else { Fault::None };
        Looked { action: Action::of(view.current, step.replicas), fault, problem }
    }

    /// The scale of the workload, or: whose fault it is that there is none, the error, and the same in full.
    async fn find(&self, hpa: &HorizontalPodAutoscaler) -> Result<Scaled, (Fault, String, String)> {
        let target = &hpa.spec.scale_target_ref;
        let group = group_of(&target.api_version).map_err(|error| {
            let told = format!("invalid API version in scale target reference: {error}");
            (Fault::Spec, error, told)
        })?;
        let kind = GroupKind { group, kind: &target.kind };
        let resources = self.scales.resources(kind).await.map_err(|error| {
            let told = format!("unable to determine resource for scale target reference: {error}");
            (Fault::Internal, error, told)
        })?;
        let key = Key::new(hpa.metadata.namespace.as_str(), target.name.as_str());
        self.scales.read(&resources, &key).await.map_err(|error| {
            let told = format!("failed to query scale subresource for {}: {error}", reference(hpa));
            (Fault::Internal, error, told)
        })
    }

    /// What all metrics come to.
    async fn measure(&self, key: &Key, view: &View<'_>, scaled: &Scaled, report: &mut Report) -> Weighed {
        let (selector, pods) = match self.select(key, scaled, report) {
            Ok(selected) => selected,
            Err(problem) => return Weighed { problem: Some(problem), ..Weighed::default() },
        };
        let namespace = &key.namespace;
        let scope = Scope {
            pods: &pods,
            replicas: scaled.replicas,
            tolerances: self.settings.tolerances(view.hpa),
            warm_up: None,
            now: view.now,
        };
        let Settings { warm_up, pod_level, .. } = self.settings;
        let bench = Bench { namespace, scope, present: scaled.present, warm_up, pod_level };
        let mut proposals = vec![];
        for spec in &view.hpa.spec.metrics {
            let started = Instant::now();
            let proposal = match Metric::read(spec) {
                Ok(metric) => {
                    let answer = self.meters.ask(&self.scales, namespace, &metric, &selector).await;
                    propose(&metric, answer, &bench)
                }
                Err(unusable) => Err(unusable),
            };
            let (action, fault) = outcome(view.hpa, &proposal);
            self.numbers.measured(action, fault, &spec.type_, started.elapsed());
            proposals.push(proposal);
        }
        weigh(view, proposals, report)
    }

    /// The pods of the workload, if they are nobody else's.
    fn select(
        &self,
        key: &Key,
        scaled: &Scaled,
        report: &mut Report,
    ) -> Result<(Selector, Vec<Arc<Pod>>), String> {
        if scaled.selector.is_empty() {
            report.no_selector();
            return Err("selector is required".to_owned());
        }
        let selector = Selector::parse(&scaled.selector).map_err(|error| {
            let problem =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            report.bad_selector("InvalidSelector", &problem);
            problem
        })?;
        let pods = pods_selected(self.pods.store(), &key.namespace, &selector);
        let mut selections = self.selections.lock();
        selections.set(key, &selector);
        let selecting = selections.of(&key.namespace, &pods);
        if selecting.len() > 1 {
            let problem = ambiguous(&scaled.selector, &key.namespace, &selecting);
            report.bad_selector("AmbiguousSelector", &problem);
            return Err(problem);
        }
        Ok((selector, pods))
    }

    /// Nothing can be recommended: says why, and leaves the workload alone.
    async fn give_up(
        &self,
        key: &Key,
        view: &View<'_>,
        mut report: Report,
        measures: Option<Vec<MetricStatus>>,
        problem: Option<String>,
    ) -> Looked {
        let problem = problem.unwrap_or_else(|| "there is no metric".to_owned());
        report.warn("FailedComputeMetricsReplicas", problem.clone());
        self.conclude(key, view, report, Desired::Unknown, measures).await;
        let reference = reference(view.hpa);
        let told = "failed to compute desired number of replicas based on listed metrics for";
        Looked::failed(Fault::Internal, format!("{told} {reference}: {problem}"))
    }

    /// Ends a look at a workload whose scale is known.
    async fn conclude(
        &self,
        key: &Key,
        view: &View<'_>,
        report: Report,
        desired: Desired,
        measures: Option<Vec<MetricStatus>>,
    ) -> Option<String> {
        match desired {
            Desired::Unknown => {}
            Desired::AsIs => self.numbers.desired(key, view.current),
            Desired::Set(replicas) => self.numbers.desired(key, replicas),
        }
        let status = report.status(view.hpa, view.current, desired, measures);
        self.publish(key, view.hpa, &status, report).await
    }

    /// Sends the events and writes the status, if it says anything new; returns what went wrong with that.
    async fn publish(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
        report: Report,
    ) -> Option<String> {
        let about = ObjectRef::of(hpa);
        for event in report.events {
            self.events.record(&about, event.type_, event.reason, event.message, vec![]);
        }
        if !is_news(&hpa.status, status) {
            return None;
        }
        let why = format!("{} replicas, {} wanted", status.current_replicas, status.desired_replicas);
        let body = manifest_with_status(hpa, status);
        let written = self.cx.writer(key).update_status::<HorizontalPodAutoscaler>(key, &body, why).await;
        let error = Chain(&written.err()?).to_string();
        self.events.warning(&about, "FailedUpdateStatus", error.clone());
        let problem = format!("failed to update status for {}: {error}", hpa.key().name);
        tracing::debug!(hpa = %key, problem);
        Some(problem)
    }

    fn remember<T>(&self, key: &Key, with: impl FnOnce(&mut History) -> T) -> T {
        with(self.histories.lock().entry(key.clone()).or_default())
    }
}

/// For the numbers: which way a metric would go from what the status says.
fn outcome(hpa: &HorizontalPodAutoscaler, proposal: &Result<Proposal, Unusable>) -> (Action, Fault) {
    match proposal {
        Ok(proposal) => (Action::of(hpa.status.current_replicas, proposal.replicas), Fault::None),
        Err(Unusable { is_spec: true, .. }) => (Action::None, Fault::Spec),
        Err(_) => (Action::None, Fault::Internal),
    }
}

/// The workload, for error messages.
fn reference(hpa: &HorizontalPodAutoscaler) -> String {
    let target = &hpa.spec.scale_target_ref;
    format!("{}/{}/{}", target.kind, hpa.metadata.namespace, target.name)
}
