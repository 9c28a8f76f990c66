//! The power state of machines, from their management controllers (DMTF Redfish).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_cloud::kit::http::{Credentials, Http, OpenError, SecretFile};
use flyball_cloud::{CloudError, OpenError as CloudOpenError};
use flyball_runtime::Metrics;
use parking_lot::Mutex;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::config::{Config, Machine, Redfish};

/// The name of the API in metrics.
const API: &str = "redfish";
/// How long a controller may take to answer: they are slow computers.
const TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 2;
const SYSTEMS: &str = "/redfish/v1/Systems";

/// The management controllers of machines. Clients are kept while the file says the same.
pub(crate) struct Controllers {
    metrics: Metrics,
    clients: Mutex<BTreeMap<SmolStr, (Redfish, Arc<Http>)>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct System {
    /// `Off`, or one of several states in which it is not.
    power_state: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Systems {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(rename = "@odata.id")]
    path: String,
}

impl Controllers {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), clients: Mutex::default() }
    }

    /// Whether there can be a client for every machine of the file.
    pub(crate) fn check(&self, config: &Config) -> Result<(), CloudOpenError> {
        for machine in config.machines.iter().flat_map(|machines| &machines.0) {
            if let Some(redfish) = &machine.redfish {
                let client = self.client(machine, redfish);
                client.map_err(|error| {
                    format!("machine {:?}: {}", machine.name, flyball_runtime::Chain(&error))
                })?;
            }
        }
        Ok(())
    }

    pub(crate) async fn is_off(&self, machine: &Machine, redfish: &Redfish) -> Result<bool, CloudError> {
        let http = self.client(machine, redfish).map_err(CloudError::failed)?;
        let path = match redfish.system.as_str() {
            "" => only_system(&http).await?,
            system => format!("{SYSTEMS}/{}", flyball_cloud::kit::http::segment(system)),
        };
        let system: System = http.get("getSystem", &path).await?;
        match system.power_state.as_deref() {
            Some(state) => Ok(state == "Off"),
            None => Err(CloudError::failed(format!("{}{path} has no PowerState", redfish.address.0.0))),
        }
    }

    fn client(&self, machine: &Machine, redfish: &Redfish) -> Result<Arc<Http>, OpenError> {
        let mut clients = self.clients.lock();
        if let Some((_, http)) = clients.get(&machine.name).filter(|(known, _)| known == redfish) {
            return Ok(http.clone());
        }
        let mut http = Http::new(API, &redfish.address.0.0, &self.metrics)?;
        if let Some(file) = &redfish.authorities_file {
            http = http.with_authorities(file)?;
        }
        let password = SecretFile::open(&redfish.password_file)?;
        let http = http
            .with_credentials(Credentials::basic(&redfish.user, password))
            .with_patience(TIMEOUT)
            .with_attempts(ATTEMPTS);
        let http = Arc::new(http);
        clients.insert(machine.name.clone(), (redfish.clone(), http.clone()));
        Ok(http)
    }
}

/// The path of the system of a controller that has one.
async fn only_system(http: &Http) -> Result<String, CloudError> {
    let systems: Systems = http.get("listSystems", SYSTEMS).await?;
    let paths: Vec<String> = systems.members.into_iter().map(|member| member.path).collect();
    match &paths[..] {
        [only] if only.starts_with('/') => Ok(only.clone()),
        _ => Err(CloudError::failed(format!(
            "its management controller has the systems [{}]; name one of them with `system`",
            paths.join(", ")
        ))),
    }
}
