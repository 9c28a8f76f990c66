//! How many replicas the values of a metric call for. Pure.
//!
//! All amounts are in thousandths, as upstream's. Metrics of pods ignore some pods: see [`PodGroups`].
//!
//! Upstream: `pkg/controller/podautoscaler/replica_calculator.go`.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use smol_str::SmolStr;

use super::pod_groups::{PodGroups, Workload};
use flyball_api::Timestamp;

/// One value of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub value: i64,
    pub at: Option<Timestamp>,
    /// The time over which the value is an average.
    pub window: SignedDuration,
}

impl Sample {
    fn assumed(value: i64) -> Self {
        Self { value, at: None, window: SignedDuration::ZERO }
    }
}

/// Values by the name of their pod.
pub type Samples = BTreeMap<SmolStr, Sample>;

/// How far the ratio of value to target may be from one without a rescale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn cover(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The usage of a resource compared with the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilization {
    /// In percent of the requests.
    pub percent: i32,
    pub average: i64,
}

/// The number of replicas that a metric calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub replicas: i32,
    /// Why it is the present number although the value differs from the target.
    pub unchanged: Option<Unchanged>,
}

/// Why a metric whose value differs from its target leaves the number of replicas as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchanged {
    WithinTolerance,
    /// Pods without a usable sample, counted as idle or as busy, would turn the direction.
    UnmeasuredPods,
}

impl Unchanged {
    /// The reason, for users.
    pub fn words(self) -> &'static str {
        match self {
            Self::WithinTolerance => "its value is within the tolerance of its target",
            Self::UnmeasuredPods => "pods without metrics could reverse the direction",
        }
    }
}

impl Count {
    fn exactly(replicas: i32) -> Self {
        Self { replicas, unchanged: None }
    }

    fn unchanged(replicas: i32, why: Unchanged) -> Self {
        Self { replicas, unchanged: Some(why) }
    }
}

/// The number of replicas that a metric calls for, and its value as the status shows it.
pub type Proposed<T> = Result<(Count, T), String>;

/// Replicas that bring the usage of a resource to `target` percent of the requests.
pub fn by_utilization(
    workload: &Workload<'_>,
    mut samples: Samples,
    requests: impl FnOnce() -> Result<BTreeMap<SmolStr, i64>, String>,
    target: i32,
) -> Proposed<Utilization> {
    let groups = PodGroups::new(workload, &mut samples)?;
    let requests = requests()?;
    let used = utilization(&samples, &requests)?;
    let ratio = |samples: &Samples| {
        utilization(samples, &requests).map(|used| f64::from(used.percent) / f64::from(target))
    };
    // Before scaling down, a pod without a sample counts as using its whole request, or the target if that is higher.
    let fallback = i64::from(target.max(100));
    let assumed = |pod: &str| requests.get(pod).map_or(0, |request| request.saturating_mul(fallback) / 100);
    Ok((replicas(workload, &groups, samples, ratio, assumed)?, used))
}

/// Replicas that bring the average over the pods to `target`.
pub fn by_average(workload: &Workload<'_>, mut samples: Samples, target: i64) -> Proposed<i64> {
    let groups = PodGroups::new(workload, &mut samples)?;
    let used = average(&samples);
    let ratio = |samples: &Samples| Ok(average(samples) as f64 / target as f64);
    Ok((replicas(workload, &groups, samples, ratio, |_| target)?, used))
}

/// Replicas that bring one value for all pods together to `target`, if each ready pod has an equal share in it.
pub fn by_value(workload: &Workload<'_>, usage: i64, target: i64) -> Proposed<i64> {
    let ratio = usage as f64 / target as f64;
    if workload.replicas == 0 {
        return Ok((Count::exactly(ceil(ratio)), usage));
    }
    if workload.tolerances.cover(ratio) {
        return Ok((tolerated(workload.replicas, ratio), usage));
    }
    let ready = workload.ready().map_err(|error| format!("unable to calculate ready pods: {error}"))?;
    Ok((Count::exactly(ceil(ratio * ready as f64)), usage))
}

/// Replicas that bring one value for all pods together to `target` per replica; there are `present` replicas now.
pub fn by_share(tolerances: Tolerances, present: i32, usage: i64, target: i64) -> (Count, i64) {
    let ratio = usage as f64 / (target as f64 * f64::from(present));
    let count = match tolerances.cover(ratio) {
        true => tolerated(present, ratio),
        false => Count::exactly(ceil(usage as f64 / target as f64)),
    };
    let share = if usage == i64::MAX { usage } else { go_int64((usage as f64 / f64::from(present)).ceil()) };
    (count, share)
}

/// The present number of replicas, which is kept because of the tolerance unless the ratio is exactly one.
fn tolerated(present: i32, ratio: f64) -> Count {
    if ratio == 1.0 { Count::exactly(present) } else { Count::unchanged(present, Unchanged::WithinTolerance) }
}

/// The number as upstream shows it. Without replicas it is infinite, and its conversion to an integer is that of amd64.
///
/// Upstream: `GetObjectPerPodMetricReplicas`: `int64(math.Ceil(…))`, on amd64.
fn go_int64(number: f64) -> i64 {
    let fits = number >= i64::MIN as f64 && number < i64::MAX as f64;
    if fits { number as i64 } else { i64::MIN }
}

/// Replicas for a ratio of usage to target. Pods without a usable sample count as busy before scaling down and as idle
/// before scaling up, and never turn the direction.
fn replicas(
    workload: &Workload<'_>,
    groups: &PodGroups,
    mut samples: Samples,
    ratio: impl Fn(&Samples) -> Result<f64, String>,
    assumed: impl Fn(&str) -> i64,
) -> Result<Count, String> {
    let (tolerances, present) = (workload.tolerances, workload.replicas);
    let measured = ratio(&samples)?;
    let unready_count = !groups.unready.is_empty() && measured > 1.0;
    if !unready_count && groups.missing.is_empty() {
        return Ok(match tolerances.cover(measured) {
            true => tolerated(present, measured),
            false => Count::exactly(ceil(measured * groups.ready as f64)),
        });
    }
    for pod in &groups.missing {
        if measured < 1.0 {
            samples.insert(pod.clone(), Sample::assumed(assumed(pod)));
        } else if measured > 1.0 {
            samples.insert(pod.clone(), Sample::assumed(0));
        }
    }
    if unready_count {
        samples.extend(groups.unready.iter().map(|pod| (pod.clone(), Sample::assumed(0))));
    }
    let adjusted = ratio(&samples)?;
    let has_turned = (measured < 1.0 && adjusted > 1.0) || (measured > 1.0 && adjusted < 1.0);
    if tolerances.cover(adjusted) {
        return Ok(tolerated(present, adjusted));
    }
    if has_turned {
        return Ok(Count::unchanged(present, Unchanged::UnmeasuredPods));
    }
    let replicas = ceil(adjusted * samples.len() as f64);
    let is_backwards = (adjusted < 1.0 && replicas > present) || (adjusted > 1.0 && replicas < present);
    Ok(if is_backwards {
        Count::unchanged(present, Unchanged::UnmeasuredPods)
    } else {
        Count::exactly(replicas)
    })
}

/// The utilization by pods whose requests are known.
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

/// Rounds up and saturates. (Upstream: a huge metric value of pods becomes a negative number of replicas.)
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
