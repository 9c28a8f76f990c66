//! What must be equal at the end of trials: the final state, and not the steps that led there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::golden::expected::Snapshot;

/// The trigger time of the last write. A write without a change of a pod's readiness has none (a repair, a retry, the first
/// sync after a restart), so after faults its presence is random.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The objects, without what depends on the number of steps.
pub(crate) fn end_state(healed: &Snapshot) -> Snapshot {
    let mut snapshot = healed.clone();
    snapshot.events.clear();
    snapshot.requests.clear();
    // The last writer owns a field, so an entry may be empty after a retry.
    snapshot.managers.clear();
    snapshot.objects.values_mut().for_each(forget_steps);
    snapshot.objects.iter_mut().for_each(|(key, object)| forget_between_writes(key, object));
    snapshot.objects = merge_slices(snapshot.objects);
    forget_the_gone(&mut snapshot.objects);
    snapshot
}

#[expect(clippy::unwrap_used, reason = "a constant pattern, compiled by every test")]
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<rand-\d+>").unwrap());

/// Whether the name of a deleted object has a number depends on whether a snapshot saw it while it existed.
fn forget_the_gone(objects: &mut BTreeMap<String, Value>) {
    let names: BTreeSet<String> =
        objects.keys().filter_map(|key| Some(key.split_once('/')?.1.to_owned())).collect();
    objects.values_mut().for_each(|object| blank(object, &names));
}

fn blank(value: &mut Value, names: &BTreeSet<String>) {
    match value {
        Value::String(text) if NUMBERED.is_match(text) && !names.contains(text) => {
            *text = NUMBERED.replace_all(text, "<rand>").into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| blank(field, names)),
        _ => {}
    }
}

fn forget_steps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in ["generation", "observedGeneration", "restartCount"] {
                fields.remove(field);
            }
            // A condition keeps its message while status and reason stay the same, so the message depends on the steps, too.
            if fields.contains_key("lastTransitionTime") {
                fields.remove("message");
            }
            // A condition that changes is moved to the end by some controllers, here as upstream.
            if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
                conditions.sort_by_cached_key(|condition| condition["type"].to_string());
            }
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations")
                && annotations.remove(TRIGGER_TIME).is_some()
                && annotations.is_empty()
            {
                fields.remove("annotations");
            }
            fields.values_mut().for_each(forget_steps);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_steps),
        _ => {}
    }
}

/// What a crash between two writes leaves behind, here as upstream: an autoscaler that had scaled and not yet written its
/// status, a released claim that was about to lose its protection finalizer, and a pod that was deleted because enough
/// others of its Job had succeeded and was about to lose its finalizer: it counts as failed. And what depends on the number
/// of writes: the order in which a node's disks were reported, and which step of a rollout its Deployment names.
fn forget_between_writes(key: &str, object: &mut Value) {
    if let Some(attached) = object.pointer_mut("/status/volumesAttached").and_then(Value::as_array_mut) {
        attached.sort_by_key(|volume| volume["name"].to_string());
    }
    if key.starts_with("HorizontalPodAutoscaler/") {
        let is_active = has_condition(object, "ScalingActive");
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("lastScaleTime");
            // Without metrics it keeps the value of the last status write.
            if !is_active {
                status.remove("desiredReplicas");
            }
        }
    }
    if key.starts_with("Deployment/") {
        forget_rollout_step(object);
    }
    if key.starts_with("Job/")
        && has_met_its_policy(object)
        && object["spec"]["podReplacementPolicy"] != "Failed"
        && let Some(status) = object["status"].as_object_mut()
    {
        status.remove("failed");
    }
    if key.starts_with("ResourceClaim/") && object["status"]["allocation"].is_null() {
        let is_protection = |finalizer: &Value| finalizer == "resource.kubernetes.io/delete-protection";
        let metadata = &mut object["metadata"];
        let is_empty = metadata["finalizers"].as_array_mut().is_some_and(|finalizers| {
            finalizers.retain(|finalizer| !is_protection(finalizer));
            finalizers.is_empty()
        });
        if let Some(metadata) = metadata.as_object_mut()
            && (is_empty || metadata["finalizers"].is_null())
        {
            metadata.remove("finalizers");
        }
    }
}

