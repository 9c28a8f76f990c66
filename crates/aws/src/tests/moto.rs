//! The parts of the cloud against moto.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Node, Service};
use flyball_cloud::conformance::{self, node, service};
use flyball_cloud::{Instances as _, LoadBalancers as _, Route, Routes as _};
use flyball_runtime::Chain;
use serde_json::{Value, json};

use super::world::{Machine, World};
use crate::balancers::plan::SCHEME;
use crate::query::Parameters;

const CLUSTER: &str = "test";
const BALANCERS: &str = "loadBalancers: {}\n";

fn initialised(machine: &Machine) -> Arc<Node> {
    Arc::new(node(&machine.name, &format!("aws:///eu-central-1a/{}", machine.id)))
}

fn route(machine: &Machine, destination: &str) -> Route {
    Route { node: machine.name.as_str().into(), destination: destination.into(), ..Route::default() }
}

fn web(name: &str) -> Service {
    service(name, &["IPv4"])
}

fn names(answer: &Value, list: &str, name: &str) -> BTreeSet<String> {
    let all = answer[list].as_array().unwrap().iter();
    all.map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

/// The error of a call, whole.
fn failure<T: std::fmt::Debug>(result: Result<T, flyball_cloud::CloudError>) -> String {
    Chain(&result.unwrap_err()).to_string()
}

#[tokio::test]
async fn with_every_signature_verified_the_cloud_passes_the_conformance_suite() {
    let Some(mut world) = World::start("with_every_signature_verified", 3) else { return };
    let token = world.file("token", "a.token.of.the.cluster");
    let role = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap().to_owned()),
        ("AWS_ROLE_ARN", world.facts.role.clone()),
    ];
    // This call has no signature.
    let assumed = world.parts(&role, "").await;
    world.done("", "check_signatures", json!({}));

    let facts = &world.facts;
    let running = [node(&facts.running[0].name, ""), Node::clone(&initialised(&facts.running[1]))];
    let suite = conformance::World {
        cluster: CLUSTER.to_owned(),
        running: running.into(),
        stopped: vec![Node::clone(&initialised(&facts.stopped)), node(&facts.stopped.name, "")],
        gone: vec![
            Node::clone(&initialised(&facts.terminated)),
            node("never", "aws:///eu-central-1a/i-0123456789abcdef0"),
        ],
        ranges: ["10.244.0.0/24", "10.244.1.0/24"].map(str::to_owned).into(),
        ..conformance::World::new(world.parts(&world.key(), BALANCERS).await.cloud())
    };
    let report = conformance::check(&suite).await;
    let skipped: Vec<&str> = report.skipped().map(|(check, _)| check).collect();
    assert!(report.is_passed(), "{report}");
    assert_eq!(skipped, ["a Service of two families has an address of each"], "{report}");

    // Temporary keys have a token, which is signed, too.
    let machine = initialised(&facts.running[0]);
    assert!(assumed.machines.exists(&machine).await.unwrap());
    let id = facts.key.access_key_id.clone();
    let wrong = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", "wrong".to_owned())];
    let wrong = world.parts(&wrong, BALANCERS).await;
    let shown = failure(wrong.machines.exists(&machine).await);
    assert!(shown.starts_with("DescribeInstances: AuthFailure: "), "{shown}");
    let shown = failure(wrong.balancers.unwrap().get(CLUSTER, &web("a")).await);
    assert!(shown.starts_with("DescribeLoadBalancers: SignatureDoesNotMatch: "), "{shown}");

    for (call, list) in
        [("describe_load_balancers", "LoadBalancers"), ("describe_target_groups", "TargetGroups")]
    {
        assert_eq!(world.done("elbv2", call, json!({}))[list], json!([]), "nothing is left");
    }
}

