//! A cloud provider for AWS: EC2 instances, a route table of a VPC, and network load balancers. Tested against moto, not against AWS; not
//! called production-ready.
//!
//! In reading order: [`config`] is the file; [`sigv4`] signs requests with the keys of [`credentials`]; `query` is the protocol of AWS's
//! older APIs, `xml` and `error` are its answers; `ec2` and `elb` are the calls. `instances`, `routes` and [`balancers`] implement the traits.
//!
//! What belongs to the cluster has the tag `kubernetes.io/cluster/NAME`. Nothing else is touched. docs/aws.md is for operators,
//! docs/decisions/aws.md says why there is no SDK.

pub mod balancers;
pub mod config;
pub mod credentials;
pub mod ec2;
mod elb;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
mod instances;
mod query;
mod routes;
pub mod sigv4;
#[cfg(test)]
mod tests;
pub mod xml;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_cloud::kit::ConfigFile;
use flyball_cloud::route::settings::ranges;
use flyball_cloud::{Cloud, OpenError, Opening, Provider};
use flyball_runtime::{Clock, Signal};

use crate::balancers::NetworkBalancers;
use crate::config::Config;
use crate::credentials::{Environment, Keyring, Source};
use crate::ec2::Ec2;
use crate::elb::Elb;
use crate::instances::Machines;
use crate::query::{Api, Dialect, EC2, ELB};
use crate::routes::Table;

/// Its name in `--cloud-provider`, and in provider IDs.
pub const NAME: &str = "aws";

pub const PROVIDER: Provider = Provider::new(NAME, |opening| Box::pin(open(opening)));

/// The `main` of aws-cloud-controller-manager.
pub fn main() -> ExitCode {
    flyball_cloud::main(&[PROVIDER])
}

async fn open(opening: Opening) -> Result<Cloud, OpenError> {
    Ok(parts(opening, &|name| std::env::var(name).ok()).await?.cloud())
}

/// What the file asks for.
struct Parts {
    machines: Machines,
    table: Option<Table>,
    balancers: Option<NetworkBalancers>,
    /// Set when this process has led and leads no more: it changes nothing then.
    is_over: Arc<AtomicBool>,
}

/// The parts of the cloud of a file, with the credentials that an environment names.
async fn parts(opening: Opening, environment: Environment<'_>) -> Result<Parts, OpenError> {
    let file =
        opening.config_file.as_deref().ok_or("--cloud-config must name a file; docs/aws.md describes it")?;
    let config = ConfigFile::<Config>::open(file)?.current();
    let source = Source::discover(environment, &config, &opening.metrics)?;
    let ring = keyring(source, opening.clock, opening.shutdown.clone()).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let api = |dialect: &'static Dialect| {
        let credentials = ring.credentials(&config.region.0.0, dialect.service);
        let http = config.http(dialect, &opening.metrics)?.with_credentials(credentials);
        Ok::<_, OpenError>(Api::new(http, dialect, is_over.clone()))
    };
    let ec2 = Ec2::new(api(&EC2)?, &config);
    let elb = Elb::new(api(&ELB)?);
    // Without the flag there is no controller for routes.
    let ranges = ranges(&opening.config.kube_cloud_shared.cluster_cidr).unwrap_or_default();
    Ok(Parts {
        machines: Machines { ec2: ec2.clone(), region: config.region.0.0.clone() },
        table: config.routes.as_ref().map(|_| Table::new(ec2.clone(), ranges)),
        balancers: config.load_balancers.clone().map(|settings| NetworkBalancers { elb, ec2, settings }),
        is_over,
    })
}

/// Keys that are renewed until the process ends. Without the first ones there is no cloud.
async fn keyring(source: Source, clock: Clock, shutdown: Signal) -> Result<Arc<Keyring>, OpenError> {
    let ring = Keyring::new(source.fetch().await?, clock);
    let renewing = ring.clone();
    tokio::spawn(async move { renewing.renew(async move || source.fetch().await, shutdown).await });
    Ok(ring)
}

impl Parts {
    fn cloud(self) -> Cloud {
        let mut cloud = Cloud::new(NAME).with_instances(self.machines);
        if let Some(table) = self.table {
            cloud = cloud.with_routes(table);
        }
        if let Some(balancers) = self.balancers {
            cloud = cloud.with_load_balancers(balancers);
        }
        cloud.on_end(move |_| {
            self.is_over.store(true, Ordering::Relaxed);
            async {}
        })
    }
}
