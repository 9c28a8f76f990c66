//! A cloud provider for clusters on one's own Linux machines. The leader is the gateway: the addresses of load balancers are its
//! own, and it sends their packets on to nodes.
//!
//! In reading order: [`config`] is the file; `inventory` has the machines; [`balancer`] is what a Service asks for, [`ruleset`]
//! the nftables rules for that, and [`plan`] the operations that bring the kernel there. These are pure. [`kernel`] reads and
//! changes the kernel's state over netlink; `gateway` keeps it as it is wanted while this process leads; `routes` has the routes
//! to pods.
//!
//! The state is in the kernel, marked as ours: addresses and routes by a protocol number, rules by their table. Nothing else is
//! touched. docs/linux.md is for operators, docs/decisions/netlink.md says why there is no library for nftables.

mod allocate;
mod apply;
pub mod balancer;
pub mod config;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod health;
mod inventory;
pub mod kernel;
mod metrics;
pub mod plan;
mod redfish;
mod routes;
pub mod ruleset;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use flyball_cloud::kit::ConfigFile;
use flyball_cloud::route::settings::ranges;
use flyball_cloud::{CLOUD_CONTROLLER_MANAGER, Cloud, OpenError, Opening, Provider};
use flyball_manager::{Component, Release, handover_margin};
use flyball_runtime::Metrics;
use flyball_runtime::config::LeaderElection;
use ipnet::IpNet;

use crate::config::Config;
use crate::gateway::Gateway;
use crate::inventory::Inventory;
use crate::kernel::{Kernel, Linux};
use crate::plan::Lifetime;
use crate::redfish::Controllers;
use crate::routes::MainTable;

/// Its name in `--cloud-provider`, and in provider IDs.
pub const NAME: &str = "linux";

pub const PROVIDER: Provider = Provider::new(NAME, |opening| Box::pin(open(opening)));

/// It releases its lease at the end: what it withdraws, a standby should announce at once.
pub static LINUX_CLOUD_CONTROLLER_MANAGER: Component =
    Component { release: Release::Always, ..CLOUD_CONTROLLER_MANAGER };

/// The `main` of linux-cloud-controller-manager.
pub fn main() -> ExitCode {
    flyball_cloud::program::main_with(&LINUX_CLOUD_CONTROLLER_MANAGER, &[PROVIDER])
}

async fn open(opening: Opening) -> Result<Cloud, OpenError> {
    let file = opening
        .config_file
        .as_deref()
        .ok_or("--cloud-config must name a file; docs/linux.md describes it")?;
    let file = Arc::new(ConfigFile::<Config>::open(file)?);
    let config = file.current();
    if let Some(problem) = unprepared(&config) {
        return Err(problem.into());
    }
    Controllers::new(&Metrics::default()).check(&config)?;
    let kernel = Arc::new(Linux { protocol: config.protocol.0 });
    let settings = Settings {
        lifetime: lifetime(&opening.config.generic.leader_election),
        // Without the flag there is no controller for routes.
        cluster_ranges: ranges(&opening.config.kube_cloud_shared.cluster_cidr).unwrap_or_default(),
    };
    let (cloud, gateway) = parts(file, kernel, settings, &opening.metrics);
    if let Some(gateway) = gateway {
        tokio::spawn(gateway.delete_leftover_rules(opening.shutdown.clone()));
    }
    Ok(cloud)
}

/// What a cloud needs to know of its manager.
#[derive(Debug, Clone)]
pub struct Settings {
    pub lifetime: Lifetime,
    /// The ranges of `--cluster-cidr`. There are routes for nothing else.
    pub cluster_ranges: Vec<IpNet>,
}

/// The cloud of a file and a kernel. Its parts are those of the file at this time.
pub fn cloud(
    file: Arc<ConfigFile<Config>>,
    kernel: Arc<dyn Kernel>,
    settings: Settings,
    metrics: &Metrics,
) -> Cloud {
    parts(file, kernel, settings, metrics).0
}

fn parts(
    file: Arc<ConfigFile<Config>>,
    kernel: Arc<dyn Kernel>,
    settings: Settings,
    metrics: &Metrics,
) -> (Cloud, Option<Gateway>) {
    let config = file.current();
    let mut cloud = Cloud::new(NAME);
    if config.machines.is_some() {
        let controllers = Arc::new(Controllers::new(metrics));
        cloud = cloud.with_instances(Inventory { file: file.clone(), controllers });
    }
    if config.routes.is_some() {
        cloud = cloud.with_routes(MainTable::new(file.clone(), kernel.clone(), settings.cluster_ranges));
    }
    if config.load_balancers.is_none() {
        return (cloud, None);
    }
    let gateway = Gateway::new(file, kernel, settings.lifetime, metrics);
    let (beginning, ending) = (gateway.clone(), gateway.clone());
    let cloud = cloud
        .with_load_balancers(gateway.clone())
        .on_begin(move |context| {
            let gateway = beginning.clone();
            async move { gateway.begin(context).await }
        })
        .on_end(move |_| {
            let gateway = ending.clone();
            async move { gateway.end().await }
        });
    (cloud, Some(gateway))
}

/// How long an address stays that is not renewed. If the lease is not renewed either, it is shorter (`Machine::shortened`), so that
/// the address is gone when another process may lead.
fn lifetime(election: &LeaderElection) -> Lifetime {
    match election.leader_elect {
        false => Lifetime::Forever,
        true => Lifetime::For(2 * handover_margin(election)),
    }
}

/// The setting of the machine that is missing, if any. They are its administrator's to change.
fn unprepared(config: &Config) -> Option<String> {
    let ranges = config.load_balancers.as_ref()?.ranges();
    let has = |is_v6: bool| ranges.iter().any(|range| matches!(range.addr(), IpAddr::V6(_)) == is_v6);
    let settings = [(false, "net/ipv4/ip_forward"), (true, "net/ipv6/conf/all/forwarding")];
    settings.into_iter().filter(|(is_v6, _)| has(*is_v6)).find_map(|(_, setting)| {
        let value = std::fs::read_to_string(format!("/proc/sys/{setting}")).unwrap_or_default();
        let name = setting.replace('/', ".");
        (value.trim() == "0").then(|| {
            format!("this machine does not forward packets: {name} is 0, and must be 1 (sysctl -w {name}=1)")
        })
    })
}