#[tokio::test]
async fn routes_to_more_machines_than_a_page_has_are_found_and_those_of_others_stay() {
    const MACHINES: usize = 120;
    let Some(mut world) = World::start("routes_to_more_machines_than_a_page_has", MACHINES) else { return };
    let table = world.parts(&world.key(), "").await.table.unwrap();
    let id = world.facts.table.clone();
    let (gateway, foreign) = (world.facts.gateway.clone(), "10.244.255.0/24");
    for destination in [foreign, "0.0.0.0/0"] {
        let with = json!({"RouteTableId": id, "DestinationCidrBlock": destination, "GatewayId": gateway});
        world.done("ec2", "create_route", with);
    }
    let wanted: Vec<Route> = world
        .facts
        .running
        .iter()
        .zip(0..)
        .map(|(machine, n)| route(machine, &format!("10.244.{n}.0/24")))
        .collect();
    for route in &wanted {
        table.create(CLUSTER, "", route).await.unwrap();
    }
    let brief = |routes: &[Route]| -> BTreeSet<(String, String)> {
        routes.iter().map(|route| (route.destination.to_string(), route.node.to_string())).collect()
    };
    let listed = table.list(CLUSTER).await.unwrap();
    assert_eq!((listed.len(), brief(&listed)), (MACHINES, brief(&wanted)));
    assert!(listed.iter().all(|route| !route.is_blackhole));
    let asked = json!({"Attribute": "sourceDestCheck", "InstanceId": world.facts.running[119].id});
    let checked = world.done("ec2", "describe_instance_attribute", asked);
    assert_eq!(checked["SourceDestCheck"]["Value"], json!(false));

    // A range that moves to another node leads there; it is not there twice.
    let moved = route(&world.facts.running[1], "10.244.0.0/24");
    table.create(CLUSTER, "", &moved).await.unwrap();
    let listed = table.list(CLUSTER).await.unwrap();
    assert!(
        listed.len() == MACHINES
            && brief(&listed).contains(&("10.244.0.0/24".into(), moved.node.to_string()))
    );

    let node = &world.facts.running[0];
    #[rustfmt::skip]
    let refused = [
        (CLUSTER, route(node, foreign),                "there is a route for 10.244.255.0/24 that is not ours"),
        (CLUSTER, route(node, "10.0.0.0/24"),          "10.0.0.0/24 is not within --cluster-cidr, 10.244.0.0/16"),
        (CLUSTER, route(node, "10.244.0.0/20"),        "10.244.0.0/20 overlaps 10.244.0.0/24"),
        (CLUSTER, route(&world.facts.terminated, "10.244.200.0/24"), "0 instances in vpc-"),
        ("other", route(node, "10.244.200.0/24"),      "0 route tables of vpc-"),
    ];
    for (cluster, route, want) in refused {
        let shown = failure(table.create(cluster, "", &route).await);
        assert!(shown.starts_with(want), "{shown}");
    }
    table.delete(CLUSTER, &route(node, foreign)).await.unwrap();
    for route in &wanted {
        table.delete(CLUSTER, route).await.unwrap();
    }
    assert_eq!(table.list(CLUSTER).await.unwrap(), []);
    let left = world.done("ec2", "describe_route_tables", json!({"RouteTableIds": [id]}));
    let left = names(&left["RouteTables"][0], "Routes", "DestinationCidrBlock");
    assert_eq!(left, BTreeSet::from(["10.0.0.0/16", "0.0.0.0/0", foreign].map(str::to_owned)));
}

