use std::time::Duration;

use flyball_api::cron::{Schedule, Zone};
use serde_json::json;

use super::world::{at, cron};
use crate::cronjob::missed::{Missed, due, wait};

#[test]
fn the_latest_missed_start_is_due() {
    #[rustfmt::skip]
    let table = [
        // case                    schedule          deadline     last start       now                      due                            missed
        ("none yet",               "*/10 * * * *",   json!(null), json!(null),     "00:09:59",              None,                          Missed::None),
        ("the first",              "*/10 * * * *",   json!(null), json!(null),     "00:10:00",              Some("00:10:00"),              Missed::None),
        ("one of two",             "*/10 * * * *",   json!(null), json!(null),     "00:20:01",              Some("00:20:00"),              Missed::Few),
        ("after a start",          "*/10 * * * *",   json!(null), json!("00:20:00"), "00:29:00",            None,                          Missed::None),
        ("many",                   "* * * * *",      json!(null), json!(null),     "02:00:30",              Some("02:00:00"),              Missed::Many),
        ("a hundred is few",       "* * * * *",      json!(null), json!(null),     "01:40:30",              Some("01:40:00"),              Missed::Few),
        ("a deadline forgets",     "* * * * *",      json!(30),   json!(null),     "02:00:20",              Some("02:00:00"),              Missed::None),
        ("a deadline that is over", "*/10 * * * *",  json!(5),    json!(null),     "00:10:08",              None,                          Missed::None),
        ("irregular",              "30 6-16/4 * * *", json!(null), json!(null),    "2026-01-03T07:00:00Z",  Some("2026-01-03T06:30:00Z"),  Missed::Few),
        ("an interval",            "@every 7m",      json!(null), json!(null),     "00:22:00",              Some("00:21:00"),              Missed::Few),
    ];
    for (case, schedule, deadline, last, now, want, missed) in table {
        let last = last.as_str().map(|last| format!("2026-01-01T{last}Z"));
        let cron = cron(json!({"startingDeadlineSeconds": deadline, "status": {"lastScheduleTime": last}}));
        let schedule = Schedule::parse(schedule, &Zone::UTC).unwrap();
        let due = due(&cron, &schedule, at(now)).unwrap();
        assert_eq!((due.start, due.missed), (want.map(at), missed), "{case}");
    }
}

#[test]
fn a_schedule_that_never_fires_is_an_error() {
    let schedule = Schedule::parse("59 23 31 2 *", &Zone::UTC).unwrap();
    let error = due(&cron(json!({})), &schedule, at("00:10:00")).unwrap_err();
    assert_eq!(error.to_string(), "time difference between two schedules is less than 1 second");
    assert_eq!(wait(&cron(json!({})), &schedule, at("00:10:00")), Duration::ZERO);
}

#[test]
fn the_next_look_is_a_little_after_the_next_start() {
    #[rustfmt::skip]
    let table = [
        // now         milliseconds
        ("00:00:30",      570_100),
        ("00:10:00",      600_100),
        ("00:25:00",      300_100),
    ];
    let schedule = Schedule::parse("*/10 * * * *", &Zone::UTC).unwrap();
    for (now, want) in table {
        let wait = wait(&cron(json!({})), &schedule, at(now));
        assert_eq!(wait, Duration::from_millis(want), "{now}");
    }
}
