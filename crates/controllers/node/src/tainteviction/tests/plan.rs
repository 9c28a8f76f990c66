use std::time::Duration;

use flyball_api::{Key, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use super::super::invariants::check;
use super::super::plan::{Due, TolerationLimit, View, due, is_done, marking, plan, stay};
use super::super::schedule::{Cause, Eviction, Stage};
use super::{pod, taints, tolerations};

#[test]
fn a_pod_stays_as_long_as_it_tolerates_every_taint() {
    let seconds = |n| TolerationLimit::For(Duration::from_secs(n));
    #[rustfmt::skip]
    let table = [
        // case                                       taints              tolerations        stays
        ("no taint",                                  "",                 "",                TolerationLimit::Untainted),
        ("other effects do not evict",                "a:NoSchedule",     "",                TolerationLimit::Untainted),
        ("not tolerated",                             "a",                "",                TolerationLimit::Refused),
        ("another one tolerated",                     "a",                "b",               TolerationLimit::Refused),
        ("the wrong effect tolerated",                "a",                "a:NoSchedule",    TolerationLimit::Refused),
        ("the wrong value tolerated",                 "a=x",              "a=y",             TolerationLimit::Refused),
        ("tolerated for ever",                        "a",                "a",               TolerationLimit::Forever),
        ("everything tolerated for ever",             "a b",              "*",               TolerationLimit::Forever),
        ("tolerated for a while",                     "a",                "a@30",            seconds(30)),
        ("one of two not tolerated",                  "a b",              "a@30",            TolerationLimit::Refused),
        ("the shortest counts",                       "a b",              "a@30 b@5",        seconds(5)),
        ("for ever does not lengthen a while",        "a b",              "a b@5",           seconds(5)),
        ("of two tolerations the first counts",       "a",                "a@30 *@5",        seconds(30)),
        ("no time",                                   "a",                "a@0",             seconds(0)),
        ("less than no time",                         "a",                "a@-7",            seconds(0)),
        ("tolerations without a taint do not count",  "a",                "a@30 b@5",        seconds(30)),
    ];
    for (case, node, own, want) in table {
        assert_eq!(stay(&taints(node), &tolerations(own), false), want, "{case}");
    }
}

#[test]
fn numbers_are_compared_only_behind_their_gate() {
    let mut own = tolerations("load=5");
    own[0].operator = "Lt".into();
    assert_eq!(stay(&taints("load=3"), &own, true), TolerationLimit::Forever);
    assert_eq!(stay(&taints("load=7"), &own, true), TolerationLimit::Refused);
    assert_eq!(stay(&taints("load=3"), &own, false), TolerationLimit::Refused);
}

#[test]
fn a_scheduled_eviction_stands_until_the_taints_are_removed_or_tolerated_for_ever() {
    let now = Instant::now() + Duration::from_secs(1000);
    let at = |seconds: u64| now + Duration::from_secs(seconds);
    let past = now - Duration::from_secs(1);
    let limit = |seconds| Some(TolerationLimit::For(Duration::from_secs(seconds)));
    #[rustfmt::skip]
    let table = [
        // case                                       stay                     scheduled       due
        ("nothing to do",                             Some(TolerationLimit::Untainted),   None,           Due::Never),
        ("tolerated for ever",                        Some(TolerationLimit::Forever),     None,           Due::Never),
        ("node not cached",                            None,                    None,           Due::Never),
        ("not tolerated",                             Some(TolerationLimit::Refused),     None,           Due::Now),
        ("not tolerated any more",                    Some(TolerationLimit::Refused),     Some(at(60)),   Due::Now),
        ("tolerated for a while",                     limit(30),               None,           Due::At(at(30))),
        ("tolerated for no time",                     limit(0),                None,           Due::Now),
        ("longer than the clock's range",             limit(u64::MAX),         None,           Due::Never),
        ("time is running",                           limit(30),               Some(at(10)),   Due::At(at(10))),
        ("a shorter limit changes nothing",           limit(1),                Some(at(10)),   Due::At(at(10))),
        ("time is up",                                limit(30),               Some(past),     Due::Now),
        ("time is up exactly now",                    limit(30),               Some(now),      Due::Now),
        ("the taint is gone",                         Some(TolerationLimit::Untainted),   Some(at(10)),   Due::Cancelled),
        ("the taint is gone just in time",            Some(TolerationLimit::Untainted),   Some(past),     Due::Cancelled),
        ("tolerated for ever by now",                 Some(TolerationLimit::Forever),     Some(at(10)),   Due::Cancelled),
        ("the node is gone, the time runs on",        None,                    Some(at(10)),   Due::At(at(10))),
        ("the node is gone, and time is up",          None,                    Some(past),     Due::Now),
    ];
    for (case, stay, scheduled, want) in table {
        assert_eq!(due(stay, scheduled, now), want, "{case}");
    }
}

#[test]
fn a_pod_gets_the_disruption_condition_once() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let with_condition = |reason: &str, status: &str| {
        json!({"status": {"conditions": [{
            "type": "DisruptionTarget", "status": status, "reason": reason,
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }]}})
    };
    let patch = marking(&pod(json!({})), true, now).unwrap();
    assert_eq!(
        patch,
        json!({
            "metadata": {"uid": "uid-1"},
            "status": {"conditions": [{
                "type": "DisruptionTarget", "status": "True", "observedGeneration": 3,
                "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }]},
        })
    );
    assert_eq!(marking(&pod(with_condition("DeletionByTaintManager", "True")), true, now), None);
    let since = |more| {
        marking(&pod(more), true, now).unwrap()["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    assert_eq!(
        since(with_condition("PreemptionByScheduler", "True")),
        "2025-01-01T00:00:00Z",
        "it is true since then"
    );
    assert_eq!(
        since(with_condition("DeletionByTaintManager", "False")),
        "2026-01-02T03:04:05Z",
        "it was false before"
    );

    let mut deleting = with_condition("DeletionByTaintManager", "True");
    assert!(!is_done(&pod(deleting.clone())), "it has the condition, and is not being deleted");
    deleting["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
    assert!(is_done(&pod(deleting)));
    assert!(
        !is_done(&pod(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}))),
        "it has no condition"
    );
}

#[test]
fn a_pod_is_evicted_with_events_a_condition_and_a_deletion() {
    let key = Key::new("ns", "p");
    let now = Instant::now() + Duration::from_secs(1000);
    let scheduled = |uid: &str, seconds: i64, is_announced: bool| {
        let due = match u64::try_from(seconds) {
            Ok(ahead) => now + Duration::from_secs(ahead),
            Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
        };
        let stage = if is_announced { Stage::Announced } else { Stage::Scheduled };
        Some(Eviction { uid: uid.into(), due, stage })
    };
    let marked = json!({"status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }]}});
    let mut deleting = marked.clone();
    deleting["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
    let tolerant =
        json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 60}]}});

    let mut tolerant_deleting = tolerant.clone();
    tolerant_deleting["metadata"] = deleting["metadata"].clone();

    let done = |for_taints: &str| {
        let stage = Stage::Done(Cause::of(&pod(json!({})), Some(&taints(for_taints))));
        Some(Eviction { uid: "uid-1".into(), due: now - Duration::from_secs(3), stage })
    };

    let cancel = "event Normal TaintManagerEviction: Cancelling deletion of Pod ns/p";
    let mark = "event Normal TaintManagerEviction: Marking for deletion Pod ns/p";
    let steps = |why: &str| format!("in sequence\n  patch Pod/status ns/p: {why}\n  delete Pod ns/p: {why}");
    let refused = steps("its node has a NoExecute taint that it does not tolerate");
    let late = steps("its node has a NoExecute taint that it does not tolerate any longer");
    let delete = "in sequence\n  delete Pod ns/p: its node has a NoExecute taint that it does not tolerate";
    let wait = |seconds: u64, time: &str| {
        format!("again after {seconds}s\nwaiting for {time}, when it is evicted because of a taint")
    };
    #[rustfmt::skip]
    let table = [
        // case                                   pod               taints      scheduled                      plan                             afterwards
        ("no taint",                              Some(json!({})),  Some(""),   None,                          String::new(),                   "-"),
        ("not tolerated",                         Some(json!({})),  Some("a"),  None,                          format!("{mark}\n{refused}"),    "announced"),
        ("marked before",                         Some(marked),     Some("a"),  None,                          format!("{mark}\n{delete}"),     "announced"),
        ("deleted already",                       Some(deleting.clone()), Some("a"), scheduled("uid-1", 0, true), String::new(),             "done"),
        ("nothing has changed since its deletion", Some(deleting.clone()), Some("a b:NoSchedule"), done("a"),  String::new(),                   "done"),
        ("not gone when taints change",           Some(deleting.clone()), Some("b"), done("a"),                format!("{mark}\n{delete}"),     "announced"),
        ("not gone when taints are tolerated for a while", Some(tolerant_deleting), Some("a"), done("b"),     String::new(),                   "done"),
        ("a restore has undone its deletion",     Some(json!({})),  Some("a"),  done("a"),                     format!("{mark}\n{refused}"),    "announced"),
        ("undone, and tolerated for a while now", Some(tolerant.clone()), Some("a"), done("b"),               wait(60, "2026-01-02T03:05:05Z"), "scheduled"),
        ("undone, and the taint is gone",         Some(json!({})),  Some(""),   done("a"),                     String::new(),                   "-"),
        ("not gone when a manager is started",    Some(deleting.clone()), Some("a"), None,                     format!("{mark}\n{delete}"),     "announced"),
        ("not gone when the taint is removed",    Some(deleting),   Some(""),   done("a"),                     String::new(),                   "-"),
        ("the deletion has failed",               Some(json!({})),  Some("a"),  scheduled("uid-1", 0, true),   refused.clone(),                 "announced"),
        ("tolerated for a while",                 Some(tolerant.clone()), Some("a"), None,                     wait(60, "2026-01-02T03:05:05Z"), "scheduled"),
        ("time is running",                       Some(tolerant.clone()), Some("a"), scheduled("uid-1", 7, false), wait(7, "2026-01-02T03:04:12Z"), "scheduled"),
        ("time is up",                            Some(tolerant),   Some("a"),  scheduled("uid-1", -3, false), format!("{mark}\n{late}"),       "announced"),
        ("a further taint is not tolerated",      Some(json!({})),  Some("a"),  scheduled("uid-1", 7, false),  format!("{cancel}\n{mark}\n{refused}"), "announced"),
        ("the taint is removed",                  Some(json!({})),  Some(""),   scheduled("uid-1", 7, false),  cancel.to_owned(),               "-"),
        ("the taint is removed, too late",        Some(json!({})),  Some(""),   scheduled("uid-1", 0, true),   String::new(),                   "-"),
        ("the pod is gone",                       None,             None,       scheduled("uid-1", 7, false),  cancel.to_owned(),               "-"),
        ("another pod has its name",              Some(json!({})),  Some("a"),  scheduled("other", 7, false),  format!("{cancel}\n{mark}\n{refused}"), "announced"),
        ("the node is gone, time is up",          Some(json!({})),  None,       scheduled("uid-1", -3, false), format!("{mark}\n{late}"),       "announced"),
    ];
    for (case, more, node, before, want, want_after) in table {
        let (pod, taints) = (more.map(pod), node.map(taints));
        let view = View {
            key: &key,
            pod: pod.as_ref(),
            taints: taints.as_deref(),
            scheduled: before.as_ref(),
            compares_numbers: false,
            tracks_generation: true,
            respects_budgets: false,
            now,
            wall: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        let (after, plan) = plan(&view);
        assert_eq!(plan.to_string(), want, "{case}");
        assert_eq!(check(&view, after.as_ref(), &plan), Ok(()), "{case}");
        let after = after.map_or("-", |eviction| match eviction.stage {
            Stage::Scheduled => "scheduled",
            Stage::Announced => "announced",
            Stage::Done(_) => "done",
        });
        assert_eq!(after, want_after, "{case}");
    }
}

#[test]
fn budgets_have_a_say_about_pods_that_serve() {
    let key = Key::new("ns", "p");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let mut leaving = ready.clone();
    leaving["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
    #[rustfmt::skip]
    let table = [
        // case                           pod        respected   how
        ("it serves",                     &ready,    true,       "create Pod/eviction ns/p: "),
        ("it does not serve",             &unready,  true,       "delete Pod ns/p: "),
        ("it is being deleted",           &leaving,  true,       "delete Pod ns/p: "),
        ("budgets are not respected",     &ready,    false,      "delete Pod ns/p: "),
    ];
    for (case, more, respects_budgets, how) in table {
        let pod = pod(more.clone());
        let (after, plan) = plan(&View {
            key: &key,
            pod: Some(&pod),
            taints: Some(&taints("a")),
            scheduled: None,
            compares_numbers: false,
            tracks_generation: true,
            respects_budgets,
            now: Instant::now(),
            wall: "2026-01-02T03:04:05Z".parse().unwrap(),
        });
        let text = plan.to_string();
        assert!(text.contains(how), "{case}: {text}");
        let evicts = how.starts_with("create");
        assert_eq!(text.contains("as soon as its disruption budget allows it"), evicts, "{case}: {text}");
        assert_eq!(
            text.contains("patch Pod/status"),
            !evicts,
            "{case}: the API server marks what it evicts: {text}"
        );
        assert!(after.is_some_and(|eviction| eviction.is_announced()), "{case}");
    }
}

#[test]
fn the_invariants_tell_right_plans_from_wrong_ones() {
    let (key, now) = (Key::new("ns", "p"), Instant::now() + Duration::from_secs(1000));
    let view = View {
        key: &key,
        pod: None,
        taints: None,
        scheduled: None,
        compares_numbers: false,
        tracks_generation: true,
        respects_budgets: false,
        now,
        wall: "2026-01-02T03:04:05Z".parse().unwrap(),
    };
    let (app, other) = (pod(json!({})), pod(json!({"metadata": {"uid": "uid-2"}})));
    let tolerant = pod(json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}));
    let ready = pod(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    let (a, none) = (taints("a"), taints("a:NoSchedule"));
    let tainted = View { pod: Some(&app), taints: Some(&a), ..view };
    let later = Eviction { uid: "uid-1".into(), due: now + Duration::from_secs(7), stage: Stage::Scheduled };
    let (done, _) = plan(&tainted);
    let done = done.as_ref();
    #[rustfmt::skip]
    let table = [
        // case                            view                                                   afterwards     broken
        ("right",                          View { ..tainted },                                    done,          ""),
        ("the pod is gone",                View { pod: None, ..tainted },                         done,          "only a pod that exists"),
        ("another pod of its name",        View { pod: Some(&other), ..tainted },                 done,          "by its uid"),
        ("no taint that evicts",           View { taints: Some(&none), ..tainted },               done,          "no NoExecute taint"),
        ("tolerated",                      View { pod: Some(&tolerant), ..tainted },              done,          "tolerates all taints"),
        ("the budget was not asked",       View { pod: Some(&ready), respects_budgets: true, ..tainted }, done,  "disruption budget"),
        ("the node is gone",               View { taints: None, ..tainted },                      done,          "its time is up"),
        ("the node is gone, time is left", View { taints: None, scheduled: Some(&later), ..tainted }, done,      "its time is up"),
        ("it is to be evicted later",      View { ..tainted },                                    Some(&later),  "is not evicted now"),
    ];
    for (case, view, after, want) in table {
        let broken = check(&view, after, &plan(&tainted).1).err().unwrap_or_default();
        assert!(broken.contains(want) && broken.is_empty() == want.is_empty(), "{case}: {broken}");
    }
}

/// Tolerations of the keys a, b and c, some with a limit.
fn any_tolerations() -> impl Strategy<Value = String> {
    let one = ("[abc*]", proptest::option::of(-5i64..100))
        .prop_map(|(key, limit)| limit.map_or(key.clone(), |seconds| format!("{key}@{seconds}")));
    proptest::collection::vec(one, 0..4).prop_map(|all| all.join(" "))
}

fn any_taints() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abc](:NoSchedule)?", 0..4).prop_map(|all| all.join(" "))
}

