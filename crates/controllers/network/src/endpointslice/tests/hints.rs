use std::sync::Arc;

use flyball_api::Node;
use serde_json::json;

use super::super::hint_states::HintState;
use super::super::hints::{HintMode, clear, prefer_close};
use super::super::packing::Changes;
use super::super::topology::{Allocated, Disabled, Ratios, assign, is_overloaded, ratios};
use super::world::{described, service, slices};
use crate::addresses::Family;

fn changes<'a>(unchanged: &'a [flyball_api::EndpointSlice], update: &str) -> Changes<'a> {
    Changes { unchanged: unchanged.iter().collect(), update: slices(update), ..Changes::default() }
}

#[test]
fn endpoints_are_hinted_to_their_zone_and_node() {
    #[rustfmt::skip]
    let table = [
        // case                          unchanged           to be written   same zone                     same node
        ("written ones are hinted",      "",                 "x: a@1 b@2",   "update x: a>1 b>2",          "update x: a>1>node-1 b>2>node-2"),
        ("good hints stay",              "x: a@1>1",         "",             "",                           "update x: a>1>node-1"),
        ("missing hints are given",      "x: a@1",           "",             "update x: a>1",              "update x: a>1>node-1"),
        ("wrong hints are righted",      "x: a@1>2",         "",             "update x: a>1",              "update x: a>1>node-1"),
        ("those not ready do not count", "x: a!@1",          "",             "",                           ""),
        ("no zone, no hint",             "x: a>1",           "",             "update x: a",                "update x: a"),
    ];
    for (case, unchanged, update, same_zone, same_node) in table {
        let unchanged = slices(unchanged);
        for (wanted, node) in [(same_zone, false), (same_node, true)] {
            let mut changes = changes(&unchanged, update);
            prefer_close(&mut changes, node);
            assert_eq!(described(&changes), wanted, "{case}, same node: {node}");
        }
    }
}

#[test]
fn hints_are_removed_when_none_are_asked_for() {
    let unchanged = slices("x: a@1>1 b@2; y: c@1");
    let mut changes = changes(&unchanged, "z: d@1>1");
    clear(&mut changes);
    assert_eq!(described(&changes), "update z: d; update x: a b");
}

#[test]
fn annotations_take_precedence_over_the_field() {
    #[rustfmt::skip]
    let table = [
        // older    newer           field                    mode
        (None,         None,        None,                    HintMode::None),
        (None,         Some("Auto"), Some("PreferClose"),    HintMode::Auto),
        (Some("auto"), Some("x"),   None,                    HintMode::Auto),
        (Some("x"),    Some("Auto"), Some("PreferClose"),    HintMode::SameZone),
        (None,         None,        Some("PreferSameZone"),  HintMode::SameZone),
        (None,         None,        Some("PreferSameNode"),  HintMode::SameNode),
        (None,         None,        Some("example.com/far"), HintMode::None),
    ];
    for (older, newer, field, want) in table {
        let mut service = service(json!({"trafficDistribution": field}));
        let annotations = [
            ("service.kubernetes.io/topology-aware-hints", older),
            ("service.kubernetes.io/topology-mode", newer),
        ];
        service.metadata.annotations =
            annotations.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        assert_eq!(HintMode::of(&service, true), want, "{older:?} {newer:?} {field:?}");
    }
}

/// Nodes from `ZONE:CPUS`, with `!` for one that is not ready and `#` for a control plane.
fn nodes(text: &str) -> Vec<Arc<Node>> {
    let node = |text: &str| {
        let (zone, cpu) = text.trim_matches(['!', '#']).split_once(':').unwrap();
        let mut labels = json!({"topology.kubernetes.io/zone": zone});
        if text.ends_with('#') {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
        }
        let ready = if text.starts_with('!') { "False" } else { "True" };
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let status = json!({"allocatable": {"cpu": cpu}, "conditions": conditions});
        Arc::new(serde_json::from_value(json!({"metadata": {"labels": labels}, "status": status})).unwrap())
    };
    text.split_whitespace().map(node).collect()
}

