//! The flags about routes.

use flyball_node::ipam::settings::cluster_ranges;
use ipnet::IpNet;

/// The ranges of `--cluster-cidr`, inside which routes are managed.
///
/// # Errors
/// The flag is missing or invalid.
pub fn ranges(cluster_cidr: &str) -> Result<Vec<IpNet>, String> {
    match cluster_cidr.trim() {
        "" => Err("--configure-cloud-routes needs --cluster-cidr, such as 10.244.0.0/16".to_owned()),
        text => cluster_ranges(text),
    }
}
