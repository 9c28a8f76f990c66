//! StatefulSets: pods start and are updated in order; partitions and OnDelete hold updates back.

use crate::finding::{Finding, Weight};
use crate::object::Obj;
use crate::words::list;
use crate::world::World;

use super::common::{pod_problem, pods_of};

fn ordinal(pod: Obj<'_>) -> Option<i64> {
    pod.name().rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

/// With ordered start, the first pod that is not ready holds back all that come after it.
pub(super) fn order(world: &World, set: Obj<'_>) -> Vec<Finding> {
    let wanted = set.int("/spec/replicas").unwrap_or(1);
    if set.text("/spec/podManagementPolicy") == "Parallel" || set.is_deleting() {
        return Vec::new();
    }
    let mut pods = pods_of(world, set);
    pods.sort_by_key(|pod| ordinal(*pod));
    let first = set.count("/spec/ordinals/start");
    let Some(blocking) = pods.iter().find(|pod| !pod.has("Ready", "True") || pod.is_deleting()) else {
        return Vec::new();
    };
    let Some(position) = ordinal(*blocking) else { return Vec::new() };
    let outdated = is_outdated(set, *blocking);
    let missing = wanted - i64::try_from(pods.len()).unwrap_or(0);
    if missing <= 0 && !outdated {
        return Vec::new();
    }
    let (problem, weight) = match pod_problem(world, *blocking) {
        Some(problem) => (problem.text, problem.weight),
        None => ("it is not ready yet".to_owned(), Weight::Waits),
    };
    let last = first + wanted - 1;
    let held = match missing > 0 {
        true if position < last => {
            format!("pods {}-{} to {}-{last} are created after it", set.name(), position + 1, set.name())
        }
        true => "it is the last one".to_owned(),
        false => "the update goes on when it is ready".to_owned(),
    };
    let finding = Finding::new("ordered-start", weight, *blocking, format!("{problem} ({held})"));
    vec![match outdated && weight == Weight::Blocks {
        true => finding.advise(format!(
            "the pod is of an older revision and is not replaced while it is not ready: delete it (kubectl -n {} delete pod {})",
            set.namespace(),
            blocking.name()
        )),
        false => finding,
    }]
}

fn is_outdated(set: Obj<'_>, pod: Obj<'_>) -> bool {
    let update = set.text("/status/updateRevision");
    !update.is_empty() && pod.label("controller-revision-hash").is_some_and(|hash| hash != update)
}

pub(super) fn partition(world: &World, set: Obj<'_>) -> Vec<Finding> {
    let partition = set.count("/spec/updateStrategy/rollingUpdate/partition");
    let old = pods_of(world, set)
        .into_iter()
        .filter(|pod| is_outdated(set, *pod) && ordinal(*pod) < Some(partition));
    let names: Vec<&str> = old.map(Obj::name).collect();
    if partition == 0 || names.is_empty() {
        return Vec::new();
    }
    let text = format!("partition {partition} keeps {} at the old revision", list(&names, 5));
    let advice = "lower spec.updateStrategy.rollingUpdate.partition to update more pods";
    vec![Finding::blocks("partition", set, text).advise(advice)]
}

pub(super) fn on_delete(world: &World, set: Obj<'_>) -> Vec<Finding> {
    if set.text("/spec/updateStrategy/type") != "OnDelete" {
        return Vec::new();
    }
    let outdated = match set.kind() {
        "StatefulSet" => {
            pods_of(world, set).into_iter().filter(|pod| is_outdated(set, *pod)).map(Obj::name).collect()
        }
        _ if set.count("/status/updatedNumberScheduled") < set.count("/status/desiredNumberScheduled") => {
            vec!["the pods of the old template"]
        }
        _ => Vec::new(),
    };
    if outdated.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "its update strategy is OnDelete: {} will be updated when a user deletes them",
        list(&outdated, 5)
    );
    vec![
        Finding::blocks("on-delete", set, text)
            .advise("delete the pods, or set the update strategy to RollingUpdate"),
    ]
}
