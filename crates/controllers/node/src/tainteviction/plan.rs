//! How long a pod bears the taints of its node, and what follows. Pure.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::pod::Pod;
use flyball_api::taint::{Taint, Toleration};
use flyball_common::disruption;
use serde_json::{Value, json};
use tokio::time::Instant;

const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

pub fn no_execute(taints: &[Taint]) -> impl Iterator<Item = &Taint> {
    taints.iter().filter(|taint| taint.effect == "NoExecute")
}

pub fn repels(taints: &[Taint]) -> bool {
    no_execute(taints).next().is_some()
}

/// For how long a pod may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Nothing asks it to go.
    Untainted,
    /// Some taint is not tolerated.
    Refused,
    /// All taints are tolerated, the most pressing one for this long.
    For(Duration),
    /// All taints are tolerated without limit.
    Forever,
}

/// What the taints of a node mean for a pod with these tolerations. Of several tolerations that match a taint the
/// first counts. `comparisons` says whether tolerations may compare numbers.
pub fn stay(taints: &[Taint], tolerations: &[Toleration], comparisons: bool) -> Stay {
    let mut shortest: Option<Duration> = None;
    let mut tainted = false;
    for taint in no_execute(taints) {
        tainted = true;
        let answer = tolerations.iter().find(|toleration| toleration.tolerates(taint, comparisons));
        let Some(toleration) = answer else { return Stay::Refused };
        if let Some(seconds) = toleration.toleration_seconds {
            let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            shortest = Some(shortest.map_or(limit, |so_far| so_far.min(limit)));
        }
    }
    match (tainted, shortest) {
        (false, _) => Stay::Untainted,
        (true, None) => Stay::Forever,
        (true, Some(limit)) => Stay::For(limit),
    }
}

/// What is to be done about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Leave,
    /// It stays after all: the eviction that was booked is called off.
    CallOff,
    /// It goes at this time.
    EvictAt(Instant),
    EvictNow,
}

/// Decides. `stay` is `None` while the pod's node is not known; `booked` is when the pod was to go so far.
///
/// A booked time stands while any limit does, also when a taint is added or a limit changes: so an updated taint
/// does not grant its pods a new delay.
/// Upstream: `processPodOnNode`: compares the start of the work that is scheduled plus the limit with now plus the
/// limit, and the former is always earlier.
pub fn decide(stay: Option<Stay>, booked: Option<Instant>, now: Instant) -> Verdict {
    let when = |due: Instant| if due <= now { Verdict::EvictNow } else { Verdict::EvictAt(due) };
    match (stay, booked) {
        (Some(Stay::Refused), _) => Verdict::EvictNow,
        (Some(Stay::Untainted | Stay::Forever), Some(_)) => Verdict::CallOff,
        (Some(Stay::Untainted | Stay::Forever) | None, None) => Verdict::Leave,
        // A limit beyond the clock's range is none.
        (Some(Stay::For(limit)), None) => now.checked_add(limit).map_or(Verdict::Leave, when),
        (Some(Stay::For(_)) | None, Some(due)) => when(due),
    }
}

/// Whether nothing is left to do about a pod that has to go: it is going, and says why.
pub fn is_done(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && disruption::is_marked(pod, REASON, MESSAGE)
}

/// The patch of the status that says why the pod is deleted; `None` if it says so already.
pub fn marking(pod: &Pod, now: Timestamp) -> Option<Value> {
    if disruption::is_marked(pod, REASON, MESSAGE) {
        return None;
    }
    let condition = disruption::target(pod, REASON, MESSAGE, now);
    Some(json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}))
}
