//! Tables for routes, and for what Nodes report about them.

use std::sync::Arc;

use flyball_api::Node;
use flyball_cache::{Change, Origin};
use ipnet::IpNet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{View, plan};
use super::settings::ranges;
use super::status::{Creation, Missing, Observed, condition_patch, is_reachable, report};
use super::{invariants, triggers};
use crate::Route;

/// `name:range,range@address` as Nodes.
fn nodes(text: &str) -> Vec<Arc<Node>> {
    let node = |word: &str| {
        let (head, address) = word.split_once('@').unwrap_or((word, "10.0.0.1"));
        let (name, cidrs) = head.split_once(':').unwrap_or((head, ""));
        let cidrs: Vec<&str> = cidrs.split(',').filter(|cidr| !cidr.is_empty()).collect();
        let node = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {"podCIDRs": cidrs},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        });
        Arc::new(serde_json::from_value(node).expect("a node"))
    };
    text.split_whitespace().map(node).collect()
}

/// `node:range`, with `!` for a blackhole, and `@address` for one with the address of its node.
fn routes(text: &str) -> Vec<Route> {
    let route = |word: &str| {
        let (word, is_blackhole) = word.strip_prefix('!').map_or((word, false), |rest| (rest, true));
        let (head, address) =
            word.split_once('@').map_or((word, None), |(head, address)| (head, Some(address)));
        let (node, destination) = head.split_once(':').expect("node:range");
        let known = |address: &str| {
            serde_json::from_value(json!([{"type": "InternalIP", "address": address}])).expect("an address")
        };
        Route {
            name: word.into(),
            node: node.into(),
            node_addresses: address.map(known),
            destination: destination.into(),
            is_blackhole,
        }
    };
    text.split_whitespace().map(route).collect()
}