proptest! {
    #[test]
    fn a_pod_that_tolerates_for_ever_is_never_deleted(node in any_taints(), scheduled in proptest::option::of(0u64..100)) {
        let now = Instant::now() + Duration::from_secs(50);
        let scheduled = scheduled.map(|seconds| now - Duration::from_secs(50) + Duration::from_secs(seconds));
        let when = due(Some(stay(&taints(&node), &tolerations("*"), false)), scheduled, now);
        prop_assert!(matches!(when, Due::Never | Due::Cancelled), "{when:?}");
    }

    #[test]
    fn a_pod_without_no_execute_taints_is_never_deleted(own in any_tolerations(), scheduled in proptest::option::of(0u64..100)) {
        let now = Instant::now() + Duration::from_secs(50);
        let scheduled = scheduled.map(|seconds| now + Duration::from_secs(seconds));
        let when = due(Some(stay(&taints("a:NoSchedule"), &tolerations(&own), false)), scheduled, now);
        prop_assert!(matches!(when, Due::Never | Due::Cancelled), "{when:?}");
    }

    #[test]
    fn further_taints_never_lengthen_a_stay(node in any_taints(), more in any_taints(), own in any_tolerations()) {
        let rank = |text: &str| match stay(&taints(text), &tolerations(&own), false) {
            TolerationLimit::Refused => Duration::ZERO,
            TolerationLimit::For(limit) => limit,
            TolerationLimit::Untainted | TolerationLimit::Forever => Duration::MAX,
        };
        let all = format!("{node} {more}");
        prop_assert!(rank(&all) <= rank(&node));
    }

    #[test]
    fn another_sync_before_the_time_changes_nothing(node in any_taints(), own in any_tolerations(), later in 0u64..100) {
        let now = Instant::now();
        let stay = Some(stay(&taints(&node), &tolerations(&own), false));
        if let Due::At(time) = due(stay, None, now) {
            let then = now + Duration::from_secs(later);
            let want = if then >= time { Due::Now } else { Due::At(time) };
            prop_assert_eq!(due(stay, Some(time), then), want);
        }
    }
}
