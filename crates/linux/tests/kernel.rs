//! The kernel's side of every operation, in a network namespace of its own. Skipped where there can be none.

#![allow(clippy::unwrap_used)] // helpers of tests, outside of them

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_cloud::conformance::{self, World, node, service};
use flyball_cloud::kit::ConfigFile;
use flyball_linux::balancer::{Backend, Balancer, Held, Port, Protocol};
use flyball_linux::kernel::{Kernel, Linux, PodRoute};
use flyball_linux::plan::{Lifetime, Operation, Plan, Wanted, plan};
use flyball_runtime::Metrics;
use ipnet::IpNet;
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

const OURS: Linux = Linux { protocol: 170 };

/// Runs a test on a thread in a new network namespace with the interface `lan`; false if that cannot be.
fn isolated(test: &'static str, body: fn()) {
    let run = move || -> Result<(), String> {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("unshare cannot make a network namespace: {error}"))?;
        ip("link add lan type veth peer name other").map_err(|error| format!("no veth pair: {error}"))?;
        #[rustfmt::skip]
        let commands = [
            // No link-local addresses, which come later.
            "link set lan addrgenmode none", "link set other addrgenmode none", "addr add 192.0.2.2/24 dev lan",
            "link set lan up", "link set other up", "link set lo up",
        ];
        for command in commands {
            ip(command)?;
        }
        body();
        Ok(())
    };
    if let Err(why) = std::thread::spawn(run).join().expect(test) {
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
    }
}

fn ip(arguments: &str) -> Result<String, String> {
    let output =
        Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Addresses and routes, whether the link has come up meanwhile or not.
fn state() -> [String; 3] {
    let shown = |what: &str| ip(what).unwrap().replace("linkdown ", "");
    ["-o addr show", "route show", "-6 route show"].map(shown)
}

fn balancer(name: &str, addresses: &[&str]) -> Balancer {
    let held = |address: &&str| Held { address: address.parse().unwrap(), interface: "lan".into() };
    let mut service = service(name, &["IPv4"]);
    let mut spec = serde_json::to_value(&service).unwrap()["spec"].clone();
    spec["ports"] = json!([
        {"protocol": "TCP", "port": 80, "nodePort": 30080},
        {"protocol": "UDP", "port": 53, "nodePort": 30053},
    ]);
    spec["sessionAffinity"] = json!("ClientIP");
    spec["loadBalancerSourceRanges"] = json!(["192.0.2.0/24", "2001:db8::/32"]);
    service.spec = serde_json::from_value(spec).unwrap();
    let mut balancer = Balancer::new(&service, addresses.iter().map(held).collect(), &[], false).unwrap();
    balancer.backends = (1..=700_u16).map(backend).collect();
    balancer
}

fn backend(number: u16) -> Backend {
    let addresses = [format!("10.0.{}.{}", number / 256, number % 256), format!("fd00::{number:x}")];
    Backend {
        node: format!("n{number}").into(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        is_idle: false,
    }
}

fn reconcile(balancers: &[&Balancer], lifetime: Lifetime) -> Vec<String> {
    let Plan { operations, .. } =
        plan(&Wanted { balancers: balancers.to_vec(), lifetime }, &OURS.observe().unwrap());
    for operation in &operations {
        OURS.apply(operation).unwrap_or_else(|error| panic!("{operation}: {error}"));
    }
    operations.iter().map(Operation::to_string).collect()
}

#[test]
fn what_is_applied_is_seen_and_then_there_is_nothing_to_do() {
    isolated("what_is_applied_is_seen_and_then_there_is_nothing_to_do", || {
        let before = state();
        let (web, dns) =
            (balancer("web", &["192.0.2.200", "2001:db8::200"]), balancer("dns", &["192.0.2.201"]));
        let first = reconcile(&[&web, &dns], Lifetime::Forever);
        assert!(first[0].starts_with("replace the table with "), "{first:?}");
        assert_eq!(first.len(), 1 + 3 * 2, "{first:?}");
        assert_eq!(reconcile(&[&web, &dns], Lifetime::Forever), Vec::<String>::new());
        // Another process finds the same.
        assert_eq!(reconcile(&[&web], Lifetime::Forever).len(), 2);
        assert_eq!(reconcile(&[], Lifetime::Forever).len(), 3);
        assert_eq!(reconcile(&[], Lifetime::Forever), Vec::<String>::new());
        assert_eq!(state(), before);
    });
}

#[test]
fn the_provider_passes_the_conformance_suite_and_leaves_the_kernel_as_it_was() {
    isolated("the_provider_passes_the_conformance_suite_and_leaves_the_kernel_as_it_was", || {
        let before = state();
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "
machines: [{name: n1, addresses: [192.0.2.11]}, {name: n2, addresses: [192.0.2.12], state: stopped}]
loadBalancers: {pools: [{interface: lan, addresses: [192.0.2.200/29, '2001:db8::/125']}]}
routes: {}
";
        std::fs::write(file.path(), text).unwrap();
        let file = Arc::new(ConfigFile::open(file.path()).unwrap());
        let settings = flyball_linux::Settings {
            lifetime: Lifetime::Forever,
            cluster_ranges: vec!["10.244.0.0/16".parse().unwrap()],
        };
        let cloud = flyball_linux::cloud(file, Arc::new(OURS), settings, &Metrics::default());
        let addresses = json!([{"type": "InternalIP", "address": "192.0.2.11"}]);
        let n1 = json!({"metadata": {"name": "n1"}, "status": {"addresses": addresses}});
        let world = World {
            running: vec![serde_json::from_value(n1).unwrap()],
            stopped: vec![node("n2", "")],
            gone: vec![node("n3", "linux://n3")],
            ranges: ["10.244.0.0/24", "10.244.1.0/24"].map(str::to_owned).into(),
            is_dual_stack: true,
            ..World::new(cloud)
        };
        // Of one thread, so that all work is done in this namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let report = runtime.block_on(conformance::check(&world));
        assert!(report.is_passed() && report.skipped().count() == 0, "{report}");
        assert_eq!(state(), before);
    });
}

#[test]
fn what_others_flush_is_made_again() {
    isolated("what_others_flush_is_made_again", || {
        let web = balancer("web", &["192.0.2.200"]);
        reconcile(&[&web], Lifetime::Forever);
        ip("addr del 192.0.2.200/32 dev lan").unwrap();
        OURS.apply(&Operation::DeleteTable).unwrap();
        assert_eq!(reconcile(&[&web], Lifetime::Forever).len(), 3);
        assert_eq!(reconcile(&[&web], Lifetime::Forever), Vec::<String>::new());
    });
}

#[test]
fn an_address_that_is_not_renewed_is_gone() {
    isolated("an_address_that_is_not_renewed_is_gone", || {
        let web = balancer("web", &["192.0.2.200", "2001:db8::200"]);
        let held = || OURS.observe().unwrap().addresses.iter().filter(|address| address.is_ours).count();
        let lifetime = Lifetime::For(Duration::from_secs(1));
        reconcile(&[&web], lifetime);
        assert_eq!(held(), 2);
        // Renewed, although nothing has changed.
        assert_eq!(reconcile(&[&web], lifetime).len(), 2);
        let began = Instant::now();
        while held() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "{}", ip("addr show").unwrap());
            std::thread::yield_now();
        }
    });
}

