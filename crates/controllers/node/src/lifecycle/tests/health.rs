use std::time::Duration;

use flyball_api::condition::Condition;
use flyball_api::{Lease, Node, Timestamp};
use tokio::time::Instant;

use super::super::health::{Graces, Health, Moment, observe};

const GRACES: Graces = Graces { startup: Duration::from_secs(60), monitor: Duration::from_secs(50) };
const EPOCH: i64 = 1_000_000;

/// What is seen of a node at a time: when it was heard of, in its own words.
#[derive(Clone, Copy)]
struct Seen {
    at: u64,
    heartbeat: Option<i64>,
    lease: Option<i64>,
}

/// Looks at a node again and again; says after each look whether it counts as silent.
fn looks(seen: &[Seen]) -> String {
    let start = Instant::now();
    let time = |second: i64| Timestamp::from_second(EPOCH + second).unwrap();
    let mut health: Option<Health> = None;
    let mut told = vec![];
    for look in seen {
        let mut node = Node::default();
        node.metadata.creation_timestamp = Some(time(0));
        node.status.conditions = look
            .heartbeat
            .map(|second| Condition {
                type_: "Ready".into(),
                status: "True".into(),
                last_heartbeat_time: Some(time(second)),
                ..Condition::default()
            })
            .into_iter()
            .collect();
        let lease = look.lease.map(|second| {
            let mut lease = Lease::default();
            lease.spec.renew_time = Some(time(second));
            lease
        });
        let now = Moment { wall: time(look.at as i64), ticks: start + Duration::from_secs(look.at) };
        let observed = observe(health.as_ref(), &node, lease.as_ref(), now);
        told.push(if observed.is_silent(&node, GRACES, now) { "silent" } else { "heard" });
        health = Some(observed);
    }
    told.join(" ")
}

#[test]
fn a_node_is_silent_when_neither_status_nor_lease_is_renewed() {
    let seen = |at, heartbeat, lease| Seen { at, heartbeat, lease };
    #[rustfmt::skip]
    let table = [
        ("never reported, young",
            vec![seen(10, None, None), seen(60, None, None)],                             "heard heard"),
        ("never reported, old",
            vec![seen(10, None, None), seen(61, None, None)],                             "heard silent"),
        ("never reported, and we have just started",
            vec![seen(100, None, None)],                                                  "silent"),
        ("never reported, but renews its lease",
            vec![seen(100, None, Some(95)), seen(150, None, Some(145))],                  "heard heard"),
        ("never reported, and stops renewing its lease",
            vec![seen(100, None, Some(95)), seen(161, None, Some(95))],                   "heard silent"),
        ("reports by its status",
            vec![seen(100, Some(99), None), seen(151, Some(150), None)],                  "heard heard"),
        ("stops reporting",
            vec![seen(100, Some(99), None), seen(150, Some(99), None), seen(151, Some(99), None)], "heard heard silent"),
        ("reports by its lease",
            vec![seen(100, Some(99), Some(99)), seen(151, Some(99), Some(150))],          "heard heard"),
        ("stops both",
            vec![seen(100, Some(99), Some(99)), seen(151, Some(99), Some(99))],           "heard silent"),
        ("its clock goes wrong, but it goes",
            vec![seen(100, Some(99), None), seen(151, Some(-5000), None)],                "heard heard"),
        ("its first report counts even if it is old",
            vec![seen(55, None, None), seen(90, Some(1), None), seen(140, Some(1), None)], "heard heard heard"),
        ("a lease that is lost is no sign of life",
            vec![seen(100, Some(99), Some(99)), seen(120, Some(99), None), seen(151, Some(99), Some(99))], "heard heard silent"),
        ("an old state, and we have just started",
            vec![seen(9000, Some(5), Some(5)), seen(9050, Some(5), Some(5)), seen(9051, Some(5), Some(5))], "heard heard silent"),
    ];
    for (case, seen, want) in table {
        assert_eq!(looks(&seen), want, "{case}");
    }
}

#[test]
fn a_calendar_that_jumps_makes_no_node_silent() {
    let mut node = Node::default();
    node.status.conditions = [Condition { type_: "Ready".into(), ..Condition::default() }].into();
    let (start, wall) = (Instant::now(), Timestamp::from_second(EPOCH).unwrap());
    let health = observe(None, &node, None, Moment { wall, ticks: start });
    let jumped = Moment {
        wall: Timestamp::from_second(EPOCH + 86_400).unwrap(),
        ticks: start + Duration::from_secs(5),
    };
    assert!(!observe(Some(&health), &node, None, jumped).is_silent(&node, GRACES, jumped));
}

#[test]
fn time_in_which_nothing_could_be_heard_does_not_count() {
    let mut node = Node::default();
    node.status.conditions = [Condition { type_: "Ready".into(), ..Condition::default() }].into();
    let (start, wall) = (Instant::now(), Timestamp::from_second(EPOCH).unwrap());
    let at = |seconds| Moment { wall, ticks: start + Duration::from_secs(seconds) };
    let mut health = observe(None, &node, None, at(0));
    health.excuse(Duration::from_secs(300));
    assert!(!health.is_silent(&node, GRACES, at(350)));
    assert!(health.is_silent(&node, GRACES, at(351)));
}

#[test]
fn a_node_of_the_same_name_is_another_one() {
    let now = Moment { wall: Timestamp::from_second(EPOCH).unwrap(), ticks: Instant::now() };
    let mut old = Node::default();
    old.metadata.uid = "old".into();
    old.metadata.creation_timestamp = Some(Timestamp::from_second(EPOCH - 500).unwrap());
    let mut new = old.clone();
    new.metadata.uid = "new".into();
    new.metadata.creation_timestamp = Some(now.wall);
    let health = observe(None, &old, None, now);
    assert!(health.is_silent(&old, GRACES, now));
    assert!(!observe(Some(&health), &new, None, now).is_silent(&new, GRACES, now));
}
