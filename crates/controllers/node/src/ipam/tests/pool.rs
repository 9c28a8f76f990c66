use super::{flags, node, show};
use crate::ipam::pool::{Pool, Refusal, Wake};

const DUAL: &str = "10.0.0.0/22,fd00::/62";

fn pool(cluster: &str, services: &str) -> Pool {
    Pool::new(&flags(cluster, services, (0, 0, 0)).unwrap())
}

fn reserve(pool: &mut Pool, name: &str) -> String {
    match pool.reserve(&node(name, ""), |_, _| ()) {
        Ok(ranges) => show(&ranges),
        Err(Refusal::Exhausted(cluster)) => format!("{cluster} is exhausted"),
        Err(Refusal::Closed) => "closed".to_owned(),
    }
}

#[test]
fn nothing_is_given_away_before_the_books_are_open() {
    let mut pool = pool(DUAL, "");
    assert_eq!(reserve(&mut pool, "a"), "closed");
    pool.follow(None, Some(&node("b", "10.0.0.0/24,fd00::/64")));
    pool.open().unwrap();
    assert_eq!(reserve(&mut pool, "a"), "10.0.1.0/24,fd00:0:0:1::/64", "what a node has is known by then");
    assert_eq!(reserve(&mut pool, "a"), "10.0.1.0/24,fd00:0:0:1::/64", "a second try gets the same");
}

#[test]
fn ranges_of_services_stay_free() {
    #[rustfmt::skip]
    let table = [
        // services                      first           second
        ("",                             "10.0.0.0/24",  "10.0.1.0/24"),
        ("10.0.0.0/24",                  "10.0.1.0/24",  "10.0.2.0/24"),
        ("10.0.1.128/25",                "10.0.0.0/24",  "10.0.2.0/24"),
        ("10.0.0.0/23",                  "10.0.2.0/24",  "10.0.3.0/24"),
        ("10.0.0.0/16",                  "10.0.0.0/22 is exhausted", "10.0.0.0/22 is exhausted"),
        ("10.9.0.0/16,fd00::/64",        "10.0.0.0/24",  "10.0.1.0/24"),
    ];
    for (services, first, second) in table {
        let mut pool = pool("10.0.0.0/22", services);
        pool.open().unwrap();
        assert_eq!(
            (reserve(&mut pool, "a").as_str(), reserve(&mut pool, "b").as_str()),
            (first, second),
            "{services}"
        );
    }
}

#[test]
fn what_a_deleted_node_had_is_used_again_and_those_who_wait_hear_of_it() {
    let mut pool = pool("10.0.0.0/23", ""); // two blocks
    pool.open().unwrap();
    let (a, b) = (node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"));
    for known in [&a, &b] {
        assert_eq!(pool.follow(None, Some(known)), Wake::Nobody);
    }
    for name in ["d", "c"] {
        assert_eq!(reserve(&mut pool, name), "10.0.0.0/23 is exhausted");
    }
    assert_eq!(
        pool.follow(Some(&a), None),
        Wake::These(vec!["c".into()]),
        "as many as there is something for"
    );
    assert_eq!(reserve(&mut pool, "c"), "10.0.0.0/24");
    assert_eq!(pool.follow(Some(&node("d", "")), None), Wake::Nobody, "who waited is gone");
    assert_eq!(pool.follow(Some(&b), None), Wake::Nobody);
}

#[test]
fn half_a_pair_is_not_kept() {
    let mut pool = pool("10.0.0.0/22,fd00::/63", ""); // four and two
    pool.open().unwrap();
    for name in ["a", "b"] {
        reserve(&mut pool, name);
    }
    assert_eq!(reserve(&mut pool, "c"), "fd00::/63 is exhausted");
    assert_eq!(pool.clusters()[0].used(), 2, "the other half is free again");
}

#[test]
fn another_node_of_the_same_name_has_its_own() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    let first = node("a", "10.0.0.0/24");
    pool.follow(None, Some(&first));
    let mut second = node("a", "");
    second.metadata.uid = serde_json::from_value("uid-other".into()).unwrap();
    pool.follow(Some(&first), Some(&second));
    assert_eq!(pool.clusters()[0].used(), 0, "a relist may show only the new one");
}

#[test]
fn a_range_that_two_nodes_have_is_free_when_both_are_gone() {
    let mut pool = pool("10.0.0.0/23", "");
    pool.open().unwrap();
    let (a, b) = (node("a", "10.0.0.0/24"), node("b", "10.0.0.0/24"));
    pool.follow(None, Some(&a));
    pool.follow(None, Some(&b));
    pool.follow(Some(&a), None);
    assert_eq!(
        [reserve(&mut pool, "c"), reserve(&mut pool, "d")],
        ["10.0.1.0/24", "10.0.0.0/23 is exhausted"]
    );
    pool.follow(Some(&b), None);
    assert_eq!(reserve(&mut pool, "d"), "10.0.0.0/24");
}

#[test]
fn somebody_else_may_be_quicker() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24");
    pool.follow(Some(&node("a", "")), Some(&node("a", "10.0.3.0/24")));
    assert_eq!((pool.clusters()[0].used(), reserve(&mut pool, "b").as_str()), (1, "10.0.1.0/24"));
}

#[test]
fn what_is_set_aside_is_given_up_if_somebody_gives_it_to_another_node() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24");
    pool.follow(None, Some(&node("b", "10.0.0.0/24")));
    assert_eq!((reserve(&mut pool, "a").as_str(), pool.clusters()[0].used()), ("10.0.1.0/24", 2));
}

#[test]
fn nodes_that_do_not_fit_stop_the_giving_away_until_they_are_gone() {
    #[rustfmt::skip]
    let table = [
        // ranges                             problem
        ("10.9.0.0/24",                       "node odd has the pod range 10.9.0.0/24, which is not in 10.0.0.0/22 of --cluster-cidr"),
        ("fd00::/64,10.0.0.0/24",             "node odd has the pod range fd00::/64, which is not in 10.0.0.0/22 of --cluster-cidr"),
        ("10.0.0.0/24,fd00::/64,fd09::/64",   "node odd has the pod range fd09::/64, its number 3, but --cluster-cidr has only 2"),
        ("10.0.0/24",                         "node odd has the pod range \"10.0.0/24\", which is none"),
    ];
    for (ranges, problem) in table {
        let mut pool = pool(DUAL, "");
        let odd = node("odd", ranges);
        pool.follow(None, Some(&odd));
        let misfits = pool.open().unwrap_err();
        assert_eq!(misfits.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
        assert_eq!(reserve(&mut pool, "a"), "closed");
        assert_eq!(pool.follow(Some(&odd), None), Wake::Everybody);
        assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24,fd00::/64");
        // One that comes later is told of, and stops nobody.
        pool.follow(None, Some(&odd));
        assert_eq!(pool.misfit("odd").map(ToString::to_string).as_deref(), Some(problem));
        assert_ne!(reserve(&mut pool, "b"), "closed");
    }
}
