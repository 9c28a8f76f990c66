use serde_json::json;

use super::world::{at, cron, listed};
use crate::cronjob::plan::{Decision, plan};
use crate::cronjob::template;
use crate::cronjob::zone::Zone;

#[test]
fn a_job_is_started_when_it_is_due_and_nothing_forbids_it() {
    let minute = |text: &str| at(text).as_second() / 60;
    let ten = format!("c-{}", minute("00:10:00"));
    #[rustfmt::skip]
    let table = [
        // case                     spec                                                                        now         decision         told
        ("not yet",                 json!({}),                                                                  "00:09:00", "wait 60",       ""),
        ("due",                     json!({}),                                                                  "00:10:01", "start 00:10",   ""),
        ("made up for",             json!({}),                                                                  "00:35:00", "start 00:30",   ""),
        ("many missed",             json!({"schedule": "* * * * *"}),                                           "05:00:00", "start 05:00",   "TooManyMissedTimes"),
        ("suspended",               json!({"suspend": true}),                                                   "00:10:01", "rest",          ""),
        ("being deleted",           json!({"deleting": true}),                                                  "00:10:01", "rest",          ""),
        ("another may run",         json!({"status": {"active": listed("x")}}),                                 "00:10:01", "start 00:10",   ""),
        ("none may run beside it",  json!({"concurrencyPolicy": "Forbid", "status": {"active": listed("x")}}),  "00:10:01", "wait 599",      "JobAlreadyActive"),
        ("it replaces others",      json!({"concurrencyPolicy": "Replace", "status": {"active": listed("x")}}), "00:10:01", "start 00:10",   ""),
        ("it runs already",         json!({"status": {"active": listed(&ten)}}),                                "00:10:01", "wait 599",      ""),
        ("an unknown zone",         json!({"timeZone": "Mars/Olympus"}),                                        "00:10:01", "rest",          "UnknownTimeZone"),
        ("a zone",                  json!({"timeZone": "Asia/Kathmandu", "schedule": "0 6 * * *"}),             "00:15:01", "start 00:15",   ""),
        ("a zone in the schedule",  json!({"schedule": "TZ=Asia/Kathmandu 0 6 * * *"}),                         "00:15:01", "start 00:15",   "UnsupportedSchedule"),
        ("no schedule",             json!({"schedule": "often"}),                                               "00:10:01", "rest",          "UnparseableSchedule"),
        ("never",                   json!({"schedule": "0 0 31 2 *"}),                                          "00:10:01", "rest",          "InvalidSchedule"),
    ];
    for (case, spec, now, want, told) in table {
        let (decision, notices) = plan(&cron(spec), at(now), &Zone::UTC);
        let decision = match decision {
            Decision::Rest => "rest".to_owned(),
            Decision::Wait(wait) => format!("wait {}", wait.as_secs()),
            Decision::Start(start) => format!("start {}", start.strftime("%H:%M")),
        };
        let reasons: Vec<_> = notices.iter().map(|notice| notice.reason).collect();
        assert_eq!((decision.as_str(), reasons.join(" ").as_str()), (want, told), "{case}");
    }
}

#[test]
fn a_start_beyond_its_deadline_is_only_told() {
    // The deadline reaches back to just before the start, which is over by less than a second.
    let cron = cron(json!({"startingDeadlineSeconds": 8}));
    let (decision, notices) = plan(&cron, at("00:10:08"), &Zone::UTC);
    assert_eq!(decision, Decision::Wait(std::time::Duration::from_millis(592_100)));
    assert_eq!(notices, []);
}

#[test]
fn texts_are_upstreams() {
    let told = |spec| plan(&cron(spec), at("00:10:01"), &Zone::UTC).1.remove(0).message;
    assert_eq!(told(json!({"timeZone": "X/Y"})), r#"invalid timeZone: "X/Y": unknown time zone X/Y"#);
    assert_eq!(
        told(json!({"schedule": "60 * * * *"})),
        r#"unparseable schedule: "60 * * * *" : end of range (60) above maximum (59): 60"#
    );
}

#[test]
fn a_job_is_named_after_its_start() {
    let cron = cron(json!({"timeZone": "Europe/Berlin"}));
    let job = template::job(&cron, at("00:10:00"), &Zone::UTC).unwrap();
    assert_eq!(job["metadata"]["name"], "c-29453770");
    assert_eq!(job["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"a": "2", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T01:10:00+01:00"})
    );
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(job["spec"], json!({"suspend": true}));
}
