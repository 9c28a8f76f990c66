use flyball_api::cron::Zone;
use flyball_runtime::Effect;
use serde_json::json;

use super::world::{at, cron, listed};
use crate::cronjob::invariants::{check_plan, start_of};
use crate::cronjob::plan::{after_start, plan};
use crate::cronjob::template;

/// The plan: `rest`, `wait SECONDS` or `start TIME`, after the names of Jobs that are deleted for it, and the reasons of
/// its events.
fn planned(spec: serde_json::Value, now: &str) -> (String, String) {
    let (cron, now) = (cron(spec), at(now));
    let plan = plan(&cron, now, &Zone::UTC);
    check_plan(&cron, now, &Zone::UTC, &plan).unwrap();
    let replaced =
        plan.writes().into_iter().filter(|write| write.tag.is_none()).map(|write| write.key.name.clone());
    let mut words: Vec<_> = replaced.map(|name| format!("delete {name}")).collect();
    words.push(match (start_of(&plan), plan.requeue) {
        (Some(start), _) => format!("start {}", start.strftime("%H:%M")),
        (None, Some(wait)) => format!("wait {}", wait.as_secs()),
        (None, None) => "rest".to_owned(),
    });
    let reasons = plan.effects().iter().filter_map(|effect| match effect {
        Effect::Event(event) => Some(event.reason.to_string()),
        _ => None,
    });
    (words.join(" "), reasons.collect::<Vec<_>>().join(" "))
}

#[test]
fn a_job_is_started_when_it_is_due_and_nothing_forbids_it() {
    let minute = |text: &str| at(text).as_second() / 60;
    let ten = format!("c-{}", minute("00:10:00"));
    #[rustfmt::skip]
    let table = [
        // case                     spec                                                                        now         decision         events
        ("not yet",                 json!({}),                                                                  "00:09:00", "wait 60",       ""),
        ("due",                     json!({}),                                                                  "00:10:01", "start 00:10",   ""),
        ("made up for",             json!({}),                                                                  "00:35:00", "start 00:30",   ""),
        ("many missed",             json!({"schedule": "* * * * *"}),                                           "05:00:00", "start 05:00",   "TooManyMissedTimes"),
        ("suspended",               json!({"suspend": true}),                                                   "00:10:01", "rest",          ""),
        ("being deleted",           json!({"deleting": true}),                                                  "00:10:01", "rest",          ""),
        ("another may run",         json!({"status": {"active": listed("x")}}),                                 "00:10:01", "start 00:10",   ""),
        ("none may run beside it",  json!({"concurrencyPolicy": "Forbid", "status": {"active": listed("x")}}),  "00:10:01", "wait 599",      "JobAlreadyActive"),
        ("it replaces others",      json!({"concurrencyPolicy": "Replace", "status": {"active": listed("x")}}), "00:10:01", "delete x start 00:10", ""),
        ("it runs already",         json!({"status": {"active": listed(&ten)}}),                                "00:10:01", "wait 599",      ""),
        ("an unknown zone",         json!({"timeZone": "Mars/Olympus"}),                                        "00:10:01", "rest",          "UnknownTimeZone"),
        ("a zone",                  json!({"timeZone": "Asia/Kathmandu", "schedule": "0 6 * * *"}),             "00:15:01", "start 00:15",   ""),
        ("a zone in the schedule",  json!({"schedule": "TZ=Asia/Kathmandu 0 6 * * *"}),                         "00:15:01", "start 00:15",   "UnsupportedSchedule"),
        ("no schedule",             json!({"schedule": "often"}),                                               "00:10:01", "rest",          "UnparseableSchedule"),
        ("never",                   json!({"schedule": "0 0 31 2 *"}),                                          "00:10:01", "rest",          "InvalidSchedule"),
    ];
    for (case, spec, now, want, events) in table {
        assert_eq!(planned(spec, now), (want.to_owned(), events.to_owned()), "{case}");
    }
}

#[test]
fn a_start_beyond_its_deadline_is_only_reported() {
    // The deadline reaches back to just before the start, which is over by less than a second.
    let cron = cron(json!({"startingDeadlineSeconds": 8}));
    let plan = plan(&cron, at("00:10:08"), &Zone::UTC);
    let want = "again after 592.1s\nwaiting for 2026-01-01T00:20:00Z, when the next Job is due";
    assert_eq!(plan.to_string(), want);
}

/// A whole plan as text.
fn described(spec: serde_json::Value, now: &str) -> String {
    plan(&cron(spec), at(now), &Zone::UTC).to_string()
}

#[test]
fn messages_are_those_of_upstream() {
    assert_eq!(
        described(json!({"timeZone": "X/Y"}), "00:10:01"),
        r#"event Warning UnknownTimeZone: invalid timeZone: "X/Y": unknown time zone X/Y"#
    );
    assert_eq!(
        described(json!({"schedule": "60 * * * *"}), "00:10:01"),
        r#"event Warning UnparseableSchedule: unparseable schedule: "60 * * * *" : end of range (60) above maximum (59): 60"#
    );
}

#[test]
fn plans_state_their_events_and_what_they_wait_for() {
    let create = "\
create Job ns/c-29453770: a start is due at 2026-01-01T00:10:00Z
  then event Normal SuccessfulCreate: Created job <name>
  else event Warning FailedCreate: Error creating job: <error>";
    assert_eq!(described(json!({}), "00:10:01"), create);
    let delete = "\
delete Job ns/x: it is replaced by the next start
  then event Normal SuccessfulDelete: Deleted job <name>
  else event Warning FailedDelete: Deleted job: <error>
";
    let replacing = json!({"concurrencyPolicy": "Replace", "status": {"active": listed("x")}});
    assert_eq!(described(replacing, "00:10:01"), format!("{delete}{create}"));
    let forbidden = json!({"concurrencyPolicy": "Forbid", "status": {"active": listed("x")}});
    let want = "\
event Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid
again after 599.1s
waiting for Job/ns/x to finish";
    assert_eq!(described(forbidden, "00:10:01"), want);
    assert_eq!(described(json!({"suspend": true}), "00:10:01"), "waiting for CronJob/ns/c to be resumed");
}

#[test]
fn after_a_start_the_cron_job_waits_for_the_next() {
    let want = "again after 599.1s\nwaiting for 2026-01-01T00:20:00Z, when the next Job is due";
    let started = cron(json!({"status": {"lastScheduleTime": "2026-01-01T00:10:00Z"}}));
    assert_eq!(after_start(&started, at("00:10:01"), &Zone::UTC).to_string(), want);
}

#[test]
fn a_job_is_named_after_its_start() {
    let cron = cron(json!({"timeZone": "Europe/Berlin"}));
    let job = template::job(&cron, at("00:10:00"), &Zone::load("Europe/Berlin", &Zone::UTC).unwrap());
    assert_eq!(job["metadata"]["name"], "c-29453770");
    assert_eq!(job["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"a": "2", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T01:10:00+01:00"})
    );
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(job["spec"], json!({"suspend": true}));
}