/// Reasons of a Deployment's condition Progressing while its rollout is under way. A status is compared with the one written
/// before: if that write failed until the new ReplicaSet had pods, no progress is seen, and the earlier reason stays, here as
/// upstream; even that the ReplicaSet could not be created at first.
const ROLLOUT_STEPS: [&str; 4] =
    ["NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "ReplicaSetCreateError"];

fn forget_rollout_step(deployment: &mut Value) {
    let status = &mut deployment["status"];
    let has_new_pods = status["updatedReplicas"].as_u64().is_some_and(|pods| pods > 0);
    let conditions = status["conditions"].as_array_mut().filter(|_| has_new_pods);
    for condition in conditions.into_iter().flatten() {
        let is_step = |reason: &&str| condition["type"] == "Progressing" && condition["reason"] == **reason;
        if ROLLOUT_STEPS.iter().any(is_step) {
            (condition["status"], condition["reason"]) = ("True".into(), "under way".into());
        }
    }
}

fn has_condition(object: &Value, kind: &str) -> bool {
    conditions(object).any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Whether enough pods of a Job have succeeded although others were running. All completions leave none to be deleted.
fn has_met_its_policy(job: &Value) -> bool {
    has_condition(job, "SuccessCriteriaMet")
        && conditions(job).any(|condition| condition["reason"] == "SuccessPolicy")
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// Merges the slices of a Service that differ in nothing but their endpoints: slices are filled as endpoints come and are
/// never repacked, so which endpoint is in which depends on the steps. Slices of a deleted Service are left out: no
/// controller updates them any longer, so they show an earlier state.
fn merge_slices(objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let services: Vec<String> =
        objects.keys().filter_map(|key| key.strip_prefix("Service/")).map(str::to_owned).collect();
    let mut merged: BTreeMap<String, Value> = BTreeMap::new();
    for (key, mut object) in objects {
        if !key.starts_with("EndpointSlice/") {
            merged.insert(key, object);
            continue;
        }
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut services_of = owners.filter(|owner| owner["kind"] == "Service");
        if services_of.any(|owner| !services.iter().any(|service| owner["name"] == **service)) {
            continue;
        }
        let endpoints = object["endpoints"].take();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("generateName"); // removed when a mirror is written again
        }
        let frame = object.to_string();
        let whole = merged.entry(format!("EndpointSlices {frame}")).or_insert_with(|| {
            object["endpoints"] = json!([]);
            object["empty"] = json!(0);
            object
        });
        let mut endpoints: Vec<Value> = endpoints.as_array().cloned().unwrap_or_default();
        if endpoints.is_empty() {
            whole["empty"] = json!(whole["empty"].as_u64().unwrap_or_default() + 1);
        }
        if let Some(all) = whole["endpoints"].as_array_mut() {
            all.append(&mut endpoints);
            all.sort_by_cached_key(Value::to_string);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices `NAME SERVICE ADDRESS…` beside a Service `web`.
    fn state(slices: &[&str]) -> Snapshot {
        let slice = |text: &&str| {
            let mut words = text.split(' ');
            let (name, service) = (words.next().unwrap(), words.next().unwrap());
            let endpoints: Vec<Value> = words.map(|address| json!({"addresses": [address]})).collect();
            let annotations = json!({(TRIGGER_TIME): format!("<{name}>")});
            let owners = json!([{"kind": "Service", "name": service}]);
            let metadata = json!({"annotations": annotations, "ownerReferences": owners});
            (format!("EndpointSlice/{name}"), json!({"metadata": metadata, "endpoints": endpoints}))
        };
        let mut objects: BTreeMap<String, Value> = slices.iter().map(slice).collect();
        objects.insert("Service/web".into(), json!({}));
        end_state(&Snapshot { label: "healed".into(), objects, ..Snapshot::default() })
    }

    #[test]
    fn what_a_crash_between_two_writes_leaves_behind_is_chance() {
        let mut scaled = json!({"status": {"desiredReplicas": 3, "lastScaleTime": "<time>"}});
        forget_between_writes("HorizontalPodAutoscaler/a", &mut scaled);
        assert_eq!(scaled, json!({"status": {}}));
        let active = json!([{"type": "ScalingActive", "status": "True"}]);
        let mut scaled = json!({"status": {"desiredReplicas": 3, "conditions": active}});
        forget_between_writes("HorizontalPodAutoscaler/a", &mut scaled);
        assert_eq!(scaled["status"]["desiredReplicas"], 3);
        #[rustfmt::skip]
        let table = [
            // why the criteria are met   podReplacementPolicy     compared
            ("SuccessPolicy",             "TerminatingOrFailed",   false),
            ("SuccessPolicy",             "Failed",                true), // a pod that is only terminating does not count
            ("CompletionsReached",        "TerminatingOrFailed",   true),
        ];
        for (reason, replaced, is_compared) in table {
            let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": reason}]);
            let spec = json!({"podReplacementPolicy": replaced});
            let mut enough = json!({"spec": spec, "status": {"failed": 1, "conditions": met}});
            forget_between_writes("Job/j", &mut enough);
            assert_eq!(enough["status"]["failed"] == 1, is_compared, "{reason} {replaced}");
        }
        let mut failed = json!({"status": {"failed": 1}});
        forget_between_writes("Job/j", &mut failed);
        assert_eq!(failed["status"]["failed"], 1);
        let protection = "resource.kubernetes.io/delete-protection";
        let mut free = json!({"metadata": {"finalizers": [protection]}, "status": {}});
        forget_between_writes("ResourceClaim/c", &mut free);
        assert_eq!(free["metadata"], json!({}));
        let mut given = json!({"metadata": {"finalizers": [protection]}, "status": {"allocation": {}}});
        forget_between_writes("ResourceClaim/c", &mut given);
        assert_eq!(given["metadata"]["finalizers"], json!([protection]));
    }

    #[test]
    fn the_order_of_conditions_is_chance() {
        let mut status = json!({"conditions": [{"type": "b"}, {"type": "a", "status": "True"}]});
        forget_steps(&mut status);
        assert_eq!(status, json!({"conditions": [{"type": "a", "status": "True"}, {"type": "b"}]}));
    }

    #[test]
    fn a_rollout_under_way_may_name_any_of_its_steps() {
        #[rustfmt::skip]
        let table = [
            // new pods   status    reason                        compared as
            (1,           "True",   "ReplicaSetUpdated",          "True under way"),
            (1,           "False",  "ReplicaSetCreateError",      "True under way"),
            (0,           "False",  "ReplicaSetCreateError",      "False ReplicaSetCreateError"), // there is none
            (1,           "True",   "NewReplicaSetAvailable",     "True NewReplicaSetAvailable"),
            (1,           "False",  "ProgressDeadlineExceeded",   "False ProgressDeadlineExceeded"),
        ];
        for (pods, status, reason, want) in table {
            let conditions = json!([{"type": "Progressing", "status": status, "reason": reason}]);
            let mut deployment = json!({"status": {"updatedReplicas": pods, "conditions": conditions}});
            forget_between_writes("Deployment/d", &mut deployment);
            let condition = &deployment["status"]["conditions"][0];
            let seen = [&condition["status"], &condition["reason"]].map(|text| text.as_str().unwrap());
            assert_eq!(seen.join(" "), want);
        }
    }

    #[test]
    fn a_name_of_what_is_gone_has_no_number() {
        let pod = |claim: &str| (String::from("Pod/p"), json!({"claim": claim}));
        let claim = || (String::from("ResourceClaim/c-<rand-1>"), json!({}));
        let mut there = BTreeMap::from([pod("c-<rand-1>"), claim()]);
        let mut gone = BTreeMap::from([pod("c-<rand-2>"), claim()]);
        forget_the_gone(&mut there);
        forget_the_gone(&mut gone);
        assert_eq!(there["Pod/p"]["claim"], "c-<rand-1>");
        assert_eq!(gone["Pod/p"]["claim"], "c-<rand>");
    }

    #[test]
    fn endpoints_count_and_not_in_which_slice_they_are() {
        #[rustfmt::skip]
        let table: [(&str, &[&str], &[&str], bool); 5] = [
            ("packed otherwise",           &["x web a b", "y web c"],  &["x web a", "y web c b"],   true),
            ("one is missing",             &["x web a b", "y web c"],  &["x web a", "y web c"],     false),
            ("one is there twice",         &["x web a b"],             &["x web a", "y web b a"],   false),
            ("an empty one beside",        &["x web a"],               &["x web a", "y web"],       false),
            ("left behind by another",     &["x web a", "z gone a"],   &["x web a", "z gone b"],    true),
        ];
        for (case, one, other, same) in table {
            assert_eq!(state(one) == state(other), same, "{case}");
        }
    }
}
