use serde_json::json;

use super::world::{at, cron, jobs, listed};
use crate::cronjob::active::review;
use crate::cronjob::history::surplus;

#[test]
fn the_list_follows_the_jobs_there_are() {
    #[rustfmt::skip]
    let table = [
        // case                       listed   jobs                                 list   told               unlisted  missing
        ("at work",                   "a",     "a",                                 "a",   "",                "",       ""),
        ("ended",                     "a b",   "a:complete b",                      "b",   "SawCompletedJob", "",       ""),
        ("ended badly",               "a",     "a:failed",                          "",    "SawCompletedJob", "",       ""),
        ("ended long ago",            "",      "a:complete",                        "",    "",                "",       ""),
        ("not in the list",           "",      "a",                                 "",    "",                "a",      ""),
        ("not there",                 "a b",   "b",                                 "a b", "",                "",       "a"),
    ];
    for (case, before, present, list, told, unlisted, missing) in table {
        let cron = cron(json!({"status": {"active": listed(before)}}));
        let present = jobs(present);
        let review = review(&cron.status, &present);
        let names = |names: Vec<&str>| names.join(" ");
        let got = (
            names(review.status.active.iter().map(|job| job.name.as_str()).collect()),
            names(review.notices.iter().map(|notice| notice.reason).collect()),
            names(review.unlisted.iter().map(|job| job.metadata.name.as_str()).collect()),
            names(review.missing.iter().map(|job| job.name.as_str()).collect()),
        );
        assert_eq!(
            (got.0.as_str(), got.1.as_str(), got.2.as_str(), got.3.as_str()),
            (list, told, unlisted, missing),
            "{case}"
        );
    }
}

#[test]
fn the_latest_success_is_remembered() {
    let present = jobs("a:complete,ended=02:00:00 b:complete,ended=01:00:00 c:failed,ended=03:00:00");
    let review = review(&cron(json!({})).status, &present);
    assert_eq!(review.status.last_successful_time, Some(at("02:00:00")));
}

#[test]
fn the_oldest_jobs_beyond_the_limits_go() {
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
