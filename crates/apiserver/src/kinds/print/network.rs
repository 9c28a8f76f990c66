//! Services, endpoints, ingresses and policies.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cell, NAME, Printer, first_of, or_none, text, wide};
use crate::kinds::json::Json;

pub(in crate::kinds) const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        AGE,
        wide("Selector"),
    ],
    cells: &[
        Cell::Name,
        Cell::Text("spec.type"),
        Cell::With(cluster_ip),
        Cell::With(external_ip),
        Cell::With(ports),
        Cell::Age,
        Cell::Labels("spec.selector"),
    ],
};

pub(in crate::kinds) const ENDPOINTS: Printer = Printer {
    columns: &[NAME, text("Endpoints"), AGE],
    cells: &[Cell::Name, Cell::With(endpoints), Cell::Age],
};

pub(in crate::kinds) const ENDPOINT_SLICE: Printer = Printer {
    columns: &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE],
    cells: &[
        Cell::Name,
        Cell::Text("addressType"),
        Cell::With(slice_ports),
        Cell::With(slice_addresses),
        Cell::Age,
    ],
};

pub(in crate::kinds) const INGRESS: Printer = Printer {
    columns: &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
    cells: &[
        Cell::Name,
        Cell::TextOr("spec.ingressClassName", "<none>"),
        Cell::With(hosts),
        Cell::With(|ingress, _| load_balancer(ingress)),
        Cell::With(|ingress, _| {
            if ingress.items("spec.tls").is_empty() { "80" } else { "80, 443" }.to_owned()
        }),
        Cell::Age,
    ],
};

pub(in crate::kinds) const INGRESS_CLASS: Printer = Printer {
    columns: &[NAME, text("Controller"), text("Parameters"), AGE],
    cells: &[
        Cell::With(|class, _| super::with_default(class, "ingressclass.kubernetes.io/is-default-class")),
        Cell::Text("spec.controller"),
        Cell::With(ingress_parameters),
        Cell::Age,
    ],
};

pub(in crate::kinds) const NETWORK_POLICY: Printer = Printer {
    columns: &[NAME, text("Pod-Selector"), AGE],
    cells: &[Cell::Name, Cell::Selector("spec.podSelector"), Cell::Age],
};

pub(in crate::kinds) const SERVICE_CIDR: Printer = Printer {
    columns: &[NAME, text("CIDRs"), AGE],
    cells: &[Cell::Name, Cell::Joined("spec.cidrs"), Cell::Age],
};

/// As in upstream, there is a third cell without a column.
pub(in crate::kinds) const IP_ADDRESS: Printer =
    Printer { columns: &[NAME, text("ParentRef")], cells: &[Cell::Name, Cell::With(parent), Cell::Age] };

fn cluster_ip(service: &Value, _: Timestamp) -> String {
    or_none(service.items("spec.clusterIPs").first().and_then(Value::as_str).unwrap_or(""))
}

fn external_ip(service: &Value, _: Timestamp) -> String {
    let external: Vec<&str> = service.items("spec.externalIPs").iter().filter_map(Value::as_str).collect();
    match service.text("spec.type") {
        "ClusterIP" | "NodePort" => or_none(&external.join(",")),
        "LoadBalancer" => {
            let balancer = load_balancer(service);
            let all: Vec<&str> =
                [balancer.as_str()].into_iter().chain(external).filter(|ip| !ip.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses or host names of the load balancer, sorted, without duplicates.
fn load_balancer(object: &Value) -> String {
    let mut found: Vec<&str> = object
        .items("status.loadBalancer.ingress")
        .iter()
        .map(|ingress| if ingress.has("ip") { ingress.text("ip") } else { ingress.text("hostname") })
        .filter(|address| !address.is_empty())
        .collect();
    found.sort_unstable();
    found.dedup();
    found.join(",")
}

fn ports(service: &Value, _: Timestamp) -> String {
    let all: Vec<String> = service
        .items("spec.ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (port.int("port").unwrap_or(0), port.text("protocol"));
            match port.int("nodePort").unwrap_or(0) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    or_none(&all.join(","))
}

fn endpoints(endpoints: &Value, _: Timestamp) -> String {
    if endpoints.items("subsets").is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in endpoints.items("subsets") {
        let addresses = || subset.items("addresses").iter().map(|address| address.text("ip"));
        if subset.items("ports").is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in subset.items("ports") {
            let port = port.int("port").unwrap_or(0);
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    first_of(&all, 3, ",")
}

fn slice_ports(slice: &Value, _: Timestamp) -> String {
    let all: Vec<String> = slice
        .items("ports")
        .iter()
        .map(|port| match (port.int("port"), port.at("name").as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    if all.is_empty() { "<unset>".to_owned() } else { first_of(&all, 3, ",") }
}

fn slice_addresses(slice: &Value, _: Timestamp) -> String {
    let all: Vec<String> = slice
        .items("endpoints")
        .iter()
        .flat_map(|endpoint| endpoint.items("addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    if all.is_empty() { "<unset>".to_owned() } else { first_of(&all, 3, ",") }
}

fn hosts(ingress: &Value, _: Timestamp) -> String {
    let rules = ingress.items("spec.rules");
    let named: Vec<&str> =
        rules.iter().map(|rule| rule.text("host")).filter(|host| !host.is_empty()).collect();
    match named.len() {
        0 => "*".to_owned(),
        n if n > 3 => format!("{} + {} more...", named[..3].join(","), rules.len() - 3),
        _ => named.join(","),
    }
}

fn ingress_parameters(class: &Value, _: Timestamp) -> String {
    let parameters = class.at("spec.parameters");
    if !parameters.is_object() {
        return "<none>".to_owned();
    }
    let group = parameters.at("apiGroup").as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.text("kind"), parameters.text("name"))
}

fn parent(address: &Value, _: Timestamp) -> String {
    let parent = address.at("spec.parentRef");
    if !parent.is_object() {
        return "<none>".to_owned();
    }
    let group = match parent.text("group") {
        "" => String::new(),
        group => format!(".{group}"),
    };
    let namespace = match parent.text("namespace") {
        "" => String::new(),
        namespace => format!("/{namespace}"),
    };
    format!(
        "{}{namespace}/{}",
        format!("{}{group}", parent.text("resource")).to_lowercase(),
        parent.text("name")
    )
}
