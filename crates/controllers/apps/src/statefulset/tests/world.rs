//! Builds a snapshot from a line of text.

use std::sync::{Arc, LazyLock};

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, PersistentVolumeClaim, StatefulSet, Timestamp, time};
use flyball_client::Verb;
use flyball_runtime::{Plan, Waiting, Write};
use serde_json::{Value, json};

use crate::statefulset::history::Revisions;
use crate::statefulset::invariants;
use crate::statefulset::plan::{Step, Why, plan};
use crate::statefulset::view::{Claims, View};

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn ago(seconds: i64) -> String {
    time::format_seconds(Timestamp::from_second(now().as_second() - seconds).unwrap())
}

/// A pod of the set `db` from `ordinal:word,word`. Words: `pending`, `failed`, `succeeded`, `terminating`, `unready`,
/// `ready=SECONDS` (an hour by default), `old` (of revision `db-old`, otherwise of `db-new`), `broken` (of a
/// third revision), `nameless` (without its name as a label), `mounts=CLAIM`, `name=NAME`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (ordinal, words) = text.split_once(':').unwrap_or((text, ""));
    let name = format!("db-{ordinal}");
    let ready = |seconds| json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {"app": "db", "statefulset.kubernetes.io/pod-name": name, "controller-revision-hash": "db-new"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true}]},
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}]},
        "status": {"phase": "Running", "conditions": ready(3600)},
    });
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "pending" | "failed" | "succeeded" => {
                pod["status"] = json!({"phase": word[..1].to_uppercase() + &word[1..]});
            }
            "phase" => pod["status"]["phase"] = json!(value),
            "unready" => pod["status"]["conditions"] = json!([]),
            "ready" => pod["status"]["conditions"] = ready(value.parse().unwrap()),
            "terminating" => pod["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "old" => pod["metadata"]["labels"]["controller-revision-hash"] = json!("db-old"),
            "broken" => pod["metadata"]["labels"]["controller-revision-hash"] = json!("db-broken"),
            "nameless" => pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(""),
            "mounts" => pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!(value),
            "name" => pod["metadata"]["name"] = json!(value),
            other => panic!("unknown word {other}"),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

/// The set `db` from words: `N` replicas, `parallel`, `ondelete`, `partition=N`, `unavailable=TEXT` (which turns the
/// gate on), `start=N`, `min-ready=SECONDS`, `claims`, `scaled` and `deleted` (what the retention policy deletes),
/// `deleting`, `replace-stuck`, `bare` (a rolling update without parameters, as old servers stored it).
pub(super) fn set(text: &str) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "db", "namespace": "ns", "uid": "uid-db", "resourceVersion": "1", "generation": 3, "annotations": {"note": "kept"}},
        "spec": {"replicas": 3, "serviceName": "svc", "podManagementPolicy": "OrderedReady",
            "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {},
    });
    for word in text.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let (spec, number) = (&mut set["spec"], value.parse::<i32>());
        match word {
            "parallel" => spec["podManagementPolicy"] = json!("Parallel"),
            "ondelete" => spec["updateStrategy"] = json!({"type": "OnDelete"}),
            "bare" => spec["updateStrategy"] = json!({"type": "RollingUpdate"}),
            "partition" => spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(number.unwrap()),
            "unavailable" => {
                let most = number.map_or(json!(value), |number| json!(number));
                spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = most;
            }
            "start" => spec["ordinals"] = json!({"start": number.unwrap()}),
            "min-ready" => spec["minReadySeconds"] = json!(number.unwrap()),
            "claims" => {
                spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data", "labels": {"kind": "data"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
            }
            "scaled" => spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] = json!("Delete"),
            "deleted" => spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] = json!("Delete"),
            "deleting" => set["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "replace-stuck" => {
                set["metadata"]["annotations"] = json!({"flyball.dev/replace-stuck-pods": "true"})
            }
            "currents" => set["status"]["currentReplicas"] = json!(number.unwrap()),
            replicas => spec["replicas"] = json!(replicas.parse::<i32>().expect("a known word")),
        }
    }
    serde_json::from_value(set).unwrap()
}

