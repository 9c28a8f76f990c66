use flyball_api::{Job, Timestamp};
use serde_json::json;

use super::plan::{Decision, plan};

#[test]
fn a_job_goes_when_its_time_is_up() {
    let at = |seconds: i64| Timestamp::from_second(1_767_225_600 + seconds).unwrap();
    let wait = |seconds| Decision::Wait(std::time::Duration::from_secs(seconds));
    #[rustfmt::skip]
    let table = [
        // case             ttl           condition    now   decision
        ("at work",         json!(10),    "Suspended", 100,  Decision::Leave),
        ("kept",            json!(null),  "Complete",  100,  Decision::Leave),
        ("not yet",         json!(10),    "Complete",    4,  wait(6)),
        ("now",             json!(10),    "Failed",     10,  Decision::Delete(at(10))),
        ("at once",         json!(0),     "Complete",    0,  Decision::Delete(at(0))),
        ("clocks differ",   json!(10),    "Complete",   -5,  wait(15)),
    ];
    for (case, ttl, condition, now, want) in table {
        let job: Job = serde_json::from_value(json!({
            "spec": {"ttlSecondsAfterFinished": ttl},
            "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        assert_eq!(plan(&job, at(now)), want, "{case}");
    }
}

#[test]
fn one_that_goes_already_or_ended_at_no_known_time_is_left_alone() {
    let job = |meta, time| -> Job {
        serde_json::from_value(json!({
            "metadata": meta,
            "spec": {"ttlSecondsAfterFinished": 0},
            "status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": time}]},
        }))
        .unwrap()
    };
    let (now, deleting) = (Timestamp::now(), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(plan(&job(deleting, json!("2026-01-01T00:00:00Z")), now), Decision::Leave);
    assert_eq!(plan(&job(json!({}), json!(null)), now), Decision::Unknown);
}