#[tokio::test]
async fn sixty_load_balancers_are_kept_apart_and_those_of_others_stay() {
    const COUNT: usize = 60;
    let Some(mut world) = World::start("sixty_load_balancers_are_kept_apart", 2) else { return };
    let balancers = world.parts(&world.key(), BALANCERS).await.balancers.unwrap();
    let both: Vec<Arc<Node>> = world.facts.running.iter().map(initialised).collect();
    let services: Vec<Service> = (0..COUNT).map(|number| web(&format!("s{number}"))).collect();
    for service in &services {
        let status = balancers.ensure(CLUSTER, service, &both).await.unwrap();
        assert_eq!(balancers.get(CLUSTER, service).await.unwrap(), Some(status));
    }
    let pages = balancers.elb.api.pages("DescribeLoadBalancers", &Parameters::new()).await.unwrap();
    let pages: Vec<usize> = pages.iter().map(|page| page.list("LoadBalancers").count()).collect();
    assert_eq!(pages, [50, 10], "moto has pages of 50");

    // A machine that is stopped does not keep the others out; one that leaves goes.
    let one = [both[0].clone(), initialised(&world.facts.stopped)];
    balancers.update(CLUSTER, &services[0], &one).await.unwrap();
    let groups = world.done("elbv2", "describe_target_groups", json!({"Names": ["aconformances0-80-tcp"]}));
    let group = groups["TargetGroups"][0].clone();
    assert_eq!((&group["HealthCheckPort"], &group["HealthCheckPath"]), (&json!("10256"), &json!("/healthz")));
    let health =
        world.done("elbv2", "describe_target_health", json!({"TargetGroupArn": group["TargetGroupArn"]}));
    let targets: Vec<&Value> = health["TargetHealthDescriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| &target["Target"])
        .collect();
    assert_eq!(targets.len(), 1, "{targets:?}");
    assert_eq!((&targets[0]["Id"], &targets[0]["Port"]), (&json!(world.facts.running[0].id), &json!(30080)));

    // One subnet of each zone.
    let found = world.done("elbv2", "describe_load_balancers", json!({"Names": ["aconformances0"]}));
    let zones = found["LoadBalancers"][0]["AvailabilityZones"].as_array().unwrap().len();
    assert_eq!((zones, world.facts.subnets.len()), (2, 3));

    // Somebody else's, by the same names.
    let taken = web("taken");
    let with = json!({"Name": "aconformancetaken", "Type": "network", "Subnets": [world.facts.subnets[0]]});
    world.done("elbv2", "create_load_balancer", with);
    for shown in [
        failure(balancers.ensure(CLUSTER, &taken, &both).await),
        failure(balancers.get(CLUSTER, &taken).await),
        failure(balancers.delete(CLUSTER, &taken).await),
        failure(balancers.delete("other", &services[0]).await),
    ] {
        assert!(shown.contains("does not have the tag kubernetes.io/cluster/"), "{shown}");
    }
    let vpc = world.facts.vpc.clone();
    let with = json!({"Name": "aconformances1-81-tcp", "Protocol": "TCP", "Port": 1, "VpcId": vpc});
    world.done("elbv2", "create_target_group", with);
    let shown = failure(balancers.ensure(CLUSTER, &services[1], &both).await);
    assert!(shown.starts_with("the target group aconformances1-81-tcp does not have the tag"), "{shown}");
    let mut internal = services[2].clone();
    let annotation = json!({SCHEME: "internal"});
    internal.metadata.annotations = serde_json::from_value(annotation).unwrap();
    let shown = failure(balancers.ensure(CLUSTER, &internal, &both).await);
    assert!(shown.contains("is internet-facing, and its Service asks for internal"), "{shown}");

    for service in services.iter().filter(|service| service.metadata.name != "s1") {
        balancers.delete(CLUSTER, service).await.unwrap();
    }
    let left = world.done("elbv2", "describe_load_balancers", json!({}));
    let left = names(&left, "LoadBalancers", "LoadBalancerName");
    assert_eq!(left, BTreeSet::from(["aconformances1", "aconformancetaken"].map(str::to_owned)));
    let left = world.done("elbv2", "describe_target_groups", json!({}));
    let left = names(&left, "TargetGroups", "TargetGroupName");
    assert_eq!(left, BTreeSet::from(["aconformances1-80-tcp", "aconformances1-81-tcp"].map(str::to_owned)));
}
