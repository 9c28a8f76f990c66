use std::time::Duration;

use flyball_client::Verb;
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Next, Outcome, Plan, Retry};
use serde_json::json;

use super::world::{at, cron, jobs, listed};
use crate::cronjob::active::{Need, review};
use crate::cronjob::history::{self, clean_up, cleaned_up, surplus};

#[test]
fn the_list_follows_the_existing_jobs() {
    #[rustfmt::skip]
    let table = [
        // case                       listed   jobs                                 list   events             unlisted  missing
        ("at work",                   "a",     "a",                                 "a",   "",                "",       ""),
        ("ended",                     "a b",   "a:complete b",                      "b",   "SawCompletedJob", "",       ""),
        ("ended badly",               "a",     "a:failed",                          "",    "SawCompletedJob", "",       ""),
        ("ended long ago",            "",      "a:complete",                        "",    "",                "",       ""),
        ("not in the list",           "",      "a",                                 "",    "",                "a",      ""),
        ("not there",                 "a b",   "b",                                 "a b", "",                "",       "a"),
    ];
    for (case, before, present, list, events, unlisted, missing) in table {
        let cron = cron(json!({"status": {"active": listed(before)}}));
        let present = jobs(present);
        let review = review(&cron, &present);
        let names = |names: Vec<&str>| names.join(" ");
        let got = (
            names(review.status.active.iter().map(|job| job.name.as_str()).collect()),
            names(review.events.iter().map(|event| event.reason.as_str()).collect()),
            names(review.unlisted.iter().map(|job| job.metadata.name.as_str()).collect()),
            names(review.missing.iter().map(|job| job.name.as_str()).collect()),
        );
        assert_eq!(
            (got.0.as_str(), got.1.as_str(), got.2.as_str(), got.3.as_str()),
            (list, events, unlisted, missing),
            "{case}"
        );
    }
}

#[test]
fn the_server_decides_where_list_and_cache_disagree() {
    let present = jobs("new strange");
    let before = cron(json!({"status": {"active": listed("old gone")}}));
    let live = cron(json!({"status": {"active": listed("old gone new")}}));
    let mut review = review(&before, &present);
    let mut read = vec![];
    while let Some(need) = review.need() {
        match need {
            Need::CronJob => {
                review.record_cron_job(&live.status);
                read.push("the CronJob".to_owned());
            }
            Need::Job(key) => {
                review.record_job(key.name == "old");
                read.push(key.name.to_string());
            }
        }
    }
    assert_eq!(read, ["the CronJob", "the CronJob", "old", "gone"]);
    let active: Vec<_> = review.status.active.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(active, ["old", "new"]);
    let events: Vec<_> = review.events.iter().map(ToString::to_string).collect();
    assert_eq!(
        events,
        [
            "event Warning UnexpectedJob: Saw a job that the controller did not create or forgot: strange",
            "event Normal MissingJob: Active job went missing: gone",
        ]
    );
}

#[test]
fn surplus_jobs_are_deleted_with_events() {
    let present = jobs("a:complete b:failed");
    let gone: Vec<_> = present.iter().map(|job| &**job).collect();
    let idle = cron(json!({}));
    let plan = Plan::of(clean_up(&idle, &present, &gone));
    let want = "\
each
  delete Job ns/a: it exceeds the history limit
    then event Normal SuccessfulDelete: Deleted job <name>
    else event Warning FailedDelete: Deleted job: <error>
  delete Job ns/b: it exceeds the history limit
    then event Normal SuccessfulDelete: Deleted job <name>
    else event Warning FailedDelete: Deleted job: <error>";
    assert_eq!(plan.to_string(), want);
    assert_eq!(Plan::of(clean_up(&idle, &present, &[])).to_string(), "");
}

