use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Service};
use proptest::prelude::*;
use serde_json::json;

use super::super::invariants::broken;
use super::super::plan::{Plan, View, Zones, plan};
use super::world::{applied, pod, service, told};

fn zones() -> Zones {
    [("node-1".into(), Some("zone-a".into()))].into_iter().collect()
}

fn planned<'a>(
    service: &'a Service,
    pods: &'a [Arc<Pod>],
    zones: &'a Zones,
    slices: &'a [Arc<EndpointSlice>],
) -> Plan<'a> {
    plan(&View { service, pods, zones, slices, capacity: 3 })
}

fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(|text| Arc::new(pod(text))).collect()
}

/// What is published: `NAME` with marks for ready, serving and terminating, in upper case when true.
fn published(service: &Service, text: &str) -> String {
    let (pods, zones) = (pods(text), zones());
    let plan = planned(service, &pods, &zones, &[]);
    let endpoints =
        plan.families.iter().flat_map(|(_, changes)| &changes.create).flat_map(|slice| &slice.endpoints);
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
fn pods_are_published_with_their_state() {
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

#[test]
fn a_pod_on_an_unknown_node_is_named() {
    let (service, pods, zones) = (service(json!({})), pods("a* b"), zones());
    let plan = planned(&service, &pods, &zones, &[]);
    let told: Vec<_> = plan.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["skipping Pod a for Service ns/web: Node lost Not Found"]);
}

#[test]
fn each_family_has_its_slices_and_those_of_a_lost_family_go() {
    let both = service(json!({"ipFamilies": ["IPv6", "IPv4"]}));
    let (pods, zones) = (pods("a"), zones());
    let first = planned(&both, &pods, &zones, &[]);
    let kinds: Vec<_> =
        first.families.iter().map(|(family, changes)| (family.as_str(), changes.create.len())).collect();
    assert_eq!(kinds, [("IPv4", 1), ("IPv6", 1)]);
    let slices: Vec<_> =
        first.families.iter().enumerate().flat_map(|(at, (_, changes))| applied(changes, at)).collect();
    let one = service(json!({"ipFamilies": ["IPv6"]}));
    let second = planned(&one, &pods, &zones, &slices);
    assert_eq!(second.outdated.len(), 1);
    assert_eq!(second.outdated[0].address_type, "IPv4");
    assert_eq!(told(&second.families[0].1), "");
}

#[test]
fn without_endpoints_one_empty_slice_stays() {
    let (service, zones) = (service(json!({})), zones());
    let none = planned(&service, &[], &zones, &[]);
    assert_eq!(told(&none.families[0].1), "create");
    let slices = applied(&none.families[0].1, 0);
    assert_eq!(told(&planned(&service, &[], &zones, &slices).families[0].1), "");

    let mut again = service.clone();
    again.metadata.uid = "1b0f3a52-93ab-4c1e-8d0f-0123456789ab".into();
    assert_eq!(told(&planned(&again, &[], &zones, &slices).families[0].1), "", "of an earlier Service");

    let pods = pods("a");
    let mut filled = planned(&service, &pods, &zones, &slices);
    filled.families[0].1.recycle(|_| true);
    assert_eq!(told(&filled.families[0].1), format!("update web-0-0: {}", pods[0].status.pod_ip()));
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
    let ports: Vec<Vec<_>> = plan.families[0]
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
fn slices_carry_the_labels_of_the_service_and_the_headless_mark() {
    let mut headless = service(json!({"clusterIP": "None"}));
    headless.metadata.labels =
        [("tier", "front"), ("endpointslice.kubernetes.io/managed-by", "me")].into_iter().collect();
    let zones = zones();
    let plan = planned(&headless, &[], &zones, &[]);
    let labels: Vec<_> = plan.families[0].1.create[0].metadata.labels.iter().collect();
    let want = [
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
        ("kubernetes.io/service-name", "web"),
        ("service.kubernetes.io/headless", ""),
        ("tier", "front"),
    ];
    assert_eq!(labels, want);
}

proptest! {
    /// Whatever pods come and go, every plan keeps the invariants, publishes exactly the pods, and a second look
    /// finds nothing to do.
    #[test]
    fn every_history_ends_settled(rounds in prop::collection::vec(prop::collection::btree_map(0_u8..12, 0_u8..6, 0..12), 1..6)) {
        let (service, zones) = (service(json!({})), zones());
        let mut slices: Vec<Arc<EndpointSlice>> = vec![];
        for (round, members) in rounds.iter().enumerate() {
            let name = |(number, state): (&u8, &u8)| {
                let name = "p".repeat(usize::from(*number) + 1);
                format!("{name}{}", ["", "", "!", "-", "?", "*"][usize::from(*state)])
            };
            let pods: Vec<_> = members.iter().map(name).map(|text| Arc::new(pod(&text))).collect();
            let mut plan = planned(&service, &pods, &zones, &slices);
            for (_, changes) in &mut plan.families {
                changes.recycle(|_| true);
            }
            prop_assert_eq!(broken(&plan, 3), Vec::<String>::new());
            let after = applied(&plan.families[0].1, round);
            let count: usize = after.iter().map(|slice| slice.endpoints.len()).sum();
            let want = pods.iter().filter(|pod| !pod.status.pod_ips.is_empty() && pod.spec.node_name == "node-1");
            prop_assert_eq!(count, want.count());
            let again = planned(&service, &pods, &zones, &after);
            prop_assert_eq!(told(&again.families[0].1), "");
            slices = after;
        }
    }
}
