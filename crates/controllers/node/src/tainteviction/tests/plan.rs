use std::time::Duration;

use flyball_api::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use super::super::plan::{Stay, Verdict, decide, is_done, marking, stay};
use super::{pod, taints, tolerations};

#[test]
fn a_pod_stays_as_long_as_it_bears_every_taint() {
    let seconds = |n| Stay::For(Duration::from_secs(n));
    #[rustfmt::skip]
    let table = [
        // case                                       taints              tolerations        stays
        ("no taint",                                  "",                 "",                Stay::Untainted),
        ("other effects do not evict",                "a:NoSchedule",     "",                Stay::Untainted),
        ("not tolerated",                             "a",                "",                Stay::Refused),
        ("another one tolerated",                     "a",                "b",               Stay::Refused),
        ("the wrong effect tolerated",                "a",                "a:NoSchedule",    Stay::Refused),
        ("the wrong value tolerated",                 "a=x",              "a=y",             Stay::Refused),
        ("tolerated for ever",                        "a",                "a",               Stay::Forever),
        ("everything tolerated for ever",             "a b",              "*",               Stay::Forever),
        ("tolerated for a while",                     "a",                "a@30",            seconds(30)),
        ("one of two not tolerated",                  "a b",              "a@30",            Stay::Refused),
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
    assert_eq!(stay(&taints("load=3"), &own, true), Stay::Forever);
    assert_eq!(stay(&taints("load=7"), &own, true), Stay::Refused);
    assert_eq!(stay(&taints("load=3"), &own, false), Stay::Refused);
}

#[test]
fn a_booked_eviction_stands_until_the_taints_go_or_are_borne_for_ever() {
    let now = Instant::now() + Duration::from_secs(1000);
    let at = |seconds: u64| now + Duration::from_secs(seconds);
    let past = now - Duration::from_secs(1);
    let limit = |seconds| Some(Stay::For(Duration::from_secs(seconds)));
    #[rustfmt::skip]
    let table = [
        // case                                       stay                     booked          verdict
        ("nothing to do",                             Some(Stay::Untainted),   None,           Verdict::Leave),
        ("borne for ever",                            Some(Stay::Forever),     None,           Verdict::Leave),
        ("node not known",                            None,                    None,           Verdict::Leave),
        ("not borne",                                 Some(Stay::Refused),     None,           Verdict::EvictNow),
        ("not borne any more",                        Some(Stay::Refused),     Some(at(60)),   Verdict::EvictNow),
        ("borne for a while",                         limit(30),               None,           Verdict::EvictAt(at(30))),
        ("borne for no time",                         limit(0),                None,           Verdict::EvictNow),
        ("longer than any clock runs",                limit(u64::MAX),         None,           Verdict::Leave),
        ("time is running",                           limit(30),               Some(at(10)),   Verdict::EvictAt(at(10))),
        ("a shorter limit changes nothing",           limit(1),                Some(at(10)),   Verdict::EvictAt(at(10))),
        ("time is up",                                limit(30),               Some(past),     Verdict::EvictNow),
        ("time is up exactly now",                    limit(30),               Some(now),      Verdict::EvictNow),
        ("the taint is gone",                         Some(Stay::Untainted),   Some(at(10)),   Verdict::CallOff),
        ("the taint is gone just in time",            Some(Stay::Untainted),   Some(past),     Verdict::CallOff),
        ("borne for ever by now",                     Some(Stay::Forever),     Some(at(10)),   Verdict::CallOff),
        ("the node is gone, the time runs on",        None,                    Some(at(10)),   Verdict::EvictAt(at(10))),
        ("the node is gone, and time is up",          None,                    Some(past),     Verdict::EvictNow),
    ];
    for (case, stay, booked, want) in table {
        assert_eq!(decide(stay, booked, now), want, "{case}");
    }
}

#[test]
fn a_pod_is_told_why_it_goes_once() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let said = |reason: &str, status: &str| {
        json!({"status": {"conditions": [{
            "type": "DisruptionTarget", "status": status, "reason": reason,
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }]}})
    };
    let patch = marking(&pod(json!({})), now).unwrap();
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
    assert_eq!(marking(&pod(said("DeletionByTaintManager", "True")), now), None);
    let since =
        |more| marking(&pod(more), now).unwrap()["status"]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(since(said("PreemptionByScheduler", "True")), "2025-01-01T00:00:00Z", "it holds since then");
    assert_eq!(since(said("DeletionByTaintManager", "False")), "2026-01-02T03:04:05Z", "it did not hold");

    let mut going = said("DeletionByTaintManager", "True");
    assert!(!is_done(&pod(going.clone())), "it says why, and does not go");
    going["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
    assert!(is_done(&pod(going)));
    assert!(
        !is_done(&pod(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}))),
        "it does not say why"
    );
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
    fn a_pod_that_tolerates_for_ever_is_never_deleted(node in any_taints(), booked in proptest::option::of(0u64..100)) {
        let now = Instant::now() + Duration::from_secs(50);
        let booked = booked.map(|seconds| now - Duration::from_secs(50) + Duration::from_secs(seconds));
        let verdict = decide(Some(stay(&taints(&node), &tolerations("*"), false)), booked, now);
        prop_assert!(matches!(verdict, Verdict::Leave | Verdict::CallOff), "{verdict:?}");
    }

    #[test]
    fn a_pod_without_taints_to_bear_is_never_deleted(own in any_tolerations(), booked in proptest::option::of(0u64..100)) {
        let now = Instant::now() + Duration::from_secs(50);
        let booked = booked.map(|seconds| now + Duration::from_secs(seconds));
        let verdict = decide(Some(stay(&taints("a:NoSchedule"), &tolerations(&own), false)), booked, now);
        prop_assert!(matches!(verdict, Verdict::Leave | Verdict::CallOff), "{verdict:?}");
    }

    #[test]
    fn further_taints_never_lengthen_a_stay(node in any_taints(), more in any_taints(), own in any_tolerations()) {
        let rank = |text: &str| match stay(&taints(text), &tolerations(&own), false) {
            Stay::Refused => Duration::ZERO,
            Stay::For(limit) => limit,
            Stay::Untainted | Stay::Forever => Duration::MAX,
        };
        let all = format!("{node} {more}");
        prop_assert!(rank(&all) <= rank(&node));
    }

    #[test]
    fn looking_again_before_the_time_changes_nothing(node in any_taints(), own in any_tolerations(), later in 0u64..100) {
        let now = Instant::now();
        let stay = Some(stay(&taints(&node), &tolerations(&own), false));
        if let Verdict::EvictAt(due) = decide(stay, None, now) {
            let then = now + Duration::from_secs(later);
            let want = if then >= due { Verdict::EvictNow } else { Verdict::EvictAt(due) };
            prop_assert_eq!(decide(stay, Some(due), then), want);
        }
    }
}
