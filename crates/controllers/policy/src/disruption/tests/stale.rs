use std::time::Duration;

use flyball_api::pod::Pod;
use serde_json::{Value, json};

use super::{at, time};
use crate::disruption::stale::{Verdict, clear, verdict};

fn whole(target: Value, extra: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "generation": 4, "managedFields": [{}], "annotations": {"kept": "yes"}},
        "status": {"phase": "Running", "hostIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}, target]},
    });
    for (pointer, value) in extra.as_object().unwrap() {
        pod[pointer.split_once('.').unwrap().0][pointer.split_once('.').unwrap().1] = value.clone();
    }
    pod
}

fn target(status: &str, reason: &str) -> Value {
    json!({"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": time(0)})
}

#[test]
fn a_living_pod_is_no_target_for_longer_than_two_minutes() {
    let wait = |seconds| Verdict::Wait(Duration::from_secs(seconds));
    let none = || json!({});
    #[rustfmt::skip]
    let table = [
        // case                    condition                                     pod                                  now  verdict
        ("not long enough",        target("True", "EvictionByEvictionAPI"),      none(),                               30, wait(90)),
        ("long enough",            target("True", "EvictionByEvictionAPI"),      none(),                              120, Verdict::Clear),
        ("clocks differ",          target("True", "PreemptionByScheduler"),      none(),                              -10, wait(130)),
        ("taken back already",     target("False", ""),                          none(),                              999, Verdict::Leave),
        ("the kubelet takes time", target("True", "TerminationByKubelet"),       none(),                              999, Verdict::Leave),
        ("it is going",            target("True", "EvictionByEvictionAPI"),      json!({"metadata.deletionTimestamp": time(0)}), 999, Verdict::Leave),
        ("it has ended",           target("True", "EvictionByEvictionAPI"),      json!({"status.phase": "Failed"}),   999, Verdict::Leave),
        ("no condition",           json!({"type": "Other", "status": "True"}),   none(),                              999, Verdict::Leave),
    ];
    for (case, condition, extra, now, want) in table {
        let pod: Pod = serde_json::from_value(whole(condition, extra)).unwrap();
        assert_eq!(verdict(&pod, at(now)), want, "{case}");
    }
}

#[test]
fn only_the_condition_is_changed() {
    let mut pod = whole(target("True", "EvictionByEvictionAPI"), json!({}));
    assert!(clear(&mut pod, at(200)));
    let mut want = whole(Value::Null, json!({}));
    want["metadata"].as_object_mut().unwrap().remove("managedFields");
    want["status"]["conditions"][1] = json!({
        "type": "DisruptionTarget", "status": "False", "observedGeneration": 4, "lastProbeTime": null,
        "lastTransitionTime": time(200),
    });
    assert_eq!(pod, want);
    assert!(!clear(&mut pod, at(300)), "once is enough");
    assert!(!clear(&mut json!({"metadata": {}}), at(0)), "without conditions there is nothing to take back");
}
