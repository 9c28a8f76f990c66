//! A cloud that is nowhere but in this process: machines as a file lists them, load balancers that are an address each,
//! routes that are remembered. For trying things out, for demonstrations and for tests.
//!
//! ```yaml
//! machines:                       # left out: a cloud without machines
//! - name: node-1
//!   type: large
//!   zone: z1
//!   region: r1
//!   state: running                # or stopped; what is not listed is gone
//!   addresses:
//!   - {type: InternalIP, address: 10.0.0.1}
//!   labels: {example.com/rack: "7"}
//! loadBalancers:                  # left out: a cloud without load balancers
//!   addresses: [192.0.2.0/24, "2001:db8::/64"]
//!   readyAfter: 5s
//! routes: []                      # left out: a cloud without routes
//! failures:                       # what fails, and with which words
//!   createRoute: there is no way there
//! ```
//!
//! The file is read again whenever it has changed: take a machine out of it, and its Node goes. So change it in one
//! step, by moving another one into its place.

mod balancers;
mod config;
mod file;
mod machines;
mod pool;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use flyball_api::Service;
use flyball_cache::Informer;
use parking_lot::Mutex;
use serde::Deserialize;

pub use balancers::Balancer;
pub use config::{Config, Machine, MachineState, Pool, SimulatedRoute};
pub use file::ConfigError;

use self::file::File;
use crate::provider::{Cloud, CloudError, OpenError, Provider, Route};

/// What `--cloud-provider` calls it.
pub const NAME: &str = "simulated";

/// How to open one. Without a file it has load balancers only, with addresses that are reserved for documentation.
pub const PROVIDER: Provider = Provider { name: NAME, open };

fn open(config: Option<&Path>) -> Result<Cloud, OpenError> {
    let simulated = match config {
        Some(path) => Simulated::from_file(path)?,
        None => Simulated::new(Config::default()),
    };
    Ok(simulated.cloud())
}

/// Something that the cloud is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Call {
    InstanceExists,
    InstanceIsShutDown,
    InstanceMetadata,
    GetBalancer,
    EnsureBalancer,
    UpdateBalancer,
    DeleteBalancer,
    ListRoutes,
    CreateRoute,
    DeleteRoute,
}

/// The cloud. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Simulated {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// The Services of the cluster, once there is one: what their statuses show is taken.
    services: OnceLock<Arc<Informer<Service>>>,
}

#[derive(Default)]
struct State {
    config: Config,
    file: Option<File>,
    balancers: BTreeMap<String, Balancer>,
    routes: Vec<Route>,
    failures: BTreeMap<Call, VecDeque<CloudError>>,
}

impl State {
    fn new(config: Config, file: Option<File>) -> Self {
        let routes = config.routes.iter().flatten().enumerate().map(|(n, route)| route.named(n)).collect();
        Self { config, file, routes, ..Self::default() }
    }
}

impl Simulated {
    /// A cloud as `config` says.
    pub fn new(config: Config) -> Self {
        Self::over(State::new(config, None))
    }

    /// A cloud as a file says, and goes on saying.
    ///
    /// # Errors
    /// The file cannot be read, or makes no sense.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let (file, config) = File::open(path)?;
        Ok(Self::over(State::new(config, Some(file))))
    }

    fn over(state: State) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(state), services: OnceLock::new() }) }
    }

    /// What controllers are given. It has what its configuration had when it was opened.
    pub fn cloud(&self) -> Cloud {
        let config = self.inner.state.lock().config.clone();
        let this = self.clone();
        let mut cloud = Cloud::new(NAME).on_begin(move |surroundings| {
            let _ = this.inner.services.set(surroundings.informers.get::<Service>());
            std::future::ready(())
        });
        if config.machines.is_some() {
            cloud = cloud.with_instances(machines::Machines(self.clone()));
        }
        if config.load_balancers.is_some() {
            cloud = cloud.with_load_balancers(balancers::Balancers(self.clone()));
        }
        if config.routes.is_some() {
            cloud = cloud.with_routes(routes::Table(self.clone()));
        }
        if config.untagged { cloud.untagged() } else { cloud }
    }

    /// Changes the cloud behind everybody's back.
    pub fn change(&self, change: impl FnOnce(&mut Config)) {
        change(&mut self.inner.state.lock().config);
    }

    /// Lets the next `call` that has no failure yet fail.
    pub fn fail(&self, call: Call, error: CloudError) {
        self.inner.state.lock().failures.entry(call).or_default().push_back(error);
    }

    /// The load balancers, by name.
    pub fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.inner.state.lock().balancers.clone()
    }

    pub fn routes(&self) -> Vec<Route> {
        self.inner.state.lock().routes.clone()
    }

    /// What every call begins with: the file may have changed, and the call may be meant to fail.
    fn answer<T>(
        &self,
        call: Call,
        answer: impl FnOnce(&mut State) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let mut state = self.inner.state.lock();
        if let Some(config) = state.file.as_mut().and_then(File::changed) {
            state.config = config;
        }
        if let Some(failure) = state.failures.get_mut(&call).and_then(VecDeque::pop_front) {
            return Err(failure);
        }
        match state.config.failures.get(&call) {
            Some(words) => Err(CloudError::failed(words.as_str())),
            None => answer(&mut state),
        }
    }
}
