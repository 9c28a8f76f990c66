//! A cloud that exists only in this process, for tests and demonstrations: machines from a file, load balancers that are only
//! addresses, and routes in memory.
//!
//! ```yaml
//! machines:                       # left out: a cloud without machines
//! - name: node-1
//!   type: large
//!   zone: z1
//!   region: r1
//!   state: running                # or stopped; machines that are not listed do not exist
//!   addresses:
//!   - {type: InternalIP, address: 10.0.0.1}
//!   labels: {example.com/rack: "7"}
//! loadBalancers:                  # left out: a cloud without load balancers
//!   addresses: [192.0.2.0/24, "2001:db8::/64"]
//!   readyAfter: 5s
//!   ports: true                   # whether the status lists the ports
//!   ipMode: Proxy                 # left out: none in the status
//! routes: []                      # left out: a cloud without routes
//! failures:                       # calls that fail, and their errors
//!   createRoute: there is no way there
//!   updateBalancer: {kind: implementedElsewhere}  # or instanceNotFound, notImplemented
//!   ensureBalancer: {message: not yet, retryAfter: 5s}
//! ```
//!
//! The file is read again whenever it has changed. The Node of a machine that is removed from it is deleted, so replace the
//! file in one step, by a rename.

mod balancers;
mod config;
mod machines;
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
pub use config::{Config, Failure, Machine, MachineState, Pool, SimulatedRoute, SpecialError};

use crate::kit::{ConfigError, ConfigFile};
use crate::provider::{Cloud, CloudError, OpenError, Opening, Provider, Route};

/// Its name in `--cloud-provider`.
pub const NAME: &str = "simulated";

/// How to open one. Without a file it has load balancers only, with addresses that are reserved for documentation.
pub const PROVIDER: Provider = Provider::new(NAME, |opening| Box::pin(open(opening)));

async fn open(opening: Opening) -> Result<Cloud, OpenError> {
    let simulated = match opening.config_file {
        Some(path) => Simulated::from_file(&path)?,
        None => Simulated::new(Config::default()),
    };
    Ok(simulated.cloud())
}

/// A call to the cloud.
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

/// The cloud. Clones are cheap and share one state.
#[derive(Clone)]
pub struct Simulated {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// The Services of the cluster, once it is known. The addresses in their statuses are in use.
    services: OnceLock<Arc<Informer<Service>>>,
}

#[derive(Default)]
struct State {
    config: Config,
    file: Option<ConfigFile<Config>>,
    balancers: BTreeMap<String, Balancer>,
    routes: Vec<Route>,
    failures: BTreeMap<Call, VecDeque<CloudError>>,
}

impl State {
    fn new(config: Config, file: Option<ConfigFile<Config>>) -> Self {
        let routes = config.routes.iter().flatten().enumerate().map(|(n, route)| route.named(n)).collect();
        Self { config, file, routes, ..Self::default() }
    }

    fn refresh(&mut self) {
        if let Some(config) = self.file.as_ref().and_then(ConfigFile::changed) {
            self.config = (*config).clone();
        }
    }
}

impl Simulated {
    pub fn new(config: Config) -> Self {
        Self::over(State::new(config, None))
    }

    /// A cloud that follows a file.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let file = ConfigFile::<Config>::open(path)?;
        let config = (*file.current()).clone();
        Ok(Self::over(State::new(config, Some(file))))
    }

    fn over(state: State) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(state), services: OnceLock::new() }) }
    }

    /// The cloud for controllers. Its parts are those of the configuration at this time.
    pub fn cloud(&self) -> Cloud {
        let config = self.inner.state.lock().config.clone();
        let this = self.clone();
        let mut cloud = Cloud::new(NAME).on_begin(move |context| {
            let _ = this.inner.services.set(context.informers.get::<Service>());
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

    /// Changes the cloud without a call.
    pub fn change(&self, change: impl FnOnce(&mut Config)) {
        change(&mut self.inner.state.lock().config);
    }

    /// Makes the next `call` that has no failure yet fail.
    pub fn fail(&self, call: Call, error: CloudError) {
        self.inner.state.lock().failures.entry(call).or_default().push_back(error);
    }

    /// The configuration as it is now, for those who simulate the machines.
    pub fn config(&self) -> Config {
        let mut state = self.inner.state.lock();
        state.refresh();
        state.config.clone()
    }

    /// The load balancers, by name.
    pub fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.inner.state.lock().balancers.clone()
    }

    pub fn routes(&self) -> Vec<Route> {
        self.inner.state.lock().routes.clone()
    }

    /// The beginning of every call: reads the file if it has changed, and fails if the call has to fail.
    fn answer<T>(
        &self,
        call: Call,
        answer: impl FnOnce(&mut State) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let mut state = self.inner.state.lock();
        state.refresh();
        if let Some(failure) = state.failures.get_mut(&call).and_then(VecDeque::pop_front) {
            return Err(failure);
        }
        match state.config.failures.get(&call) {
            Some(failure) => Err(failure.error()),
            None => answer(&mut state),
        }
    }
}
