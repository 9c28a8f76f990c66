//! How many replicas a workload should have, and what is said about it. Pure.
//!
//! A look at an autoscaler has three steps: [`course`] tells from the present number whether anything must be measured;
//! [`weigh`] makes one recommendation of what the metrics propose; [`decide`] brings it into step.

use flyball_api::Timestamp;
use flyball_api::condition;
use flyball_api::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, MetricStatus, ScalingRules};
use jiff::SignedDuration;

use super::census::WarmUp;
use super::history::History;
use super::metric::Unusable;
use super::pace::{Pace, longest_period};
use super::proposal::Proposal;
use super::replicas::Tolerances;
use super::report::{self, Report};

/// What holds for all autoscalers, from flags and gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How far a measure may be off where the autoscaler does not say it.
    pub tolerance: f64,
    /// How long what was recommended holds back a step down.
    pub downscale_window: SignedDuration,
    /// What pods are given whose CPU is measured.
    pub warm_up: WarmUp,
    /// Whether autoscalers may say how far a measure may be off.
    pub own_tolerance: bool,
    /// Whether they may go to zero and come back from there.
    pub scale_to_zero: bool,
    /// Whether what is asked for a pod as a whole counts.
    pub pod_level: bool,
}

impl Settings {
    /// How far the measures of an autoscaler may be off.
    pub fn tolerances(&self, hpa: &HorizontalPodAutoscaler) -> Tolerances {
        let behavior = hpa.spec.behavior.as_ref().filter(|_| self.own_tolerance);
        let own = |rules: Option<&ScalingRules>| {
            rules.and_then(|rules| rules.tolerance).map_or(self.tolerance, |own| own.to_f64())
        };
        Tolerances {
            down: own(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
            up: own(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
        }
    }
}

/// One look at an autoscaler.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub hpa: &'a HorizontalPodAutoscaler,
    /// How many replicas its workload asks for.
    pub current: i32,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

impl View<'_> {
    fn min(&self) -> i32 {
        self.hpa.spec.min_replicas.unwrap_or(1)
    }

    fn max(&self) -> i32 {
        self.hpa.spec.max_replicas
    }

    /// Whether something can be measured while there is no pod.
    fn can_measure_without_pods(&self) -> bool {
        let is_outside = |type_: &str| type_ == "Object" || type_ == "External";
        self.hpa.spec.metrics.iter().any(|metric| is_outside(&metric.type_))
    }

    /// Whether it was the autoscaler that went to zero.
    fn went_to_zero(&self) -> bool {
        let conditions = &self.hpa.status.conditions;
        self.settings.scale_to_zero && condition::is_true(conditions, report::SCALED_TO_ZERO)
    }
}

/// What the present number of replicas calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Somebody has switched the workload off.
    Off,
    /// Back into the bounds, whatever is measured.
    Into(i32, &'static str),
    Measure,
}

const BELOW: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE: &str = "Current number of replicas above Spec.MaxReplicas";

/// Whether anything must be measured.
pub fn course(view: &View<'_>) -> Course {
    let (current, min, max) = (view.current, view.min(), view.max());
    if current == 0 {
        let may_return = view.went_to_zero() && (min != 0 || view.can_measure_without_pods());
        if may_return { Course::Measure } else { Course::Off }
    } else if current > max {
        Course::Into(max, ABOVE)
    } else if current < min {
        Course::Into(min, BELOW)
    } else {
        Course::Measure
    }
}

/// What the metrics of an autoscaler come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weighed {
    /// The most that any of them proposes, and its name; nothing if that would rely on what is not known.
    pub recommended: Option<(i32, String)>,
    /// Each metric as it is shown, blank where nothing was measured; nothing if they were not asked.
    pub shown: Option<Vec<MetricStatus>>,
    /// What is wrong with those that are unusable.
    pub problem: Option<String>,
}

/// Makes one recommendation of what the metrics propose. While any of them is unusable, nothing is taken away.
pub fn weigh(view: &View<'_>, proposals: Vec<Result<Proposal, Unusable>>, report: &mut Report) -> Weighed {
    let count = proposals.len();
    let mut weighed = Weighed::default();
    let mut shown = vec![];
    let mut best: Option<(i32, String)> = None;
    let mut unusable: Vec<Unusable> = vec![];
    for proposal in proposals {
        match proposal {
            Ok(Proposal { replicas, name, status }) => {
                shown.push(status);
                // Upstream: a proposal of nothing gives way to any later one, even a smaller.
                if best.as_ref().is_none_or(|(most, _)| *most == 0 || replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err(problem) => {
                shown.push(MetricStatus::default());
                report.warn(problem.reason, problem.problem.clone());
                unusable.push(problem);
            }
        }
    }
    weighed.shown = Some(shown);
    weighed.problem = unusable.first().map(|first| {
        let bad = unusable.len();
        format!("invalid metrics ({bad} invalid out of {count}), first error is: {}", first.told)
    });
    match (best, unusable.first()) {
        (Some((replicas, name)), first) if first.is_none() || replicas >= view.current => {
            report.measured(&name);
            weighed.recommended = Some((replicas, name));
        }
        (_, Some(first)) => report.unmeasured(first.reason, &first.problem),
        (_, None) => {}
    }
    weighed
}

/// A number of replicas to be set, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub replicas: i32,
    /// As the event says it.
    pub reason: String,
}

/// The step that follows from what the metrics recommend; none if there are as many replicas as there should be.
pub fn decide(
    view: &View<'_>,
    (recommended, metric): (i32, &str),
    history: &mut History,
    report: &mut Report,
) -> Option<Step> {
    let View { hpa, current, settings, now } = *view;
    // Upstream: what is less than nothing is nothing.
    let (recommended, metric) = if recommended > 0 { (recommended, metric) } else { (0, "") };
    let mut reason = match recommended.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{metric} above target"),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    };
    let pace = Pace {
        min: view.min(),
        max: view.max(),
        behavior: hpa.spec.behavior.as_ref(),
        downscale_window: settings.downscale_window,
        now,
    };
    let paced = pace.keep(current, recommended, history);
    report.paced(&paced);
    let mut replicas = paced.replicas;
    if current == 0 && view.min() != 0 && view.went_to_zero() && replicas < view.min() {
        replicas = view.min();
        if reason.is_empty() {
            reason = BELOW.to_owned();
        }
    }
    (replicas != current).then_some(Step { replicas, reason })
}

/// Notes a step that was taken.
pub fn taken(view: &View<'_>, step: &Step, history: &mut History, report: &mut Report) {
    let (from, to) = (view.current, step.replicas);
    report.rescaled(step);
    if let Some(behavior) = &view.hpa.spec.behavior {
        history.note_change(from, to, longest_period(behavior, from, to), view.now);
    }
    let is_to_zero = from > 0 && to == 0 && view.min() == 0 && view.can_measure_without_pods();
    report.zero(view.settings.scale_to_zero.then_some(is_to_zero));
}
