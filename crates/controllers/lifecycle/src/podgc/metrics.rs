//! Counts the pods that are deleted.

use flyball_runtime::metrics::{Family, Stability};
use flyball_runtime::{ErrorKinds, Metrics, Outcome};

use super::plan::{Step, Tag};

static DELETED: Family = Family::counter(
    "pod_gc_collector_force_delete_pods_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
);
static FAILED: Family = Family::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    Stability::Alpha,
    &["namespace", "reason"],
    "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
);

/// Counts each pod once: as an attempt, and as a failure unless it was gone already. Writes that a doubt left out were no
/// attempts: the round is repeated.
pub(super) fn count(metrics: &Metrics, outcome: &Outcome<Tag>) {
    let count = |family, Tag { namespace, reason, .. }: &Tag| {
        metrics.counter(family, &[namespace, reason.label()]).inc();
    };
    let deletions = outcome.done.iter().map(|done| &done.tag).filter(|tag| tag.step == Step::Delete);
    let unmarked = outcome.ignored().map(|(tag, _)| tag).filter(|tag| tag.step == Step::Mark);
    let attempted = || outcome.failures.iter().filter(|failure| !failure.is_one_of(ErrorKinds::OUTDATED));
    let failed = || attempted().filter_map(|failure| failure.tag.as_ref());
    deletions.chain(unmarked).chain(failed()).for_each(|tag| count(&DELETED, tag));
    failed().for_each(|tag| count(&FAILED, tag));
}
