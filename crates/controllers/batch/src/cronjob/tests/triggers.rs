use std::sync::Arc;
use std::time::Duration;

use flyball_api::cron::Zone;
use flyball_cache::{Change, Origin, Store};
use serde_json::json;

use super::world::{at, cron, jobs};
use crate::cronjob::triggers::{When, cron_changed, job_changed};

#[test]
fn a_new_schedule_waits_for_its_time_and_anything_else_is_looked_at_now() {
    let when = |old, new| {
        let (old, new) = (Arc::new(cron(old)), Arc::new(cron(new)));
        let change = Change { old: Some(&old), new: Some(&new), origin: Origin::Watch };
        cron_changed(&change, at("00:05:00"), &Zone::UTC)
    };
    assert_eq!(when(json!({}), json!({"suspend": true})), When::Now);
    let in_an_hour = When::After(Duration::from_millis(3_300_100));
    assert_eq!(when(json!({}), json!({"schedule": "0 * * * *"})), in_an_hour);
    assert!(matches!(when(json!({}), json!({"schedule": "x"})), When::Never(_)));
}

#[test]
fn a_job_wakes_the_cron_job_that_made_it() {
    let crons = Store::from_iter([cron(json!({}))]);
    let woken = |text: &str| {
        let job = &jobs(text)[0];
        job_changed(&Change { old: None, new: Some(job), origin: Origin::Watch }, &crons).len()
    };
    assert_eq!(woken("a"), 1);
    assert_eq!(woken("a:owner=uid-of-another"), 0);
}