#[test]
fn zones_count_by_the_cpus_of_their_ready_nodes() {
    #[rustfmt::skip]
    let table = [
        ("a:1 b:3",           "a=0.25 b=0.75"),
        ("a:500m b:1 a:500m", "a=0.50 b=0.50"),
        ("a:1 b:1 !b:9 c:8#", "a=0.50 b=0.50"),
        ("a:1 a:2",           "none"),
        ("a:1 b:0",           "none"),
        ("a:1 :1",            "none"),
    ];
    for (text, want) in table {
        let got = ratios(&nodes(text)).map_or("none".to_owned(), |ratios| {
            ratios.iter().map(|(zone, part)| format!("{zone}={part:.2}")).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn endpoints_are_allocated_in_proportion_to_the_size_of_zones() {
    #[rustfmt::skip]
    let table = [
        // case                           nodes      unchanged                 to be written              result
        ("balanced",                      "a:1 b:1", "",                       "x: 1@a 2@b",              "update x: 1>a 2>b"),
        ("one zone gives to the other",   "a:1 b:1", "",                       "x: 1@a 2@a 3@a 4@b",      "update x: 1>b 2>a 3>a 4>b"),
        ("valid hints are not changed",   "a:1 b:1", "x: 1@a>a 2@b>b",         "",                        ""),
        ("a hint for a removed zone",      "a:1 b:1", "x: 1@a>c 2@b>b",        "",                        "update x: 1>a 2>b"),
        ("those not ready do not count",  "a:1 b:1", "",                       "x: 1@a 2@b 3!@b",         "update x: 1>a 2>b 3!"),
    ];
    for (case, zones, unchanged, update, want) in table {
        let unchanged = slices(unchanged);
        let mut changes = changes(&unchanged, update);
        assign(&mut changes, ratios(&nodes(zones)).as_ref()).unwrap();
        assert_eq!(described(&changes), want, "{case}");
    }
}

#[test]
fn hints_are_disabled_where_they_would_overload_endpoints() {
    #[rustfmt::skip]
    let table = [
        ("a:1",             "x: 1@a 2@a",        Disabled::NodeInfo),
        ("a:1 b:1 c:1",     "x: 1@a 2@b",        Disabled::FewEndpoints(2, 3)),
        ("a:10 b:1 c:1",    "x: 1@a 2@b 3@c",    Disabled::Overload(3, 3)),
        ("a:1 b:1",         "x: 1@a 2",          Disabled::NoZone),
    ];
    for (zones, update, want) in table {
        let got = assign(&mut changes(&[], update), ratios(&nodes(zones)).as_ref());
        assert_eq!(got, Err(want), "{zones} {update}");
    }
}

#[test]
fn hints_are_disabled_until_a_node_is_seen() {
    let got = assign(&mut changes(&[], "x: 1@a 2@b"), Some(&Ratios::new()));
    assert_eq!(got, Err(Disabled::NoNodes));
}

#[test]
fn events_report_hints_once_for_all_families() {
    let mut state = HintState::default();
    #[rustfmt::skip]
    let steps = [
        // change                  event
        ("enable",  Family::V4,    true),
        ("enable",  Family::V6,    false),
        ("enable",  Family::V4,    false),
        ("disable", Family::V6,    true),
        ("disable", Family::V4,    false),
        ("enable",  Family::V6,    true),
    ];
    for (step, (change, family, want)) in steps.into_iter().enumerate() {
        let event = match change {
            "enable" => state.enable(family, Allocated::new()),
            _ => state.disable(family),
        };
        assert_eq!(event, want, "step {step}: {change} {family:?}");
    }
}

#[test]
fn a_service_is_synced_when_a_zone_has_too_few_endpoints() {
    #[rustfmt::skip]
    let table = [
        // zones            nodes          overloaded
        ("a=5 b=5",         "a:1 b:1",     false),
        ("a=5 b=5",         "a:3 b:1",     true),
        ("a=5 b=5",         "a:1 b:1 c:1", true),
        ("a=5 b=5",         "a:1",         true),
        ("",                "a:1",         false),
    ];
    for (zones, text, want) in table {
        let count =
            |part: &str| part.split_once('=').map(|(zone, count)| (zone.into(), count.parse().unwrap()));
        let allocated: Allocated = zones.split_whitespace().filter_map(count).collect();
        assert_eq!(is_overloaded(&allocated, ratios(&nodes(text)).as_ref()), want, "{zones} {text}");
    }
}

#[test]
fn without_the_gate_only_the_older_word_is_known() {
    let mode = |field: &str| HintMode::of(&service(json!({"trafficDistribution": field})), false);
    let words = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    assert_eq!(words.map(mode), [HintMode::SameZone, HintMode::None, HintMode::None]);
}
