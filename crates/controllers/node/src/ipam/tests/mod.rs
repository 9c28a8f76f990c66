mod blocks;
mod metrics;
mod plan;
mod pool;
mod properties;
mod settings;

use flyball_api::Node;
use flyball_runtime::config::Config;
use ipnet::IpNet;
use serde_json::json;

use super::settings::Settings;

/// The flags `--cluster-cidr`, `--service-cluster-ip-range`, `--node-cidr-mask-size` and its two variants.
fn flags(cluster: &str, services: &str, sizes: (i32, i32, i32)) -> Result<Settings, String> {
    let mut config = Config::default();
    config.kube_cloud_shared.cluster_cidr = cluster.to_owned();
    let (first, second) = services.split_once(',').unwrap_or((services, ""));
    let ipam = &mut config.node_ipam_controller;
    (ipam.service_cidr, ipam.secondary_service_cidr) = (first.to_owned(), second.to_owned());
    (ipam.node_cidr_mask_size, ipam.node_cidr_mask_size_ipv4, ipam.node_cidr_mask_size_ipv6) = sizes;
    Settings::of(&config)
}

/// A node with these podCIDRs, separated by commas.
fn node(name: &str, ranges: &str) -> Node {
    let ranges: Vec<&str> = ranges.split(',').filter(|range| !range.is_empty()).collect();
    let metadata = json!({"name": name, "uid": format!("uid-{name}")});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"podCIDRs": ranges}})).unwrap()
}

fn show(ranges: &[IpNet]) -> String {
    ranges.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",")
}