/// A claim of the set from `ordinal:word,word`. Words: `set`, `pod` (owners), `stale-set`, `stale-pod` (owners
/// with the same name and an earlier uid), `other` (another controller), `loose-set` (an owner that is not the controller),
/// `deleting`.
pub(super) fn claim(text: &str) -> Arc<PersistentVolumeClaim> {
    let (ordinal, words) = text.split_once(':').unwrap_or((text, ""));
    let owner = |api: &str, kind: &str, name: &str, uid: &str, controller: bool| json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": controller, "blockOwnerDeletion": true});
    let pod = format!("db-{ordinal}");
    let mut owners = vec![];
    let mut claim = json!({"metadata": {"name": format!("data-{pod}"), "namespace": "ns", "uid": format!("uid-data-{pod}")}});
    for word in words.split(',').filter(|word| !word.is_empty()) {
        owners.push(match word {
            "set" => owner("apps/v1", "StatefulSet", "db", "uid-db", true),
            "loose-set" => owner("apps/v1", "StatefulSet", "db", "uid-db", false),
            "stale-set" => owner("apps/v1", "StatefulSet", "db", "uid-earlier", true),
            "pod" => owner("v1", "Pod", &pod, &format!("uid-{pod}"), true),
            "stale-pod" => owner("v1", "Pod", &pod, "uid-earlier", true),
            "other" => owner("example.com/v1", "Backup", "b", "uid-b", true),
            "deleting" => {
                claim["metadata"]["deletionTimestamp"] = json!(ago(1));
                continue;
            }
            other => panic!("unknown word {other}"),
        });
    }
    claim["metadata"]["ownerReferences"] = Value::Array(owners);
    Arc::new(serde_json::from_value(claim).unwrap())
}

pub(super) fn claims(text: &str) -> Claims {
    text.split_whitespace().map(claim).map(|claim| (claim.metadata.name.clone(), claim)).collect()
}

static REVISIONS: LazyLock<Revisions> = LazyLock::new(|| {
    let revision = |name: &str| {
        let mut revision = ControllerRevision::default();
        revision.metadata.name = name.into();
        Arc::new(revision)
    };
    Revisions { current: revision("db-old"), update: revision("db-new"), collisions: 0 }
});

pub(super) fn view<'a>(set: &'a StatefulSet, pods: &'a [Arc<Pod>], claims: &'a Claims) -> View<'a> {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    View {
        set,
        pods,
        claims,
        revisions: &REVISIONS,
        obeys_max_unavailable: rolling.is_some_and(|rolling| rolling.max_unavailable.is_some()),
        now: now(),
    }
}

/// The plan for a snapshot, after its invariants were checked.
pub(super) fn checked(set_words: &str, pod_words: &str, claim_words: &str) -> Plan<Option<Why>> {
    let (set, pods, claims) = (set(set_words), pods(pod_words), claims(claim_words));
    let view = view(&set, &pods, &claims);
    let plan = plan(&view).unwrap();
    invariants::check(&view, &plan).unwrap();
    plan
}

/// The plan as text: stages are separated by `;`, and waiting comes after `|`.
pub(super) fn planned(set_words: &str, pod_words: &str, claim_words: &str) -> String {
    let plan = checked(set_words, pod_words, claim_words);
    let stages = plan.effects().iter().map(|stage| words(stage).join(", "));
    let stages = stages.collect::<Vec<_>>().join("; ");
    let waiting = plan.waiting.iter().map(|waiting| {
        let Waiting::Object { object, until } = waiting else { panic!("{waiting}") };
        let until = until.trim_start_matches("to be").trim_start_matches("come").trim();
        format!("| {} {until}", short(&object.name))
    });
    [stages].into_iter().chain(waiting).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// One effect as text.
fn words(effect: &Step) -> Vec<String> {
    match effect {
        Step::Write(write) => vec![write_words(write)],
        Step::Event(event) => vec![format!("warn {}", event.reason)],
        Step::Fail(message) | Step::NotYet(message) | Step::Invalid(message) => {
            vec![format!("fail {message}")]
        }
        Step::Group(group) => group.effects.iter().flat_map(words).collect(),
    }
}

fn write_words(write: &Write<Option<Why>>) -> String {
    let (name, body) = (short(&write.key.name), write.body().unwrap_or_default());
    match (write.verb(), write.tag) {
        (Verb::Delete, Some(why)) => {
            let why = match why {
                Why::Finished => "finished",
                Why::ScaledDown => "scaled",
                Why::Outdated => "old",
                Why::Stuck => "stuck",
            };
            format!("delete {name} {why}")
        }
        (Verb::Create, _) if write.resource.kind == "Pod" => {
            let revision = body["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
            format!("create {name} {}", short(revision))
        }
        (Verb::Update, _) if write.resource.kind == "Pod" => format!("repair {name}"),
        (Verb::Update, _) => {
            let owners = body["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let owners = owners.iter().map(|owner| owner["kind"].as_str().unwrap());
            format!("own {name} by {}", owners.collect::<Vec<_>>().join("+"))
        }
        (verb, _) => format!("{verb} {name}"),
    }
}

/// `db-0` as `0`, and its claim as `data-0`.
fn short(name: &str) -> String {
    name.replace("db-", "")
}
