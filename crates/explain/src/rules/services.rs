//! Services: no pods behind them, pods that are not ready, ports that do not exist; load balancers; Ingresses.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, list, one_line};
use crate::world::World;

use super::common::problem_of;

/// The pods that the selector matches; `None` without a selector.
fn backing<'a>(world: &'a World, service: Obj<'a>) -> Option<Vec<Obj<'a>>> {
    let selector: Vec<(String, String)> =
        service.pairs("/spec/selector").map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    if selector.is_empty() || service.text("/spec/type") == "ExternalName" {
        return None;
    }
    let pods = world.list("Pod", service.namespace()).filter(|pod| pod.matches_labels(&selector));
    Some(pods.filter(|pod| !matches!(pod.text("/status/phase"), "Succeeded" | "Failed")).collect())
}

pub(super) fn backends(world: &World, service: Obj<'_>) -> Vec<Finding> {
    let Some(pods) = backing(world, service) else {
        let slices = world.list("EndpointSlice", service.namespace());
        let own =
            slices.filter(|slice| slice.label("kubernetes.io/service-name") == Some(service.name())).count();
        let is_plain =
            service.text("/spec/type") != "ExternalName" && own == 0 && world.is_read("EndpointSlice");
        return match is_plain {
            true => {
                let text = "it has no selector, and there are no EndpointSlices for it";
                vec![
                    Finding::blocks("service-backends", service, text)
                        .advise("add a selector, or create EndpointSlices"),
                ]
            }
            false => Vec::new(),
        };
    };
    if pods.is_empty() {
        if !world.is_read("Pod") {
            return Vec::new();
        }
        let selector: Vec<String> =
            service.pairs("/spec/selector").map(|(key, value)| format!("{key}={value}")).collect();
        let near = nearest(world, service).map(|near| format!("; {near}")).unwrap_or_default();
        let text = format!(
            "its selector ({}) matches no pod in namespace {}{near}",
            selector.join(","),
            service.namespace()
        );
        return vec![
            Finding::blocks("service-backends", service, text)
                .advise("correct the selector or the pods' labels"),
        ];
    }
    let ready = pods.iter().filter(|pod| pod.has("Ready", "True") && !pod.is_deleting()).count();
    let is_unready_fine = service.is_true("/spec/publishNotReadyAddresses");
    let mut found = Vec::new();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    if ready == 0 && !is_unready_fine {
        let problem = problem_of(world, pods.iter().copied());
        let cause =
            problem.first().map(|problem| format!(": {}", problem.carried(service))).unwrap_or_default();
        let text = format!("none of its {} is ready{cause}", counted(count(pods.len()), "pod"));
        let finding = Finding::blocks("service-backends", service, text);
        found.push(match problem.into_iter().next().and_then(|problem| problem.advice) {
            Some(advice) => finding.advise(advice),
            None => finding,
        });
    } else if ready < pods.len() {
        found.extend(
            problem_of(world, pods.into_iter())
                .into_iter()
                .take(1)
                .map(|problem| Finding { weight: crate::finding::Weight::Notes, ..problem }),
        );
    }
    found
}

/// Pods that have most of the labels: which one differs.
fn nearest(world: &World, service: Obj<'_>) -> Option<String> {
    let wanted: Vec<(&str, &str)> = service.pairs("/spec/selector").collect();
    let hits = |pod: Obj<'_>| wanted.iter().filter(|(key, value)| pod.label(key) == Some(value)).count();
    let keys = |pod: Obj<'_>| wanted.iter().filter(|(key, _)| pod.label(key).is_some()).count();
    let pod = world.list("Pod", service.namespace()).max_by_key(|pod| (hits(*pod), keys(*pod)))?;
    if hits(pod) == 0 && keys(pod) == 0 {
        return None;
    }
    let (key, value) = wanted.iter().find(|(key, value)| pod.label(key) != Some(value))?;
    Some(match pod.label(key) {
        Some(other) => format!("pod {} has {key}={other}, not {key}={value}", pod.name()),
        None => format!("pod {} has no label {key}", pod.name()),
    })
}

