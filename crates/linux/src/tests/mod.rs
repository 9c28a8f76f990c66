//! The pure parts by tables, and the whole provider over a kernel that is only memory.

mod balancer;
mod gateway;
mod inventory;
mod routes;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flyball_api::{Node, Service};
use flyball_cloud::conformance::{self, World, node, service};
use flyball_cloud::kit::ConfigFile;
use flyball_cloud::{Cloud, Instances, LoadBalancers as _, Route, Routes};
use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::balancer::{Backend, Balancer, Held};
use crate::kernel::PodRoute;
use crate::plan::{Flow, Operation, Seen, SeenAddress, Wanted, is_stale, plan};
use crate::ruleset::table;

/// A kernel that has what it was told.
#[derive(Default)]
struct Memory {
    seen: Mutex<Seen>,
    routes: Mutex<BTreeSet<PodRoute>>,
    foreign: BTreeSet<IpNet>,
    /// If set, new rules wait until it is free.
    gate: Option<Arc<tokio::sync::Mutex<()>>>,
    lacks_lan6: bool,
    /// Addresses of other machines in the network.
    elsewhere: BTreeSet<IpAddr>,
    refuses_rules: AtomicBool,
    log: Mutex<Vec<String>>,
}

impl Memory {
    fn take_log(&self) -> String {
        std::mem::take(&mut *self.log.lock()).join(", ")
    }
}

impl Kernel for Memory {
    fn observe(&self) -> io::Result<Seen> {
        Ok(self.seen.lock().clone())
    }

    fn apply(&self, operation: &Operation) -> io::Result<()> {
        let is_replaced = matches!(operation, Operation::Replace(_));
        let _open = self.gate.as_ref().filter(|_| is_replaced).map(|gate| gate.blocking_lock());
        self.log.lock().push(operation.to_string());
        let mut seen = self.seen.lock();
        match operation {
            Operation::Replace(_) if self.refuses_rules.load(Ordering::Relaxed) => {
                return Err(io::Error::other("Message too long"));
            }
            Operation::Replace(table) => seen.rules = table.texts(),
            Operation::DeleteTable => seen.rules.clear(),
            Operation::Hold(held, _) if held.interface == "lan6" && self.lacks_lan6 => {
                return Err(io::Error::other("there is no interface \"lan6\""));
            }
            Operation::Announce(_) if self.lacks_lan6 => return Err(io::ErrorKind::NetworkDown.into()),
            Operation::Hold(held, _) => {
                seen.addresses.retain(|address| address.held != *held);
                seen.addresses.push(SeenAddress { held: held.clone(), is_ours: true });
            }
            Operation::Release(held) => seen.addresses.retain(|address| address.held != *held),
            Operation::Announce(_) => {}
        }
        Ok(())
    }

    fn forget_flows(&self, _: &dyn Fn(&Flow) -> bool) -> io::Result<usize> {
        Ok(0)
    }

    fn is_elsewhere(&self, held: &Held) -> io::Result<bool> {
        Ok(self.elsewhere.contains(&held.address))
    }

    fn addresses(&self) -> io::Result<Vec<SeenAddress>> {
        Ok(self.seen.lock().addresses.clone())
    }

    fn routes(&self) -> io::Result<Vec<PodRoute>> {
        Ok(self.routes.lock().iter().cloned().collect())
    }

    fn add_route(&self, route: &PodRoute) -> io::Result<()> {
        let mut routes = self.routes.lock();
        let is_there = self.foreign.contains(&route.destination)
            || routes.iter().any(|other| other.destination == route.destination);
        match is_there {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => {
                routes.insert(route.clone());
                Ok(())
            }
        }
    }

    fn delete_route(&self, route: &PodRoute) -> io::Result<()> {
        self.routes.lock().remove(route);
        Ok(())
    }
}

const FILE: &str = "
machines:
- {name: n1, addresses: [10.0.0.11, fd00::11], type: small, zone: z, labels: {rack: r1}}
- {name: n2, id: serial-2, systemUUID: U-2, addresses: [10.0.0.12]}
- {name: n3, state: stopped}
loadBalancers:
  pools:
  - {interface: lan, addresses: [192.0.2.0/24]}
  - {interface: lan6, addresses: ['2001:db8::/64']}
routes: {}
";

fn opened(kernel: Arc<Memory>, text: &str) -> (tempfile::NamedTempFile, Arc<ConfigFile<Config>>, Cloud) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let config = Arc::new(ConfigFile::open(file.path()).unwrap());
    let settings = Settings { lifetime: Lifetime::Forever, cluster_ranges: pod_ranges() };
    let cloud = cloud(config.clone(), kernel, settings, &Metrics::default());
    (file, config, cloud)
}

fn pod_ranges() -> Vec<IpNet> {
    ["10.244.0.0/16", "fd01::/48"].map(|range| range.parse().unwrap()).into()
}

fn machine(name: &str, status: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
}

fn at(name: &str, address: &str) -> Node {
    machine(name, json!({"addresses": [{"type": "InternalIP", "address": address}]}))
}

#[tokio::test]
async fn the_provider_passes_the_conformance_suite_and_leaves_nothing() {
    let kernel = Arc::new(Memory::default());
    let (_file, _, cloud) = opened(kernel.clone(), FILE);
    let world = World {
        running: vec![at("n1", "10.0.0.11"), machine("other", json!({"nodeInfo": {"systemUUID": "u-2"}}))],
        stopped: vec![node("n3", "")],
        gone: vec![node("n4", "linux://n4")],
        ranges: ["10.244.0.0/24", "10.244.1.0/24"].map(str::to_owned).into(),
        is_dual_stack: true,
        ..World::new(cloud)
    };
    let report = conformance::check(&world).await;
    assert!(report.is_passed() && report.skipped().count() == 0, "{report}");
    assert_eq!(*kernel.seen.lock(), Seen::default());
    assert!(kernel.routes.lock().is_empty());
}

/// A balancer in a line: addresses, then `key=value`.
fn balancer(text: &str) -> Balancer {
    let mut service = serde_json::to_value(service("web", &["IPv4"])).unwrap();
    let mut preserves = false;
    let (mut held, mut backends) = (vec![], vec![]);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            None => held.push(Held { address: word.parse().unwrap(), interface: "lan".into() }),
            Some(("ports", ports)) => {
                let port = |port: &str| {
                    let (protocol, port) = port.split_once('/').unwrap();
                    json!({"protocol": protocol, "port": port.parse::<i32>().unwrap(), "nodePort": 30080})
                };
                service["spec"]["ports"] = ports.split(',').map(port).collect();
            }
            Some(("sources", ranges)) => {
                service["spec"]["loadBalancerSourceRanges"] = ranges.split(',').collect();
            }
            Some(("affinity", affinity)) => service["spec"]["sessionAffinity"] = json!(affinity),
            Some(("local", _)) => {
                (preserves, service["spec"]["externalTrafficPolicy"]) = (true, json!("Local"));
            }
            Some(("node", addresses)) => {
                let is_idle = addresses.starts_with('!');
                let addresses = addresses.trim_start_matches('!').split(',').map(|a| a.parse().unwrap());
                backends.push(Backend { node: "n".into(), addresses: addresses.collect(), is_idle });
            }
            _ => panic!("{word}"),
        }
    }
    let service = serde_json::from_value(service).unwrap();
    Balancer { backends, ..Balancer::new(&service, held, &[], preserves).unwrap() }
}

/// The Service `web` with other fields.
fn asking(spec: Value) -> Service {
    let mut service = serde_json::to_value(service("web", &["IPv4"])).unwrap();
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    serde_json::from_value(service).unwrap()
}
