//! From what was measured to how many replicas there should be. Pure.
//!
//! All amounts are thousandths, as upstream counts them. Measures of pods leave some pods out: see [`Census`].
//!
//! Upstream: `pkg/controller/podautoscaler/replica_calculator.go`.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use smol_str::SmolStr;

use super::census::{Census, Scope};
use flyball_api::Timestamp;

/// One measured value of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub value: i64,
    pub at: Option<Timestamp>,
    /// The time over which it is an average.
    pub window: SignedDuration,
}

impl Sample {
    fn assumed(value: i64) -> Self {
        Self { value, at: None, window: SignedDuration::ZERO }
    }
}

/// Measured values by the name of their pod.
pub type Samples = BTreeMap<SmolStr, Sample>;

/// How far a measure may be off its aim before anything is done, as parts of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    /// Whether measured over aimed at is close enough to one.
    fn cover(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// How much of what they ask for pods use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilization {
    /// In percent of the requests.
    pub percent: i32,
    pub average: i64,
}

/// What follows from a measure: the replicas there should be, and the measure in the form it is shown.
pub type Proposed<T> = Result<(i32, T), String>;

/// Replicas that bring the use of a resource to `target` percent of what pods ask for.
pub fn by_utilization(
    scope: &Scope<'_>,
    mut samples: Samples,
    requests: impl FnOnce() -> Result<BTreeMap<SmolStr, i64>, String>,
    target: i32,
) -> Proposed<Utilization> {
    let census = Census::take(scope, &mut samples)?;
    let requests = requests()?;
    let used = utilization(&samples, &requests)?;
    let ratio = |samples: &Samples| {
        utilization(samples, &requests).map(|used| f64::from(used.percent) / f64::from(target))
    };
    // A pod without a measure is not spared to save on it: it may use all that it asks for, or all that it should.
    let fallback = i64::from(target.max(100));
    let stand_in = |pod: &str| requests.get(pod).map_or(0, |request| request.saturating_mul(fallback) / 100);
    Ok((settle(scope, &census, samples, ratio, stand_in)?, used))
}

/// Replicas that bring a measure of each pod to `target` on average.
pub fn by_average(scope: &Scope<'_>, mut samples: Samples, target: i64) -> Proposed<i64> {
    let census = Census::take(scope, &mut samples)?;
    let used = average(&samples);
    let ratio = |samples: &Samples| Ok(average(samples) as f64 / target as f64);
    Ok((settle(scope, &census, samples, ratio, |_| target)?, used))
}

/// Replicas that bring a measure of something else to `target` in all, if each replica does its part of it.
pub fn by_value(scope: &Scope<'_>, usage: i64, target: i64) -> Proposed<i64> {
    let ratio = usage as f64 / target as f64;
    if scope.replicas == 0 {
        return Ok((ceil(ratio), usage));
    }
    if scope.tolerances.cover(ratio) {
        return Ok((scope.replicas, usage));
    }
    let ready = scope.ready().map_err(|error| format!("unable to calculate ready pods: {error}"))?;
    Ok((ceil(ratio * ready as f64), usage))
}

/// Replicas that bring a measure of something else to `target` for each of them; there are `present` now.
pub fn by_share(tolerances: Tolerances, present: i32, usage: i64, target: i64) -> (i32, i64) {
    let ratio = usage as f64 / (target as f64 * f64::from(present));
    let replicas = if tolerances.cover(ratio) { present } else { ceil(usage as f64 / target as f64) };
    let share = if usage == i64::MAX { usage } else { shown((usage as f64 / f64::from(present)).ceil()) };
    (replicas, share)
}

/// The number as upstream shows it, which without any replica is what a processor makes of an infinite number.
///
/// Upstream: `GetObjectPerPodMetricReplicas`: `int64(math.Ceil(…))`, on amd64.
fn shown(number: f64) -> i64 {
    let fits = number >= i64::MIN as f64 && number < i64::MAX as f64;
    if fits { number as i64 } else { i64::MIN }
}

/// Replicas for a ratio of what pods use to what they should, with care for those that were not measured: they count
/// as busy before anything is taken away and as idle before anything is added, and never turn the direction.
fn settle(
    scope: &Scope<'_>,
    census: &Census,
    mut samples: Samples,
    ratio: impl Fn(&Samples) -> Result<f64, String>,
    stand_in: impl Fn(&str) -> i64,
) -> Result<i32, String> {
    let (tolerances, present) = (scope.tolerances, scope.replicas);
    let measured = ratio(&samples)?;
    let unready_count = !census.unready.is_empty() && measured > 1.0;
    if !unready_count && census.missing.is_empty() {
        return Ok(if tolerances.cover(measured) { present } else { ceil(measured * census.ready as f64) });
    }
    for pod in &census.missing {
        if measured < 1.0 {
            samples.insert(pod.clone(), Sample::assumed(stand_in(pod)));
        } else if measured > 1.0 {
            samples.insert(pod.clone(), Sample::assumed(0));
        }
    }
    if unready_count {
        samples.extend(census.unready.iter().map(|pod| (pod.clone(), Sample::assumed(0))));
    }
    let adjusted = ratio(&samples)?;
    let has_turned = (measured < 1.0 && adjusted > 1.0) || (measured > 1.0 && adjusted < 1.0);
    if tolerances.cover(adjusted) || has_turned {
        return Ok(present);
    }
    let replicas = ceil(adjusted * samples.len() as f64);
    let is_backwards = (adjusted < 1.0 && replicas > present) || (adjusted > 1.0 && replicas < present);
    Ok(if is_backwards { present } else { replicas })
}

/// Of pods whose requests are known.
fn utilization(samples: &Samples, requests: &BTreeMap<SmolStr, i64>) -> Result<Utilization, String> {
    let known = samples.iter().filter_map(|(pod, sample)| Some((sample.value, *requests.get(pod)?)));
    let (mut used, mut requested, mut pods) = (0_i64, 0_i64, 0_i64);
    for (value, request) in known {
        used = used.saturating_add(value);
        requested = requested.saturating_add(request);
        pods += 1;
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = used.saturating_mul(100).checked_div(requested).unwrap_or_default();
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    Ok(Utilization { percent, average: used.checked_div(pods).unwrap_or_default() })
}

fn average(samples: &Samples) -> i64 {
    let total = samples.values().fold(0_i64, |sum, sample| sum.saturating_add(sample.value));
    i64::try_from(samples.len()).ok().and_then(|pods| total.checked_div(pods)).unwrap_or_default()
}

/// Rounded up; beyond all bounds it stays at the largest number. (Upstream: not so everywhere: there a measure of pods
/// that is large enough becomes a negative number of replicas.)
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
