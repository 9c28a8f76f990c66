//! Load balancers on loopback addresses of this machine: a listener for each TCP port of a Service of type LoadBalancer, behind
//! which its simulated pods take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flyball_api::endpoint_slice::EndpointSlice;
use flyball_api::{Key, Object as _, Service};
use flyball_cache::{Informer, Informers};
use flyball_runtime::Signal;
use flyball_runtime::events::{ObjectRef, Recorder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::nodes::page;
use crate::objects::Pod;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Connections to a port that are open at once.
const MOST_CONNECTIONS: usize = 256;

/// The port of a Service that an address belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    service: Key,
    /// The name of the port, which EndpointSlices have as well.
    port: String,
}

/// The loopback addresses of load balancers, and what is behind each. If several Services have the same, the first by name counts.
fn wanted(services: &[Arc<Service>]) -> BTreeMap<SocketAddr, Target> {
    let mut services: Vec<&Arc<Service>> = services.iter().collect();
    services.sort_unstable_by_key(|service| service.key());
    let mut found = BTreeMap::new();
    for service in services.into_iter().filter(|service| service.spec.type_ == "LoadBalancer") {
        let addresses =
            service.status.load_balancer.ingress.iter().filter_map(|ingress| ingress.ip.parse().ok());
        let addresses: Vec<IpAddr> = addresses.filter(IpAddr::is_loopback).collect();
        let of_tcp = service.spec.ports.iter().filter(|port| matches!(port.protocol.as_str(), "" | "TCP"));
        for port in of_tcp {
            for address in &addresses {
                let number = u16::try_from(port.port).unwrap_or_default();
                let target = Target { service: service.key(), port: port.name.to_string() };
                found.entry(SocketAddr::new(*address, number)).or_insert(target);
            }
        }
    }
    found
}

/// A pod of the Service that is ready, and its port; they take turns.
fn choose(slices: &[Arc<EndpointSlice>], target: &Target, turn: usize) -> Option<(Key, u16)> {
    let of_service = |slice: &&Arc<EndpointSlice>| {
        slice.metadata.labels.get(SERVICE_NAME) == Some(target.service.name.as_str())
            && slice.address_type == "IPv4"
    };
    let mut ready = BTreeSet::new();
    for slice in slices.iter().filter(of_service) {
        let port = slice.ports.iter().find(|port| port.name.as_deref().unwrap_or_default() == target.port);
        let Some(port) = port.and_then(|port| u16::try_from(port.port?).ok()) else { continue };
        let endpoints = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
        let pods = endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref());
        ready.extend(pods.map(|pod| (Key::new(target.service.namespace.clone(), pod.name.clone()), port)));
    }
    let at = turn.checked_rem(ready.len())?;
    ready.into_iter().nth(at)
}

struct Exposed {
    slices: Arc<Informer<EndpointSlice>>,
    pods: Arc<Informer<Pod>>,
    turn: AtomicUsize,
}

impl Exposed {
    async fn serve(&self, connection: TcpStream, target: &Target, port: u16) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let slices = self.slices.store().in_namespace(&target.service.namespace);
        let chosen = choose(&slices, target, turn);
        let pod = chosen.and_then(|(key, port)| Some((self.pods.store().get(&key)?, port)));
        match pod {
            Some((pod, port)) => page::serve(connection, Ok(pod), port).await,
            None => {
                let why = format!("Service {} has no ready endpoint", target.service);
                page::serve(connection, Err(why), port).await;
            }
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, address: SocketAddr, target: Target) {
        let serve = |connection, _| {
            let (exposed, target) = (self.clone(), target.clone());
            async move { exposed.serve(connection, &target, address.port()).await }
        };
        match flyball_listen::each_of(MOST_CONNECTIONS, listener, serve).await {}
    }
}

