use flyball_api::pod::Pod;
use serde_json::{Value, json};

use super::{at, budget, time};
use crate::disruption::stale::{View, cleared, plan};

fn whole(target: Value, extra: Value) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "generation": 4, "managedFields": [{}], "annotations": {"kept": "yes"}},
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

/// The plan for a pod, with the whole pod as the server has it.
fn planned(cached: &Value, whole: Option<&Value>, now: i64) -> String {
    let pod: Pod = serde_json::from_value(cached.clone()).unwrap();
    plan(&View { pod: &pod, budgets: &[], whole, tracks_generation: true, now: at(now) }).to_string()
}

#[test]
fn a_running_pod_has_the_condition_for_two_minutes_at_most() {
    let wait = |seconds: u8| {
        format!(
            "again after {seconds}s\nwaiting for 2026-01-01T00:02:00Z, when the condition DisruptionTarget is stale"
        )
    };
    let clear = "update Pod/status ns/p: it was about to be disrupted two minutes ago, and is still running"
        .to_owned();
    let (none, nothing) = (|| json!({}), String::new);
    let deleting = json!({"metadata.deletionTimestamp": time(0)});
    #[rustfmt::skip]
    let table = [
        // case                             condition                                    pod                                 now  plan
        ("not long enough",                 target("True", "EvictionByEvictionAPI"),     none(),                              30, wait(90)),
        ("long enough",                     target("True", "EvictionByEvictionAPI"),     none(),                             120, clear),
        ("clocks differ",                   target("True", "PreemptionByScheduler"),     none(),                             -10, wait(130)),
        ("false already",                   target("False", ""),                         none(),                             999, nothing()),
        ("the kubelet may take longer",     target("True", "TerminationByKubelet"),      none(),                             999, nothing()),
        ("being deleted",                   target("True", "EvictionByEvictionAPI"),     deleting,                           999, nothing()),
        ("finished",                        target("True", "EvictionByEvictionAPI"),     json!({"status.phase": "Failed"}),  999, nothing()),
        ("no condition",                    json!({"type": "Other", "status": "True"}),  none(),                             999, nothing()),
    ];
    for (case, condition, extra, now, want) in table {
        let pod = whole(condition, extra);
        assert_eq!(planned(&pod, Some(&pod), now), want, "{case}");
    }
}

#[test]
fn the_condition_is_not_changed_if_the_server_has_another_pod() {
    let pod = whole(target("True", "EvictionByEvictionAPI"), json!({}));
    #[rustfmt::skip]
    let table = [
        ("gone",                  None),
        ("condition removed",     Some(whole(target("False", ""), json!({})))),
        ("replaced",              Some(whole(target("True", "EvictionByEvictionAPI"), json!({"metadata.uid": "other"})))),
        ("being deleted",         Some(whole(target("True", "EvictionByEvictionAPI"), json!({"metadata.deletionTimestamp": time(0)})))),
    ];
    for (case, server) in table {
        assert_eq!(planned(&pod, server.as_ref(), 200), "", "{case}");
    }
}

#[test]
fn a_pod_in_several_budgets_is_reported() {
    let pod: Pod = serde_json::from_value(whole(json!({"type": "Other"}), json!({}))).unwrap();
    let budgets: Vec<_> = std::iter::repeat_with(|| budget(json!({}), json!({})).into()).take(2).collect();
    let planned = |count: usize| {
        plan(&View {
            pod: &pod,
            budgets: &budgets[..count],
            whole: None,
            tracks_generation: true,
            now: at(0),
        })
        .to_string()
    };
    let want = "event Warning MultiplePodDisruptionBudgets: Pod \"ns\"/\"p\" matches multiple PodDisruptionBudgets.  \
                Chose \"budget\" arbitrarily.";
    assert_eq!((planned(1).as_str(), planned(2).as_str()), ("", want));
}

#[test]
fn only_the_condition_is_changed() {
    let before = whole(target("True", "EvictionByEvictionAPI"), json!({}));
    let after = cleared(&before, true, at(200)).unwrap();
    let mut want = whole(Value::Null, json!({}));
    want["metadata"].as_object_mut().unwrap().remove("managedFields");
    want["status"]["conditions"][1] = json!({
        "type": "DisruptionTarget", "status": "False", "observedGeneration": 4, "lastProbeTime": null,
        "lastTransitionTime": time(200),
    });
    assert_eq!(after, want);
    assert_eq!(cleared(&after, true, at(300)), None, "it is false already");
    assert_eq!(cleared(&json!({"metadata": {}}), true, at(0)), None, "no conditions");
}
