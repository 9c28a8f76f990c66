//! The conformance suite: what the controllers rely on, checked against any cloud.
//!
//! A provider's test describes a small world to the suite and looks at the report:
//!
//! ```
//! use flyball_cloud::conformance::{self, World, node};
//! use flyball_cloud::simulated::{Config, Machine, MachineState, Simulated};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let machine = |name: &str, state| Machine { name: name.into(), state, ..Machine::default() };
//! let machines = vec![machine("a", MachineState::Running), machine("b", MachineState::Stopped)];
//! let simulated = Simulated::new(Config { machines: Some(machines), ..Config::default() });
//! let world = World {
//!     running: vec![node("a", "")],
//!     stopped: vec![node("b", "")],
//!     gone: vec![node("c", "simulated://c")],
//!     ..World::new(simulated.cloud())
//! };
//! let report = conformance::check(&world).await;
//! assert!(report.is_passed(), "{report}");
//! assert!(report.skipped().any(|(check, why)| check == "routes" && why == "this cloud has none"));
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! It creates load balancers and routes, and deletes them again. Calls that ask for a retry are retried, so the clock should be
//! real, or paused.

mod balancers;
mod instances;
mod report;
mod routes;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Node, Service};
use serde_json::json;

use crate::{Cloud, CloudError};

pub use report::Report;

/// How often a call that asks for a retry is retried, unless it has asked for longer in all than [`TIMEOUT`].
const ATTEMPTS: usize = 100;
/// How long the suite waits for a load balancer.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A cloud under test, and what is known of it.
#[derive(Debug, Clone)]
pub struct World {
    pub cloud: Cloud,
    /// The value of `--cluster-name`.
    pub cluster: String,
    /// Nodes whose machines run, as kubelets create them. Load balancers and routes lead to them.
    pub running: Vec<Node>,
    /// Nodes whose machines are shut down.
    pub stopped: Vec<Node>,
    /// Nodes that once had a machine, as their provider IDs show.
    pub gone: Vec<Node>,
    /// Ranges of pod addresses that routes can be created for, at least two.
    pub ranges: Vec<String>,
    /// Whether a Service can have an address of each family.
    pub is_dual_stack: bool,
}

impl World {
    /// A world in which there is only the cloud.
    pub fn new(cloud: Cloud) -> Self {
        Self {
            cloud,
            cluster: "kubernetes".to_owned(),
            running: vec![],
            stopped: vec![],
            gone: vec![],
            ranges: vec![],
            is_dual_stack: false,
        }
    }
}

/// Checks all parts that the cloud has.
pub async fn check(world: &World) -> Report {
    let mut report = Report::default();
    match &world.cloud.instances {
        Some(instances) => instances::check(world, &**instances, &mut report).await,
        None => report.skip("instances", "this cloud has none"),
    }
    match &world.cloud.load_balancers {
        Some(balancers) => balancers::check(world, &**balancers, &mut report).await,
        None => report.skip("load balancers", "this cloud has none"),
    }
    match &world.cloud.routes {
        Some(routes) => routes::check(world, &**routes, &mut report).await,
        None => report.skip("routes", "this cloud has none"),
    }
    report
}

/// A Node as its kubelet creates it; `provider_id` may be empty.
pub fn node(name: &str, provider_id: &str) -> Node {
    from(json!({"metadata": {"name": name}, "spec": {"providerID": provider_id}}))
}

/// A Service with one port and a node port, whose uid is its name.
pub fn service(name: &str, families: &[&str]) -> Service {
    from(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("conformance-{name}")},
        "spec": {
            "type": "LoadBalancer",
            "ipFamilies": families,
            "externalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}],
        },
    }))
}

fn from<T: serde::de::DeserializeOwned + Default>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

fn shared(nodes: &[Node]) -> Vec<Arc<Node>> {
    nodes.iter().cloned().map(Arc::new).collect()
}

/// Repeats a call for as long as it asks for that.
async fn settled<T, F: Future<Output = Result<T, CloudError>>>(call: impl Fn() -> F) -> Result<T, String> {
    let mut waited = Duration::ZERO;
    for _ in 0..ATTEMPTS {
        match call().await {
            Err(CloudError::RetryAfter { after, .. }) if waited < TIMEOUT => {
                waited += after;
                tokio::time::sleep(after).await;
            }
            result => return result.map_err(|error| failure(&error)),
        }
    }
    Err(format!("it still asks for a retry after {ATTEMPTS} attempts"))
}

fn failure(error: &CloudError) -> String {
    flyball_runtime::Chain(error).to_string()
}

/// Fails a check unless `holds`.
fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
