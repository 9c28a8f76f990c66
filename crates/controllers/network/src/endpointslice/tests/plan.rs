use std::sync::{Arc, LazyLock};

use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Service};
use proptest::prelude::*;
use serde_json::json;

use super::super::hint_states::HintState;
use super::super::hints::HintMode;
use super::super::invariants::check;
use super::super::plan::{Planned, View, Zones, plan};
use super::super::topology::{Allocated, Ratios};
use super::world::{applied, described, pod, service};
use crate::addresses::Family;

static NO_HINTS: LazyLock<HintState> = LazyLock::new(HintState::default);
static EQUAL_ZONES: LazyLock<Ratios> =
    LazyLock::new(|| [("zone-a".into(), 0.5), ("zone-b".into(), 0.5)].into_iter().collect());

fn zones() -> Zones {
    [("node-1".into(), Some("zone-a".into()))].into_iter().collect()
}

fn planned<'a>(
    service: &'a Service,
    pods: &'a [Arc<Pod>],
    zones: &'a Zones,
    slices: &'a [Arc<EndpointSlice>],
) -> Planned<'a> {
    planned_with(service, pods, zones, slices, &NO_HINTS)
}

fn planned_with<'a>(
    service: &'a Service,
    pods: &'a [Arc<Pod>],
    zones: &'a Zones,
    slices: &'a [Arc<EndpointSlice>],
    hints: &'a HintState,
) -> Planned<'a> {
    let ratios = Some(&*EQUAL_ZONES);
    let mode = HintMode::of(service, true);
    plan(&View { service, pods, zones, slices, capacity: 3, trigger: None, ratios, hints, mode })
}

fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(|text| Arc::new(pod(text))).collect()
}