#[test]
fn addresses_of_others_are_conflicts_and_stay() {
    isolated("addresses_of_others_are_conflicts_and_stay", || {
        ip("addr add 192.0.2.200/24 dev lan").unwrap();
        let (web, dns) = (balancer("web", &["192.0.2.200"]), balancer("dns", &["192.0.2.201"]));
        let seen = OURS.observe().unwrap();
        let plan = plan(&Wanted { balancers: vec![&web, &dns], lifetime: Lifetime::Forever }, &seen);
        let conflicts: Vec<IpAddr> = plan.conflicts.keys().copied().collect();
        assert_eq!(conflicts, ["192.0.2.200".parse::<IpAddr>().unwrap()]);
        plan.operations.iter().for_each(|operation| OURS.apply(operation).unwrap());
        assert!(OURS.observe().unwrap().rules.iter().all(|(_, rule)| !rule.contains("192.0.2.200")));
        reconcile(&[], Lifetime::Forever);
        assert!(ip("addr show dev lan").unwrap().contains("192.0.2.200/24"));
    });
}

#[test]
fn routes_are_ours_by_their_number_and_blackholes_are_seen() {
    isolated("routes_are_ours_by_their_number_and_blackholes_are_seen", || {
        ip("addr add 2001:db8::2/64 dev lan nodad").unwrap();
        ip("route add 10.244.7.0/24 via 192.0.2.7").unwrap();
        ip("route add blackhole 10.244.9.0/24 proto 170").unwrap();
        let route = |destination: &str, via: &str| PodRoute {
            destination: destination.parse().unwrap(),
            via: Some(via.parse().unwrap()),
        };
        let (v4, v6) = (route("10.244.1.0/24", "192.0.2.11"), route("2001:db8:1::/64", "2001:db8::11"));
        let hole = PodRoute { destination: "10.244.9.0/24".parse().unwrap(), via: None };
        OURS.add_route(&v4).unwrap();
        OURS.add_route(&v6).unwrap();
        let seen: BTreeSet<PodRoute> = OURS.routes().unwrap().into_iter().collect();
        assert_eq!(seen, BTreeSet::from([hole.clone(), v4.clone(), v6.clone()]));
        // Neither replaced nor deleted: it is not ours.
        let foreign = route("10.244.7.0/24", "192.0.2.7");
        assert_eq!(OURS.add_route(&foreign).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        OURS.delete_route(&foreign).unwrap();
        assert!(ip("route show").unwrap().contains("10.244.7.0/24 via 192.0.2.7"));
        for route in [&v4, &v6, &hole] {
            OURS.delete_route(route).unwrap();
            OURS.delete_route(route).unwrap();
        }
        assert_eq!(OURS.routes().unwrap(), []);
    });
}

#[test]
fn an_interface_that_is_missing_is_named() {
    isolated("an_interface_that_is_missing_is_named", || {
        let held = Held { address: "192.0.2.200".parse().unwrap(), interface: "wan".into() };
        for operation in [Operation::Hold(held.clone(), Lifetime::Forever), Operation::Announce(held)] {
            let error = OURS.apply(&operation).unwrap_err().to_string();
            assert_eq!(error, "there is no interface \"wan\"");
        }
        let kernel: Arc<dyn Kernel> = Arc::new(OURS);
        assert_eq!(kernel.forget_flows(&|_| true).unwrap(), 0);
    });
}

/// A machine behind the interface `other`, with an address.
fn on_the_other_side(address: &str) -> Result<impl Sized + use<>, String> {
    struct Gone(String);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = ip(&format!("netns del {}", self.0));
        }
    }
    let name = format!("flyball-other-{}-{:?}", std::process::id(), std::thread::current().id())
        .replace(['(', ')'], "");
    ip(&format!("netns add {name}"))?;
    let gone = Gone(name.clone());
    ip(&format!("link set other netns {name}"))?;
    ip(&format!("-n {name} addr add {address} dev other"))?;
    ip(&format!("-n {name} link set other up"))?;
    Ok(gone)
}