fn show(routes: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    routes.into_iter().map(|route| route.as_ref().to_owned()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_range_gets_its_route_and_wrong_routes_are_deleted() {
    #[rustfmt::skip]
    let table = [
        // case                             nodes                              routes                            deleted                   made
        ("nothing",                         "",                                "",                               "",                       ""),
        ("a node without a range",          "a",                               "",                               "",                       ""),
        ("a new node",                      "a:10.1.0.0/24",                   "",                               "",                       "a:10.1.0.0/24"),
        ("two ranges",                      "a:10.1.0.0/24,fd00:1::/64",       "a:10.1.0.0/24",                  "",                       "a:fd00:1::/64"),
        ("a settled one",                   "a:10.1.0.0/24",                   "a:10.1.0.0/24",                  "",                       ""),
        ("the node is gone",                "",                                "a:10.1.0.0/24",                  "a:10.1.0.0/24",          ""),
        ("the range has moved",             "a:10.1.2.0/24 b:10.1.1.0/24",     "a:10.1.1.0/24",                  "a:10.1.1.0/24",          "a:10.1.2.0/24 b:10.1.1.0/24"),
        ("a route to no node",              "a:10.1.0.0/24",                   ":10.1.0.0/24",                   ":10.1.0.0/24",           "a:10.1.0.0/24"),
        ("outside the cluster",             "",                                "a:192.168.0.0/24 b:fd01::/64",   "",                       ""),
        ("partly outside",                  "",                                "a:10.0.0.0/7",                   "a:10.0.0.0/7",           ""),
        ("as large as the cluster",         "",                                "a:10.0.0.0/8",                   "a:10.0.0.0/8",           ""),
        ("unreadable",                      "",                                "a:everywhere",                   "",                       ""),
        ("a blackhole",                     "a:10.1.0.0/24",                   "!a:10.1.0.0/24",                 "a:10.1.0.0/24",          "a:10.1.0.0/24"),
        ("a blackhole of a missing node",    "a:10.1.0.0/24",                   "!b:10.1.1.0/24 a:10.1.0.0/24",   "b:10.1.1.0/24",          ""),
        ("a blackhole outside",             "",                                "!a:192.168.0.0/24",              "",                       ""),
        ("an address that has changed",     "a:10.1.0.0/24@10.0.0.2",          "a:10.1.0.0/24@10.0.0.1",         "a:10.1.0.0/24@10.0.0.1", "a:10.1.0.0/24"),
        ("an address that has not",         "a:10.1.0.0/24@10.0.0.1",          "a:10.1.0.0/24@10.0.0.1",         "",                       ""),
        ("an address of no interest",       "a:10.1.0.0/24@10.0.0.2",          "a:10.1.0.0/24",                  "",                       ""),
        ("a range twice",                   "a:10.1.0.0/24,10.1.0.0/24",       "",                               "",                       "a:10.1.0.0/24"),
    ];
    let ranges = ranges("10.0.0.0/8,fd00::/16").unwrap();
    for (case, given, present, deleted, made) in table {
        let (nodes, routes) = (nodes(given), routes(present));
        let view = View { nodes: &nodes, routes: &routes, ranges: &ranges };
        let calls = plan(&view);
        assert_eq!(show(calls.delete.iter().map(|route| &route.name)), deleted, "{case}");
        let new = calls.create.iter().map(|new| format!("{}:{}", new.route.node, new.route.destination));
        assert_eq!(show(new), made, "{case}");
        let unparsable = show(calls.unparsable.iter().map(|route| &route.name));
        assert_eq!(unparsable, if case == "unreadable" { present } else { "" }, "{case}");
        assert!(calls.create.iter().all(|new| new.hint == format!("uid-{}", new.route.node)), "{case}");
        assert_eq!(invariants::check(&view, &calls), Ok(()), "{case}");
    }
}

#[test]
fn a_node_is_reachable_if_all_its_ranges_have_routes() {
    #[rustfmt::skip]
    let table = [
        // case                          node                            routes            missing          reachable
        ("settled",                      "a:10.1.0.0/24",                "",               "",               Some(true)),
        ("one of two is missing",        "a:10.1.0.0/24,fd00:1::/64",    "",               "a:fd00:1::/64",  Some(false)),
        ("another's is missing",         "a:10.1.0.0/24",                "",               "b:10.1.0.0/24",  Some(true)),
        ("no range and no route",        "a",                            "b:10.1.0.0/24",  "",               None),
        ("no range, but a route",        "a",                            "a:10.1.0.0/24",  "",               Some(false)),
    ];
    for (case, node, present, missing, want) in table {
        let pairs = missing.split_whitespace().filter_map(|pair| pair.split_once(':'));
        let missing: Missing = pairs.map(|(node, range)| (node.into(), range.into())).collect();
        assert_eq!(is_reachable(&nodes(node)[0], &routes(present), &missing), want, "{case}");
    }
}

#[test]
fn the_condition_is_written_only_if_it_changes() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let has = |status: &str, reason: &str| json!([{"type": "NetworkUnavailable", "status": status, "reason": reason}]);
    #[rustfmt::skip]
    let table = [
        // has                               reachable  written
        (json!([]),                          true,      Some(("False", "RouteCreated", "RouteController created a route"))),
        (json!([]),                          false,     Some(("True", "NoRouteCreated", "RouteController failed to create a route"))),
        (has("False", "RouteCreated"),      true,      None),
        (has("True", "NoRouteCreated"),     false,     None),
        (has("False", "CiliumIsUp"),        true,      Some(("False", "RouteCreated", "RouteController created a route"))),
        (has("False", "RouteCreated"),      false,     Some(("True", "NoRouteCreated", "RouteController failed to create a route"))),
    ];
    for (conditions, reachable, want) in table {
        let node: Node = serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap();
        let want: Option<Value> = want.map(|(status, reason, message)| {
            json!({"status": {"conditions": [{
                "type": "NetworkUnavailable", "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}})
        });
        assert_eq!(condition_patch(&node, reachable, now), want);
    }
}

#[test]
fn nodes_report_routes_that_could_not_be_created() {
    const OK: &str = "concurrently\n  patch Node/status a: its routes have changed";
    const FAILED: &str = "\
event Warning FailedToCreateRoute: Could not create route uid-a 10.1.0.0/24 for node a after 1.5s: quota (Node a)
concurrently
  patch Node/status a: its routes have changed";
    for (error, want) in [(None, OK), (Some("quota".to_owned()), FAILED)] {
        let nodes = nodes("a:10.1.0.0/24 b");
        let ranges = ranges("10.0.0.0/8").unwrap();
        let calls = plan(&View { nodes: &nodes, routes: &[], ranges: &ranges });
        let took = std::time::Duration::from_millis(1500);
        let creations = calls.create.into_iter().map(|new| Creation { new, took, error: error.clone() });
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let observed = Observed { nodes, routes: vec![], creations: creations.collect(), now };
        assert_eq!(report(&observed).to_string(), want);
    }
}

#[test]
fn changes_of_ranges_and_addresses_lead_to_a_round() {
    let one = |text: &str| nodes(text).pop();
    #[rustfmt::skip]
    let table = [
        // case                 old                        new                        origin          round
        ("created",             None,                      one("a"),                  Origin::Watch,  true),
        ("deleted",             one("a"),                  None,                      Origin::Watch,  true),
        ("unchanged",           one("a"),                  one("a"),                  Origin::Watch,  false),
        ("a resync",            one("a"),                  one("a"),                  Origin::Resync, true),
        ("a range",             one("a"),                  one("a:10.1.0.0/24"),      Origin::Watch,  true),
        ("an address",          one("a@10.0.0.1"),         one("a@10.0.0.2"),         Origin::Watch,  true),
    ];
    for (case, old, new, origin, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin };
        assert_eq!(triggers::concerns_routes(&change), want, "{case}");
    }
}

#[test]
fn routes_need_one_range_or_one_of_each_family() {
    #[rustfmt::skip]
    let table = [
        ("10.0.0.0/8",              Ok(1)),
        ("10.0.0.0/8,fd00::/16",    Ok(2)),
        ("",                        Err("--configure-cloud-routes needs --cluster-cidr, such as 10.244.0.0/16")),
        ("10.0.0.0/8,11.0.0.0/8",   Err("--cluster-cidr: of two ranges one must be IPv4 and the other IPv6")),
        ("10.0.0.0",                Err("--cluster-cidr: \"10.0.0.0\" is not a range such as 10.244.0.0/16")),
    ];
    for (text, want) in table {
        assert_eq!(ranges(text).map(|ranges| ranges.len()), want.map_err(str::to_owned), "{text}");
    }
}

proptest! {
    #[test]
    fn any_state_leads_to_a_settled_one(
        wanted in prop::collection::btree_map("[abc]", prop::collection::btree_set(0_u8..6, 0..3), 0..3),
        present in prop::collection::vec(("[abcd]", 0_u8..8, any::<bool>(), prop::option::of(1_u8..3)), 0..8),
    ) {
        let range = |n: u8| if n < 7 { format!("10.1.{n}.0/24") } else { "192.168.0.0/24".to_owned() };
        let words = wanted.iter().map(|(name, numbers)| {
            format!("{name}:{}", numbers.iter().map(|n| range(*n)).collect::<Vec<_>>().join(","))
        });
        let nodes = nodes(&words.collect::<Vec<_>>().join(" "));
        let words = present.iter().map(|(node, n, blackhole, address)| {
            let address = address.map(|n| format!("@10.0.0.{n}")).unwrap_or_default();
            format!("{}{node}:{}{address}", if *blackhole { "!" } else { "" }, range(*n))
        });
        let routes = routes(&words.collect::<Vec<_>>().join(" "));
        let ranges: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
        let view = View { nodes: &nodes, routes: &routes, ranges: &ranges };
        prop_assert_eq!(invariants::check(&view, &plan(&view)), Ok(()));
    }
}