#[test]
fn what_only_surplus_jobs_say_is_written_before_they_are_deleted() {
    let present = jobs("a:complete,ended=02:00:00 b:complete,ended=01:00:00");
    let gone: Vec<_> = present.iter().map(|job| &**job).collect();
    let cron = cron(json!({"status": {"active": listed("a c")}}));
    let plan = Plan::of(clean_up(&cron, &present, &gone));
    let lines: Vec<String> = plan.writes().iter().map(|write| write.to_string()).collect();
    assert!(lines[0].starts_with("update CronJob/status ns/c: 2 active Jobs"), "{lines:?}");
    assert_eq!(plan.writes()[0].body().unwrap()["status"]["lastSuccessfulTime"], "2026-01-01T02:00:00Z");

    let done = |job| Done { tag: job, answer: Answer::Written(None) };
    let failed = |job| Failure {
        tag: Some(job),
        verb: Some(Verb::Update),
        doing: "writing".to_owned(),
        message: "no".to_owned(),
        error: None,
        retry: Retry::Backoff,
        is_expected: false,
    };
    let [a, b] = [Some(gone[0]), Some(gone[1])];
    #[rustfmt::skip]
    let table = [
        // case                          done                             failed             active, has deleted, is complete
        ("all is done",                  vec![done(None), done(a), done(b)], vec![],         Some(("c", true, true))),
        ("one cannot be deleted",        vec![done(None), done(b)],       vec![failed(a)],   Some(("a c", true, false))),
        ("none can be deleted",          vec![done(None)],                vec![failed(a), failed(b)], Some(("a c", false, false))),
        ("the status is not written",    vec![],                          vec![failed(None)], None),
    ];
    for (case, done, failures, want) in table {
        let left = cleaned_up(&cron, &present, &gone, &Outcome { done, failures });
        let left = left.map(|left| {
            assert_eq!(left.status.last_successful_time, Some(at("02:00:00")), "{case}");
            let names: Vec<_> = left.status.active.iter().map(|job| job.name.as_str()).collect();
            (names.join(" "), left.has_deleted, left.is_complete)
        });
        assert_eq!(
            left,
            want.map(|(names, deleted, complete)| (names.to_owned(), deleted, complete)),
            "{case}"
        );
    }
}

#[test]
fn the_latest_success_is_recorded() {
    let present = jobs("a:complete,ended=02:00:00 b:complete,ended=01:00:00 c:failed,ended=03:00:00");
    let review = review(&cron(json!({})), &present);
    assert_eq!(review.status.last_successful_time, Some(at("02:00:00")));
}

#[test]
fn the_oldest_jobs_beyond_the_limits_are_deleted() {
    let present = "a:complete,began=03:00:00 b:complete,began=01:00:00 c:complete,began=02:00:00 d:failed,began=01:00:00 e:complete f";
    #[rustfmt::skip]
    let table = [
        // successes      failures     gone
        (json!(null),     json!(null), ""),
        (json!(4),        json!(1),    ""),
        (json!(2),        json!(0),    "b c d"),
        (json!(1),        json!(null), "b c a"),
    ];
    for (successes, failures, want) in table {
        let limits = json!({"successfulJobsHistoryLimit": successes, "failedJobsHistoryLimit": failures});
        let present = jobs(present);
        let cron = cron(limits.clone());
        let gone: Vec<_> = surplus(&cron, &present).iter().map(|job| job.metadata.name.as_str()).collect();
        assert_eq!(gone.join(" "), want, "{limits}");
    }
}

#[test]
fn a_job_that_was_created_and_not_listed_is_listed() {
    let scheduled = |name: &str, time: &str| {
        let mut job = jobs(name).remove(0);
        let annotation = ("batch.kubernetes.io/cronjob-scheduled-timestamp", time);
        std::sync::Arc::make_mut(&mut job).metadata.annotations = [annotation].into_iter().collect();
        job
    };
    let cron = cron(json!({"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}}));
    #[rustfmt::skip]
    let table = [
        // case                 job           its time                     listed  last start  unlisted
        ("ours",                "c-29453770", "2026-01-01T01:10:00+01:00", 1,      "00:10:00", 0),
        ("ours, and ended",     "c-29453770:complete", "2026-01-01T00:10:00Z", 0,  "00:10:00", 0),
        ("an older one",        "c-29453700", "2025-12-31T23:00:00Z",      1,      "00:00:00", 0),
        ("of another name",     "c-1",        "2026-01-01T00:10:00Z",      0,      "00:00:00", 1),
        ("of no time",          "c-29453770", "soon",                      0,      "00:00:00", 1),
    ];
    for (case, name, time, listed, last, unlisted) in table {
        let present = [scheduled(name, time)];
        let review = review(&cron, &present);
        let got = (review.status.active.len(), review.status.last_schedule_time, review.unlisted.len());
        assert_eq!(got, (listed, Some(at(last)), unlisted), "{case}");
    }
}

#[test]
fn failed_deletions_are_retried_before_the_next_start() {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    assert_eq!(history::next(Next::After(hour), true), Next::After(hour));
    assert_eq!(history::next(Next::After(hour), false), Next::After(minute));
    assert_eq!(history::next(Next::Settled, false), Next::After(minute));
    assert_eq!(history::next(Next::After(minute / 2), false), Next::After(minute / 2));
}