#[test]
fn an_address_of_another_machine_is_found_out() {
    isolated("an_address_of_another_machine_is_found_out", || {
        let _machine = on_the_other_side("192.0.2.9/24").unwrap();
        let held = |address: &str| Held { address: address.parse().unwrap(), interface: "lan".into() };
        let before = ip("neigh show").unwrap();
        assert!(OURS.is_elsewhere(&held("192.0.2.9")).unwrap());
        assert!(!OURS.is_elsewhere(&held("192.0.2.10")).unwrap());
        // Known from before, it is asked again.
        ip("neigh replace 192.0.2.11 lladdr 02:00:00:00:00:01 dev lan nud reachable").unwrap();
        assert!(!OURS.is_elsewhere(&held("192.0.2.11")).unwrap());
        assert_eq!(ip("neigh show").unwrap(), before);
    });
}

#[test]
fn as_many_rules_as_there_may_be_are_replaced_in_a_fraction_of_a_lifetime() {
    isolated("as_many_rules_as_there_may_be_are_replaced_in_a_fraction_of_a_lifetime", || {
        let large = |number: u16| {
            let mut large = balancer("large", &[]);
            large.addresses =
                vec![Held { address: format!("192.0.3.{number}").parse().unwrap(), interface: "lan".into() }];
            large.ports =
                (1..=256).map(|port| Port { protocol: Protocol::Tcp, port, node_port: port }).collect();
            large.sources = (0..1000_u32)
                .map(|at| format!("{}/32", Ipv4Addr::from(0x1e00_0000 + 2 * (1000 * u32::from(number) + at))))
                .map(|range| range.parse().unwrap())
                .collect();
            large
        };
        let all: Vec<Balancer> = (1..=86).map(large).collect();
        let weight: usize = all.iter().map(Balancer::weight).sum();
        assert!((195_000..200_000).contains(&weight), "{weight}");
        let all: Vec<&Balancer> = all.iter().collect();
        let began = Instant::now();
        assert!(reconcile(&all, Lifetime::Forever)[0].starts_with("replace the table with "));
        println!("the largest table takes {:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(reconcile(&all, Lifetime::Forever), Vec::<String>::new());
        println!("and {:?} to be compared", began.elapsed());
    });
}

#[test]
fn ranges_that_end_where_addresses_end_are_sets_too() {
    isolated("ranges_that_end_where_addresses_end_are_sets_too", || {
        let ranges = ["0.0.0.0/0", "::/0", "255.255.255.0/24", "0.0.0.0/8", "10.0.0.0/8", "10.0.0.1/32"];
        for sources in [&ranges[..], &ranges[..2], &ranges[2..5], &ranges[5..]] {
            let mut web = balancer("web", &["192.0.2.200", "2001:db8::200"]);
            web.sources = IpNet::aggregate(&sources.iter().map(|range| range.parse().unwrap()).collect());
            reconcile(&[&web], Lifetime::Forever);
            assert_eq!(reconcile(&[&web], Lifetime::Forever), Vec::<String>::new(), "{sources:?}");
        }
    });
}

#[test]
fn a_default_route_with_our_number_is_seen_and_can_be_removed() {
    isolated("a_default_route_with_our_number_is_seen_and_can_be_removed", || {
        ip("route add default via 192.0.2.1 proto 170").unwrap();
        let seen = OURS.routes().unwrap();
        let want =
            PodRoute { destination: "0.0.0.0/0".parse().unwrap(), via: Some("192.0.2.1".parse().unwrap()) };
        assert_eq!(seen, std::slice::from_ref(&want));
        OURS.delete_route(&want).unwrap();
        assert_eq!(OURS.routes().unwrap(), []);
    });
}