pub(super) fn ports(world: &World, service: Obj<'_>) -> Vec<Finding> {
    let Some(pods) = backing(world, service).filter(|pods| !pods.is_empty()) else { return Vec::new() };
    let container_ports = |pod: &Obj<'_>| {
        let containers = pod.list("/spec/containers").chain(pod.list("/spec/initContainers"));
        containers
            .flat_map(|container| container.list("/ports"))
            .map(|port| (port.text("/name").to_owned(), port.count("/containerPort")))
            .collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for port in service.list("/spec/ports") {
        let target = port.at("/targetPort");
        let known = container_ports(&pods[0]);
        if let Some(name) = target.as_str() {
            let missing = pods
                .iter()
                .filter(|pod| !container_ports(pod).iter().any(|(known, _)| known == name))
                .count();
            if missing == pods.len() {
                let names: Vec<&str> =
                    known.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty()).collect();
                let there = if names.is_empty() {
                    "they name no ports".to_owned()
                } else {
                    format!("they have {}", list(&names, 5))
                };
                let text = format!("targetPort {name:?} is no port of its pods: {there}");
                found.push(
                    Finding::blocks("service-ports", service, text)
                        .advise("correct targetPort, or name the container's port"),
                );
            }
        } else if let Some(number) = target.as_i64().or_else(|| port.int("/port"))
            && !known.is_empty()
            && !known.iter().any(|(_, port)| *port == number)
        {
            let numbers: Vec<String> = known.iter().map(|(_, port)| port.to_string()).collect();
            let text = format!(
                "targetPort {number} is not among the ports that its pods declare ({})",
                list(&numbers, 5)
            );
            found.push(
                Finding::notes("service-ports", service, text)
                    .advise("check on which port the containers listen"),
            );
        }
    }
    found
}

pub(super) fn load_balancer(world: &World, service: Obj<'_>) -> Vec<Finding> {
    let is_waiting = service.text("/spec/type") == "LoadBalancer"
        && service.list("/status/loadBalancer/ingress").next().is_none();
    if !is_waiting || service.is_deleting() {
        return Vec::new();
    }
    if let Some(event) =
        world.event(service, &["SyncLoadBalancerFailed", "CreatingLoadBalancerFailed", "AllocationFailed"])
    {
        let text = format!("it has no external address: {}", one_line(event.message, 240));
        return vec![
            Finding::blocks("load-balancer", service, text)
                .advise("check the cloud controller manager and the cloud's quota"),
        ];
    }
    let class = service.text("/spec/loadBalancerClass");
    let text = match (class, world.event(service, &["EnsuringLoadBalancer"])) {
        (_, Some(_)) => {
            return vec![Finding::waits("load-balancer", service, "the cloud is creating its load balancer")];
        }
        ("", None) => {
            "it has no external address, and no controller has begun to create a load balancer".to_owned()
        }
        (class, None) => format!(
            "it has no external address: the controller for loadBalancerClass {class} has done nothing"
        ),
    };
    vec![
        Finding::blocks("load-balancer", service, text)
            .advise("a cloud controller manager (or MetalLB, for example) must run"),
    ]
}

pub(super) fn ingress(world: &World, ingress: Obj<'_>) -> Vec<Finding> {
    let rules = ingress
        .list("/spec/rules")
        .flat_map(|rule| rule.list("/http/paths"))
        .map(|path| Obj(path.at("/backend/service")));
    let default =
        Some(Obj(ingress.at("/spec/defaultBackend/service"))).filter(|backend| !backend.0.is_null());
    let mut found = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for name in rules.chain(default).map(|backend| backend.text("/name")).filter(|name| !name.is_empty()) {
        if !seen.insert(name) {
            continue;
        }
        match world.get("Service", ingress.namespace(), name) {
            crate::world::Lookup::Absent => {
                found.push(Finding::blocks(
                    "ingress-backends",
                    ingress,
                    format!("Service {name}, which it names, does not exist"),
                ));
            }
            crate::world::Lookup::Found(service) => found.extend(super::main_problem(world, service)),
            crate::world::Lookup::Unknown => {}
        }
    }
    let class = ingress.text("/spec/ingressClassName");
    if !class.is_empty() && world.get("IngressClass", "", class).is_absent() {
        found.push(Finding::blocks(
            "ingress-backends",
            ingress,
            format!("IngressClass {class} does not exist: no controller serves it"),
        ));
    }
    if found.is_empty() && ingress.list("/status/loadBalancer/ingress").next().is_none() {
        let text = "no ingress controller has given it an address";
        found.push(
            Finding::waits("ingress-backends", ingress, text)
                .advise("check that an ingress controller for its class runs"),
        );
    }
    found
}
