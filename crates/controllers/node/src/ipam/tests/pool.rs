use super::{flags, node, show};
use crate::ipam::pool::{Allocation, Pool, Requeue};

const DUAL: &str = "10.0.0.0/22,fd00::/62";

fn pool(cluster: &str, services: &str) -> Pool {
    Pool::new(&flags(cluster, services, (0, 0, 0)).unwrap())
}

fn reserve(pool: &mut Pool, name: &str) -> String {
    match pool.allocate(&node(name, "")) {
        Allocation::Reserved(networks) => show(&networks),
        Allocation::Exhausted(cluster) => format!("{cluster} is exhausted"),
        Allocation::Closed => "closed".to_owned(),
        Allocation::Assigned(invalid) => format!("assigned {invalid:?}"),
    }
}

#[test]
fn nothing_is_allocated_before_the_pool_is_open() {
    let mut pool = pool(DUAL, "");
    assert_eq!(reserve(&mut pool, "a"), "closed");
    pool.update(None, Some(&node("b", "10.0.0.0/24,fd00::/64")));
    pool.open().unwrap();
    assert_eq!(
        reserve(&mut pool, "a"),
        "10.0.1.0/24,fd00:0:0:1::/64",
        "the blocks of other nodes are known by then"
    );
    assert_eq!(reserve(&mut pool, "a"), "10.0.1.0/24,fd00:0:0:1::/64", "a second call returns the same");
}

#[test]
fn service_cidrs_are_not_allocated() {
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
fn blocks_of_a_deleted_node_are_used_again_and_waiting_nodes_are_requeued() {
    let mut pool = pool("10.0.0.0/23", ""); // two blocks
    pool.open().unwrap();
    let (a, b) = (node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"));
    for known in [&a, &b] {
        assert_eq!(pool.update(None, Some(known)), Requeue::None);
    }
    for name in ["d", "c"] {
        assert_eq!(reserve(&mut pool, name), "10.0.0.0/23 is exhausted");
    }
    assert_eq!(
        pool.update(Some(&a), None),
        Requeue::Nodes(vec!["c".into()]),
        "as many as there are free blocks"
    );
    assert_eq!(reserve(&mut pool, "c"), "10.0.0.0/24");
    assert_eq!(pool.update(Some(&node("d", "")), None), Requeue::None, "the waiting node is gone");
    assert_eq!(pool.update(Some(&b), None), Requeue::None);
}

#[test]
fn a_block_of_only_one_cluster_cidr_is_not_kept() {
    let mut pool = pool("10.0.0.0/22,fd00::/63", ""); // four and two
    pool.open().unwrap();
    for name in ["a", "b"] {
        reserve(&mut pool, name);
    }
    assert_eq!(reserve(&mut pool, "c"), "fd00::/63 is exhausted");
    assert_eq!(pool.clusters()[0].used(), 2, "the other half is free again");
}

#[test]
fn a_new_node_of_the_same_name_does_not_hold_the_old_blocks() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    let first = node("a", "10.0.0.0/24");
    pool.update(None, Some(&first));
    let mut second = node("a", "");
    second.metadata.uid = serde_json::from_value("uid-other".into()).unwrap();
    pool.update(Some(&first), Some(&second));
    assert_eq!(pool.clusters()[0].used(), 0, "a relist may show only the new one");
}

#[test]
fn a_block_that_two_nodes_have_is_free_when_both_are_gone() {
    let mut pool = pool("10.0.0.0/23", "");
    pool.open().unwrap();
    let (a, b) = (node("a", "10.0.0.0/24"), node("b", "10.0.0.0/24"));
    pool.update(None, Some(&a));
    pool.update(None, Some(&b));
    pool.update(Some(&a), None);
    assert_eq!(
        [reserve(&mut pool, "c"), reserve(&mut pool, "d")],
        ["10.0.1.0/24", "10.0.0.0/23 is exhausted"]
    );
    pool.update(Some(&b), None);
    assert_eq!(reserve(&mut pool, "d"), "10.0.0.0/24");
}

#[test]
fn a_user_may_assign_other_blocks_first() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24");
    pool.update(Some(&node("a", "")), Some(&node("a", "10.0.3.0/24")));
    assert_eq!((pool.clusters()[0].used(), reserve(&mut pool, "b").as_str()), (1, "10.0.1.0/24"));
}

#[test]
fn a_reserved_block_is_released_if_a_user_gives_it_to_another_node() {
    let mut pool = pool("10.0.0.0/22", "");
    pool.open().unwrap();
    assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24");
    pool.update(None, Some(&node("b", "10.0.0.0/24")));
    assert_eq!((reserve(&mut pool, "a").as_str(), pool.clusters()[0].used()), ("10.0.1.0/24", 2));
}

#[test]
fn nodes_with_invalid_pod_cidrs_block_the_allocation_until_they_are_gone() {
    #[rustfmt::skip]
    let table = [
        // ranges                             problem
        ("10.9.0.0/24",                       "node odd: podCIDR 10.9.0.0/24 is not in 10.0.0.0/22 of --cluster-cidr"),
        ("fd00::/64,10.0.0.0/24",             "node odd: podCIDR fd00::/64 is not in 10.0.0.0/22 of --cluster-cidr"),
        ("10.0.0.0/24,fd00::/64,fd09::/64",   "node odd: podCIDR fd09::/64 is number 3, but --cluster-cidr has only 2"),
        ("10.0.0/24",                         "node odd: invalid podCIDR \"10.0.0/24\""),
    ];
    for (ranges, problem) in table {
        let mut pool = pool(DUAL, "");
        let odd = node("odd", ranges);
        pool.update(None, Some(&odd));
        let invalid = pool.open().unwrap_err();
        assert_eq!(invalid.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
        assert_eq!(reserve(&mut pool, "a"), "closed");
        assert_eq!(pool.update(Some(&odd), None), Requeue::All);
        assert_eq!(reserve(&mut pool, "a"), "10.0.0.0/24,fd00::/64");
        // One that is added later fails alone.
        pool.update(None, Some(&odd));
        let Allocation::Assigned(Some(invalid)) = pool.allocate(&odd) else { panic!("{problem}") };
        assert_eq!(invalid.to_string(), problem);
        assert_ne!(reserve(&mut pool, "b"), "closed");
    }
}
