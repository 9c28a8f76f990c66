//! What must hold for every plan and every report, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::Uid;
use rustc_hash::FxHashSet;

use super::plan::{BURST, Step};
use super::status::Report;
use super::tally::Tally;
use super::view::{View, completion_index};

/// Checks a step against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_step(view: &View<'_>, tally: &Tally<'_>, step: &Step<'_>) -> Result<(), String> {
    let active: FxHashSet<&Uid> = tally.active.iter().map(|pod| &pod.metadata.uid).collect();
    let rules = match step {
        Step::Create(new) => {
            let busy: FxHashSet<_> = tally.active.iter().filter_map(|pod| completion_index(pod)).collect();
            let indexes: Vec<_> = new.iter().filter_map(|pod| pod.index).collect();
            let distinct: FxHashSet<_> = indexes.iter().collect();
            let done = |n: &u32| {
                let tally = tally.indexes.as_ref();
                tally.is_some_and(|t| t.succeeded.has(*n) || t.failed.as_ref().is_some_and(|f| f.has(*n)))
            };
            let parallelism = usize::try_from(view.job.spec.parallelism.unwrap_or(1)).unwrap_or(0);
            vec![
                ("never more active than the parallelism", active.len() + new.len() <= parallelism),
                ("one active pod per index", indexes.iter().all(|n| !busy.contains(n))),
                ("no index twice", distinct.len() == indexes.len()),
                ("no index that has ended", !indexes.iter().any(done)),
                ("no index beyond completions", indexes.iter().all(|n| *n < view.completions())),
                ("indexes exactly where there are some", view.is_indexed() == (indexes.len() == new.len())),
                ("nothing for a suspended Job", !view.job.spec.is_suspended()),
                ("nothing for a Job that is being deleted", !view.job.metadata.is_deleting()),
                ("a burst at most", new.len() <= BURST && !new.is_empty()),
            ]
        }
        Step::Discard(pods) | Step::Stop(pods) => {
            let chosen: FxHashSet<&Uid> = pods.iter().map(|pod| &pod.metadata.uid).collect();
            vec![
                ("only active pods are deleted", chosen.iter().all(|uid| active.contains(uid))),
                ("no pod twice", chosen.len() == pods.len()),
            ]
        }
        Step::Wait(wait) => vec![("a wait takes time", !wait.is_zero())],
        Step::Nothing => vec![],
    };
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: planned {step:?}")))
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
    let tracked = super::status::still_tracked(view);
    let rules = [
        ("no pod counted twice", distinct.len() == known.len()),
        ("a uid in the status has a pod with a finalizer", known.iter().all(|uid| tracked.contains(uid))),
        ("failures are never forgotten", after.failed >= before.failed),
        ("successes are never forgotten", view.is_indexed() || after.succeeded >= before.succeeded),
        ("no more ready than active", after.ready.unwrap_or(0) <= after.active),
        ("nothing below zero", after.active >= 0 && after.ready >= Some(0) && after.terminating >= Some(0)),
        ("only tracked pods are freed", report.release.iter().all(|pod| view.is_tracked(pod))),
    ];
    broken(&rules).map_or(Ok(()), |rule| Err(format!("{rule}: said {after:?}")))
}

fn broken<'a>(rules: &[(&'a str, bool)]) -> Option<&'a str> {
    rules.iter().find(|(_, holds)| !holds).map(|(rule, _)| *rule)
}
