use flyball_api::{Job, Timestamp};
use serde_json::json;

use super::world::{now, pod, pods};
use crate::job::backoff::{Backoff, Backoffs, finished_at};

fn after(before: Backoff, succeeded: &str, failed: &str) -> Backoff {
    let (succeeded, failed) = (pods(succeeded), pods(failed));
    let (succeeded, failed): (Vec<_>, Vec<_>) =
        (succeeded.iter().map(|pod| &**pod).collect(), failed.iter().map(|pod| &**pod).collect());
    before.after(&succeeded, &failed)
}

fn at(seconds_ago: i64) -> Option<Timestamp> {
    Timestamp::from_second(now().as_second() - seconds_ago).ok()
}

#[test]
fn consecutive_failures_are_counted_and_a_success_resets_the_count() {
    let before = Backoff { failures: 2, last: at(100) };
    #[rustfmt::skip]
    let table = [
        // succeeded              failed                              failures  last
        ("",                      "",                                        2, at(100)),
        ("",                      "a:failed,ended=9 b:failed,ended=5",       4, at(5)),
        ("a:succeeded,ended=7",   "",                                        0, None),
        ("a:succeeded,ended=7",   "b:failed,ended=9 c:failed,ended=5",       1, at(5)),
        ("a:succeeded,ended=7",   "b:failed,ended=7",                        0, None),
    ];
    for (succeeded, failed, failures, last) in table {
        assert_eq!(after(before, succeeded, failed), Backoff { failures, last }, "{succeeded} / {failed}");
    }
}

#[test]
fn the_backoff_doubles_up_to_ten_minutes() {
    #[rustfmt::skip]
    let table = [
        // failures  last ended  seconds left
        (         0,          5,    0),
        (         1,          0,   10),
        (         1,          4,    6),
        (         1,         10,    0),
        (         2,          5,   15),
        (         6,          0,  320),
        (         7,          0,  600),
        (      5000,          0,  600),
        (         1,        -20,   30),
    ];
    for (failures, ended, left) in table {
        let backoff = Backoff { failures, last: at(ended) };
        assert_eq!(backoff.remaining(now()).as_secs(), left, "{failures} failures, the last {ended} s ago");
    }
    assert!(Backoff::default().remaining(now()).is_zero());
}

#[test]
fn a_pod_ended_with_its_containers_or_when_it_was_deleted() {
    assert_eq!(Some(finished_at(&pod("a:failed,ended=30"))), at(30));
    assert_eq!(Some(finished_at(&pod("a:failed,terminating"))), at(1));
    assert_eq!(Some(finished_at(&pod("a:failed,age=50"))), at(50));
}

#[test]
fn a_job_does_not_wait_for_the_failures_of_another_that_had_its_name() {
    let job = |uid: &str| -> Job {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "j", "uid": uid}})).unwrap()
    };
    let (first, second, failed) = (job("1"), job("2"), Backoff { failures: 3, last: at(1) });
    let backoffs = Backoffs::default();
    backoffs.keep(&first, failed);
    assert_eq!(backoffs.of(&first), failed);
    assert_eq!(backoffs.of(&second), Backoff::default());
    backoffs.forget(&second.metadata.key());
    assert_eq!(backoffs.of(&first), Backoff::default());
}
