//! What must hold for every plan and every report, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::{Resource, Uid, Workload};
use flyball_runtime::{Plan, Write};
use rustc_hash::FxHashSet;

use super::conclusion::still_tracked;
use super::gang::{self, Scheduling};
use super::plan::{BURST, PodWrite};
use super::status::Report;
use super::tally::Tally;
use super::view::{View, completion_index};

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_plan(view: &View<'_>, tally: &Tally<'_>, plan: &Plan<PodWrite<'_>>) -> Result<(), String> {
    let (mut new, mut deleted, mut released) = (vec![], vec![], vec![]);
    for write in plan.writes() {
        match write.tag {
            PodWrite::Create(pod) => new.push(pod),
            PodWrite::Delete(pod) => deleted.push(&pod.metadata.uid),
            PodWrite::Release(pod) => released.push(&pod.metadata.uid),
        }
    }
    let active: FxHashSet<&Uid> = tally.active.iter().map(|pod| &pod.metadata.uid).collect();
    let chosen: FxHashSet<&Uid> = deleted.iter().copied().collect();
    let busy: FxHashSet<_> = tally.active.iter().filter_map(|pod| completion_index(pod)).collect();
    let indexes: Vec<_> = new.iter().filter_map(|pod| pod.index).collect();
    let distinct: FxHashSet<_> = indexes.iter().collect();
    let done = |n: &u32| {
        let tally = tally.indexes.as_ref();
        tally.is_some_and(|t| t.succeeded.has(*n) || t.failed.as_ref().is_some_and(|f| f.has(*n)))
    };
    let parallelism = usize::try_from(view.job.spec.parallelism.unwrap_or(1)).unwrap_or(0);
    let may_create = !view.job.spec.is_suspended() && !view.job.metadata.is_deleting();
    let rules = [
        ("never both creating and deleting", new.is_empty() || deleted.is_empty()),
        ("never more active than the parallelism", new.is_empty() || active.len() + new.len() <= parallelism),
        ("one active pod per index", indexes.iter().all(|n| !busy.contains(n))),
        ("no index twice", distinct.len() == indexes.len()),
        ("no index that has ended", !indexes.iter().any(done)),
        ("no index beyond completions", indexes.iter().all(|n| *n < view.completions())),
        (
            "indexes exactly where there are some",
            new.is_empty() || view.is_indexed() == (indexes.len() == new.len()),
        ),
        ("nothing for a Job that is suspended or being deleted", may_create || new.is_empty()),
        ("a burst at most", new.len() <= BURST),
        ("only active pods are deleted", chosen.iter().all(|uid| active.contains(uid))),
        ("no pod twice", chosen.len() == deleted.len()),
        ("only pods that are deleted are released", released.iter().all(|uid| chosen.contains(uid))),
        ("a wait takes time", plan.requeue.is_none_or(|wait| !wait.is_zero())),
    ];
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: planned {plan}")))
}

/// Checks a report against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_report(view: &View<'_>, report: &Report<'_>) -> Result<(), String> {
    let (before, after) = (&view.job.status, &report.status);
    let uncounted = after.uncounted_terminated_pods.clone().unwrap_or_default();
    let known: Vec<&Uid> = uncounted.succeeded.iter().chain(&uncounted.failed).collect();
    let distinct: FxHashSet<&Uid> = known.iter().copied().collect();
    let tracked = still_tracked(view);
    let rules = [
        ("no pod counted twice", distinct.len() == known.len()),
        ("a uid in the status has a pod with a finalizer", known.iter().all(|uid| tracked.contains(uid))),
        ("failures are never forgotten", after.failed >= before.failed),
        ("successes are never forgotten", view.is_indexed() || after.succeeded >= before.succeeded),
        ("no more ready than active", after.ready.unwrap_or(0) <= after.active),
        (
            "nothing below zero",
            after.active >= 0 && after.ready >= Some(0) && after.terminating.is_none_or(|n| n >= 0),
        ),
        ("only tracked pods are released", report.release.iter().all(|pod| view.is_tracked(pod))),
    ];
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: reported {after:?}")))
}

/// Checks how the pods of a gang are to be scheduled.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_gang(view: &gang::View<'_>, scheduling: &Scheduling) -> Result<(), String> {
    let own = |owner: &Uid| *owner == view.job.metadata.uid;
    let controls = |name: &str| {
        let group = view.groups.iter().find(|group| group.metadata.name == name);
        group.and_then(|group| group.metadata.controller()).is_some_and(|owner| own(&owner.uid))
    };
    let is_workload = |write: &Write| write.resource == Workload::TYPE;
    let rules = match scheduling {
        Scheduling::WithoutGroup(_) => return Ok(()),
        Scheduling::InGroup(group) => vec![("only a group that the Job controls", controls(group))],
        Scheduling::CreateFirst(write) => vec![
            ("a Workload only for a Job that has none", !is_workload(write) || view.workloads.is_empty()),
            (
                "a Workload only for a Job that never started",
                !is_workload(write) || gang::never_started(view),
            ),
            ("a PodGroup only for a Workload that has none", is_workload(write) || view.groups.is_empty()),
            ("a name that the server accepts", write.key.name.len() <= gang::MAX_NAME_LENGTH),
        ],
    };
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: planned {scheduling:?}")))
}

fn broken<'a>(rules: &[(&'a str, bool)]) -> Option<&'a str> {
    rules.iter().find(|(_, holds)| !holds).map(|(rule, _)| *rule)
}
