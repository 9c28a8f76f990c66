use std::time::Duration;

use flyball_api::condition::Condition;
use flyball_api::{Lease, Node, Timestamp};
use tokio::time::Instant;

use super::super::health::{GracePeriods, Health, Now, observe};

const GRACE: GracePeriods =
    GracePeriods { startup: Duration::from_secs(60), monitor: Duration::from_secs(50) };
const EPOCH: i64 = 1_000_000;

/// A node at a time of our clock, with its heartbeat and its lease renewal by its own clock.
#[derive(Clone, Copy)]
struct Seen {
    at: u64,
    heartbeat: Option<i64>,
    lease: Option<i64>,
}

/// Checks a node several times; whether it counts as silent, after each check.
fn checks(seen: &[Seen]) -> String {
    let start = Instant::now();
    let time = |second: i64| Timestamp::from_second(EPOCH + second).unwrap();
    let mut health: Option<Health> = None;
    let mut results = vec![];
    for check in seen {
        let mut node = Node::default();
        node.metadata.creation_timestamp = Some(time(0));
        node.status.conditions = check
            .heartbeat
            .map(|second| Condition {
                type_: "Ready".into(),
                status: "True".into(),
                last_heartbeat_time: Some(time(second)),
                ..Condition::default()
            })
            .into_iter()
            .collect();
        let lease = check.lease.map(|second| {
            let mut lease = Lease::default();
            lease.spec.renew_time = Some(time(second));
            lease
        });
        let now = Now { wall: time(check.at as i64), monotonic: start + Duration::from_secs(check.at) };
        let observed = observe(health.as_ref(), &node, lease.as_ref(), now);
        results.push(if observed.is_silent(&node, GRACE, now) { "silent" } else { "alive" });
        health = Some(observed);
    }
    results.join(" ")
}

#[test]
fn a_node_is_silent_when_neither_status_nor_lease_is_renewed() {
    let seen = |at, heartbeat, lease| Seen { at, heartbeat, lease };
    #[rustfmt::skip]
    let table = [
        ("never reported, young",
            vec![seen(10, None, None), seen(60, None, None)],                             "alive alive"),
        ("never reported, old",
            vec![seen(10, None, None), seen(61, None, None)],                             "alive silent"),
        ("never reported, and the controller has just started",
            vec![seen(100, None, None)],                                                  "silent"),
        ("never reported, but renews its lease",
            vec![seen(100, None, Some(95)), seen(150, None, Some(145))],                  "alive alive"),
        ("never reported, and stops renewing its lease",
            vec![seen(100, None, Some(95)), seen(161, None, Some(95))],                   "alive silent"),
        ("reports by its status",
            vec![seen(100, Some(99), None), seen(151, Some(150), None)],                  "alive alive"),
        ("stops reporting",
            vec![seen(100, Some(99), None), seen(150, Some(99), None), seen(151, Some(99), None)], "alive alive silent"),
        ("reports by its lease",
            vec![seen(100, Some(99), Some(99)), seen(151, Some(99), Some(150))],          "alive alive"),
        ("stops both",
            vec![seen(100, Some(99), Some(99)), seen(151, Some(99), Some(99))],           "alive silent"),
        ("its clock is wrong, but runs",
            vec![seen(100, Some(99), None), seen(151, Some(-5000), None)],                "alive alive"),
        ("its first report counts even if it is old",
            vec![seen(55, None, None), seen(90, Some(1), None), seen(140, Some(1), None)], "alive alive alive"),
        ("a deleted lease is no sign of life",
            vec![seen(100, Some(99), Some(99)), seen(120, Some(99), None), seen(151, Some(99), Some(99))], "alive alive silent"),
        ("an old state, and the controller has just started",
            vec![seen(9000, Some(5), Some(5)), seen(9050, Some(5), Some(5)), seen(9051, Some(5), Some(5))], "alive alive silent"),
    ];
    for (case, seen, want) in table {
        assert_eq!(checks(&seen), want, "{case}");
    }
}

#[test]
fn a_jump_of_the_wall_clock_makes_no_node_silent() {
    let mut node = Node::default();
    node.status.conditions = [Condition { type_: "Ready".into(), ..Condition::default() }].into();
    let (start, wall) = (Instant::now(), Timestamp::from_second(EPOCH).unwrap());
    let health = observe(None, &node, None, Now { wall, monotonic: start });
    let jumped = Now {
        wall: Timestamp::from_second(EPOCH + 86_400).unwrap(),
        monotonic: start + Duration::from_secs(5),
    };
    assert!(!observe(Some(&health), &node, None, jumped).is_silent(&node, GRACE, jumped));
}

#[test]
fn suspended_time_does_not_count_as_silence() {
    let mut node = Node::default();
    node.status.conditions = [Condition { type_: "Ready".into(), ..Condition::default() }].into();
    let (start, wall) = (Instant::now(), Timestamp::from_second(EPOCH).unwrap());
    let at = |seconds| Now { wall, monotonic: start + Duration::from_secs(seconds) };
    let mut health = observe(None, &node, None, at(0));
    health.discount(Duration::from_secs(300));
    assert!(!health.is_silent(&node, GRACE, at(350)));
    assert!(health.is_silent(&node, GRACE, at(351)));
}

#[test]
fn suspended_time_does_not_count_before_the_first_report() {
    let (start, wall) = (Instant::now(), Timestamp::from_second(EPOCH).unwrap());
    let mut node = Node::default();
    node.metadata.creation_timestamp = Some(wall);
    let at = |seconds: i64| Now { wall: Timestamp::from_second(EPOCH + seconds).unwrap(), monotonic: start };
    let mut health = observe(None, &node, None, at(0));
    health.discount(Duration::from_secs(300));
    let startup = i64::try_from(GRACE.startup.as_secs()).unwrap();
    assert!(!health.is_silent(&node, GRACE, at(300 + startup)));
    assert!(health.is_silent(&node, GRACE, at(301 + startup)));
}

#[test]
fn a_new_node_of_the_same_name_starts_afresh() {
    let now = Now { wall: Timestamp::from_second(EPOCH).unwrap(), monotonic: Instant::now() };
    let mut old = Node::default();
    old.metadata.uid = "old".into();
    old.metadata.creation_timestamp = Some(Timestamp::from_second(EPOCH - 500).unwrap());
    let mut new = old.clone();
    new.metadata.uid = "new".into();
    new.metadata.creation_timestamp = Some(now.wall);
    let health = observe(None, &old, None, now);
    assert!(health.is_silent(&old, GRACE, now));
    assert!(!observe(Some(&health), &new, None, now).is_silent(&new, GRACE, now));
}