/// The published endpoints: `NAME` with marks for ready, serving and terminating, in upper case if true.
fn published(service: &Service, text: &str) -> String {
    let (pods, zones) = (pods(text), zones());
    let plan = planned(service, &pods, &zones, &[]);
    let endpoints =
        plan.changes.iter().flat_map(|(_, changes)| &changes.create).flat_map(|slice| &slice.endpoints);
    let shown = endpoints.map(|endpoint| {
        let mark = |value: Option<bool>, mark: char| match value {
            Some(true) => mark.to_ascii_uppercase(),
            _ => mark,
        };
        let conditions = &endpoint.conditions;
        let name = endpoint.target_ref.as_ref().map(|target| target.name.as_str()).unwrap_or_default();
        format!(
            "{name}:{}{}{}",
            mark(conditions.ready, 'r'),
            mark(conditions.serving, 's'),
            mark(conditions.terminating, 't')
        )
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_are_published_with_their_conditions() {
    let (plain, all) = (service(json!({})), service(json!({"publishNotReadyAddresses": true})));
    #[rustfmt::skip]
    let table = [
        // pods          by default      all addresses
        ("a",            "a:RSt",        "a:RSt"),
        ("a!",           "a:rst",        "a:Rst"),
        ("a-",           "a:rST",        "a:RST"),
        ("a!-",          "a:rsT",        "a:RsT"),
        ("a? b. c",      "c:RSt",        "c:RSt"),
        ("a*",           "",             "a:RSt"),
    ];
    for (pods, by_default, everything) in table {
        assert_eq!(published(&plain, pods), by_default, "{pods}");
        assert_eq!(published(&all, pods), everything, "{pods}, all addresses");
    }
}

const FAILED: &str = "else event Warning FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service ns/web: <error>";

#[test]
fn a_pod_on_an_unknown_node_is_left_out_and_reported() {
    let (service, pods, zones) = (service(json!({})), pods("a* b"), zones());
    let want = format!(
        "\
each
  fail: skipping Pod a for Service ns/web: Node lost Not Found
  in sequence
    create EndpointSlice ns/web-*: 1 endpoints that do not fit into other slices
{FAILED}
waiting for Node/lost to exist"
    );
    assert_eq!(planned(&service, &pods, &zones, &[]).plan.to_string(), want);
}

#[test]
fn each_family_has_its_slices_and_those_of_a_removed_family_are_deleted() {
    let both = service(json!({"ipFamilies": ["IPv6", "IPv4"]}));
    let (pods, zones) = (pods("a"), zones());
    let first = planned(&both, &pods, &zones, &[]);
    let kinds: Vec<_> =
        first.changes.iter().map(|(family, changes)| (family.as_str(), changes.create.len())).collect();
    assert_eq!(kinds, [("IPv4", 1), ("IPv6", 1)]);
    let group =
        "  in sequence\n    create EndpointSlice ns/web-*: 1 endpoints that do not fit into other slices";
    assert_eq!(first.plan.to_string(), format!("each\n{group}\n{group}\n{FAILED}"));
    let slices: Vec<_> =
        first.changes.iter().enumerate().flat_map(|(at, (_, changes))| applied(changes, at)).collect();
    let one = service(json!({"ipFamilies": ["IPv6"]}));
    let second = planned(&one, &pods, &zones, &slices).plan.to_string();
    let delete = "  delete EndpointSlice ns/web-0-0: the Service no longer has this family";
    assert_eq!(second, format!("each\n{delete}\n{FAILED}"));
}

#[test]
fn no_slice_is_created_for_a_service_that_is_being_deleted() {
    let (mut service, pods, zones) = (service(json!({})), pods("a"), zones());
    service.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(planned(&service, &pods, &zones, &[]).plan.to_string(), "");
}

#[test]
fn written_slices_get_the_time_of_the_change() {
    let (service, pods, zones) = (service(json!({})), pods("a"), zones());
    let trigger = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let hints = HintState::default();
    let view = View {
        service: &service,
        pods: &pods,
        zones: &zones,
        slices: &[],
        capacity: 3,
        trigger,
        ratios: None,
        hints: &hints,
        mode: HintMode::None,
    };
    let body = plan(&view).plan.writes()[0].body().unwrap();
    let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"});
    assert_eq!(body["metadata"]["annotations"], annotations);
    assert_eq!(body["kind"], "EndpointSlice");
}

/// Services that ask, or do not ask, for hints in proportion to zones, with hints that were enabled before or not.
#[test]
fn events_report_hints_that_are_enabled_or_disabled() {
    let auto = |is_auto: bool| {
        let mut service = service(json!({}));
        let mode = is_auto.then_some(("service.kubernetes.io/topology-mode", "Auto"));
        service.metadata.annotations = mode.into_iter().collect();
        service
    };
    let mut zones = zones();
    zones.insert("node-2".into(), Some("zone-b".into()));
    let enabled =
        "event Normal TopologyAwareHintsEnabled: Topology Aware Hints has been enabled, addressType: IPv4";
    let few = "event Warning TopologyAwareHintsDisabled: Insufficient number of endpoints (1 endpoints, 2 zones), \
               addressType: IPv4";
    let disabled =
        "event Warning TopologyAwareHintsDisabled: Topology Aware Hints has been disabled, addressType: IPv4";
    #[rustfmt::skip]
    let table = [
        // asked  before  pods     event
        (true,    false,  "a b",   enabled),
        (true,    true,   "a b",   ""),
        (true,    true,   "a",     few),
        (true,    false,  "a",     few),
        (false,   true,   "a b",   disabled),
        (false,   false,  "a b",   ""),
    ];
    for (is_asked, was_enabled, names, want) in table {
        let (service, mut pods) = (auto(is_asked), pods(names));
        for pod in pods.iter_mut().skip(1) {
            Arc::make_mut(pod).spec.node_name = "node-2".into();
        }
        let mut before = HintState::default();
        if was_enabled {
            before.enable(Family::V4, Allocated::new());
        }
        let planned = planned_with(&service, &pods, &zones, &[], &before);
        let text = planned.plan.to_string();
        let events = text.lines().map(str::trim).filter(|line| line.starts_with("event "));
        assert_eq!(events.collect::<Vec<_>>().join("\n"), want, "{is_asked} {was_enabled} {names}");
        let mut after = planned.hints;
        let has_hints =
            planned.changes[0].1.create[0].endpoints.iter().all(|endpoint| endpoint.hints.is_some());
        assert_eq!(after.disable(Family::V4), has_hints, "{is_asked} {was_enabled} {names}");
    }
}

#[test]
fn without_endpoints_one_empty_slice_stays() {
    let (service, zones) = (service(json!({})), zones());
    let none = planned(&service, &[], &zones, &[]);
    assert_eq!(described(&none.changes[0].1), "create");
    let slices = applied(&none.changes[0].1, 0);
    assert_eq!(described(&planned(&service, &[], &zones, &slices).changes[0].1), "");

    let mut again = service.clone();
    again.metadata.uid = "1b0f3a52-93ab-4c1e-8d0f-0123456789ab".into();
    assert_eq!(described(&planned(&again, &[], &zones, &slices).changes[0].1), "", "of an earlier Service");

    let pods = pods("a");
    let filled = planned(&service, &pods, &zones, &slices);
    assert_eq!(described(&filled.changes[0].1), format!("update web-0-0: {}", pods[0].status.pod_ip()));
}

#[test]
fn named_ports_are_looked_up_in_each_pod_and_group_the_slices() {
    let named = json!([
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "http"},
    ]);
    let (service, zones) = (service(json!({"ports": named})), zones());
    let mut other = pod("b");
    other.spec.containers = Default::default();
    let pods = [Arc::new(pod("a")), Arc::new(other)];
    let plan = planned(&service, &pods, &zones, &[]);
    let ports: Vec<Vec<_>> = plan.changes[0]
        .1
        .create
        .iter()
        .map(|slice| {
            slice.ports.iter().map(|port| (port.name.as_deref().unwrap_or_default(), port.port)).collect()
        })
        .collect();
    assert_eq!(ports, [vec![], vec![("http", Some(8080))]]);
}

#[test]
fn slices_have_the_labels_of_the_service_and_the_headless_label() {
    let mut headless = service(json!({"clusterIP": "None"}));
    headless.metadata.labels =
        [("tier", "front"), ("endpointslice.kubernetes.io/managed-by", "me")].into_iter().collect();
    let zones = zones();
    let plan = planned(&headless, &[], &zones, &[]);
    let labels: Vec<_> = plan.changes[0].1.create[0].metadata.labels.iter().collect();
    let want = [
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
        ("kubernetes.io/service-name", "web"),
        ("service.kubernetes.io/headless", ""),
        ("tier", "front"),
    ];
    assert_eq!(labels, want);
}

proptest! {
    /// For any history of pods, every plan keeps the invariants and publishes exactly the pods, and a second plan has no
    /// writes.
    #[test]
    fn every_history_ends_without_writes(rounds in prop::collection::vec(prop::collection::btree_map(0_u8..12, 0_u8..6, 0..12), 1..6)) {
        let (service, zones) = (service(json!({})), zones());
        let mut slices: Vec<Arc<EndpointSlice>> = vec![];
        for (round, members) in rounds.iter().enumerate() {
            let name = |(number, state): (&u8, &u8)| {
                let name = "p".repeat(usize::from(*number) + 1);
                format!("{name}{}", ["", "", "!", "-", "?", "*"][usize::from(*state)])
            };
            let pods: Vec<_> = members.iter().map(name).map(|text| Arc::new(pod(&text))).collect();
            let plan = planned(&service, &pods, &zones, &slices);
            prop_assert_eq!(check(&plan.changes, 3), Ok(()));
            let after = applied(&plan.changes[0].1, round);
            let count: usize = after.iter().map(|slice| slice.endpoints.len()).sum();
            let want = pods.iter().filter(|pod| !pod.status.pod_ips.is_empty() && pod.spec.node_name == "node-1");
            prop_assert_eq!(count, want.count());
            let again = planned(&service, &pods, &zones, &after);
            prop_assert_eq!(described(&again.changes[0].1), "");
            prop_assert_eq!(again.plan.writes().len(), 0);
            slices = after;
        }
    }
}