/// Exposes load balancers until `stop`.
pub(super) async fn run(informers: Informers, events: Recorder, stop: Signal) {
    let services = informers.get::<Service>();
    let exposed =
        Arc::new(Exposed { slices: informers.get(), pods: informers.get(), turn: AtomicUsize::new(0) });
    if !(services.synced().await && exposed.slices.synced().await && exposed.pods.synced().await) {
        return;
    }
    let changed = Arc::new(Notify::new());
    let _subscription = services.subscribe({
        let changed = changed.clone();
        Box::new(move |_| changed.notify_one())
    });
    // What there is for an address; no task if it cannot be listened on.
    let mut open: BTreeMap<SocketAddr, (Target, Option<tokio::task::JoinHandle<()>>)> = BTreeMap::new();
    loop {
        let all = services.store().list();
        let mut wanted = wanted(&all);
        let outdated: Vec<SocketAddr> = open
            .iter()
            .filter(|(address, (target, _))| wanted.get(*address) != Some(target))
            .map(|(address, _)| *address)
            .collect();
        for address in outdated {
            if let Some((_, Some(task))) = open.remove(&address) {
                task.abort();
                // Until it has, the address is taken.
                let _ = task.await;
            }
        }
        wanted.retain(|address, _| !open.contains_key(address));
        for (address, target) in wanted {
            let task = match TcpListener::bind(address).await {
                Ok(listener) => Some(tokio::spawn(exposed.clone().accept(listener, address, target.clone()))),
                Err(error) => {
                    refused(&all, &target, address, &error, &events);
                    None
                }
            };
            open.insert(address, (target, task));
        }
        tokio::select! {
            () = changed.notified() => {}
            () = stop.wait() => break,
        }
    }
    for (_, task) in open.into_values() {
        task.inspect(tokio::task::JoinHandle::abort);
    }
}

fn refused(
    services: &[Arc<Service>],
    target: &Target,
    address: SocketAddr,
    error: &std::io::Error,
    events: &Recorder,
) {
    let advice = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; give the Service a port from 1024 on",
        std::io::ErrorKind::AddrInUse => "; does another cluster expose its load balancers?",
        _ => "",
    };
    let message = format!("Cannot listen on {address}: {error}{advice}");
    tracing::error!(service = %target.service, "{message}");
    if let Some(service) = services.iter().find(|service| service.key() == target.service) {
        events.warning(&ObjectRef::of(&**service), "NotExposed", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, kind: &str, address: &str, ports: Value) -> Arc<Service> {
        let object = json!({
            "metadata": {"namespace": "default", "name": name},
            "spec": {"type": kind, "ports": ports},
            "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_tcp_ports_on_loopback_addresses_are_exposed() {
        let ports = json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let services = [
            service("b", "LoadBalancer", "127.42.0.1", ports.clone()),
            service("a", "LoadBalancer", "127.42.0.1", json!([{"port": 80}])),
            service("c", "LoadBalancer", "192.0.2.1", ports.clone()),
            service("d", "ClusterIP", "127.42.0.2", ports),
        ];
        let shown: Vec<String> = wanted(&services)
            .iter()
            .map(|(address, target)| format!("{address} {}", target.service))
            .collect();
        assert_eq!(shown, ["127.42.0.1:80 default/a"]);
    }

    #[test]
    fn ready_pods_take_turns() {
        let endpoint = |pod: &str, ready: bool| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}});
        let slice = json!({
            "metadata": {"namespace": "default", "name": "web-1", "labels": {SERVICE_NAME: "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [endpoint("a", true), endpoint("b", false), endpoint("c", true)],
        });
        let slices = [Arc::new(serde_json::from_value(slice).unwrap())];
        let target = |service: &str, port: &str| Target {
            service: Key::new("default", service),
            port: port.to_owned(),
        };
        let turns = [0, 1, 2].map(|turn| choose(&slices, &target("web", "http"), turn).unwrap());
        assert_eq!(
            turns.map(|(pod, port)| format!("{pod} {port}")),
            ["default/a 8080", "default/c 8080", "default/a 8080"]
        );
        assert_eq!(choose(&slices, &target("web", "admin"), 0), None);
        assert_eq!(choose(&slices, &target("other", "http"), 0), None);
    }
}
