//! The program: opens the cloud that the flags name and runs the controllers.

pub mod flags;
pub mod parity;
pub mod table;
#[cfg(test)]
mod tests;
mod validate;
mod vendor;

use std::io::Write;
use std::process::ExitCode;

use flyball_manager::options::Options;
use flyball_manager::program::main_of;
use flyball_manager::{Component, Equipment, Foundation, Prepared, Release, ServeMore};
use flyball_runtime::config::Config;
use flyball_runtime::gates::Gate;
use flyball_runtime::{Chain, Extensions};
use flyball_serving::ServingOptions;

use crate::{Cloud, Opening, Provider, route, webhook};

const NAME: &str = "cloud-controller-manager";
const PORT: i32 = 10258;
const WEBHOOK_PORT: i32 = 10260;

/// The cloud-controller-manager as a component of the manager.
pub static CLOUD_CONTROLLER_MANAGER: Component = Component {
    name: NAME,
    introduction: "\
Flyball's cloud-controller-manager: the control loops of Kubernetes v1.36 that need a cloud. It completes
the Nodes of new machines, deletes those of machines that are gone, makes load balancers for Services, and
routes to the pods of every node. --cloud-provider says whose cloud.
",
    flags: flags::FLAGS,
    controllers: table::CONTROLLERS,
    defaults,
    problems: validate::problems,
    configz: Config::cloud_configz,
    has_zpages: false,
    reads: |gate| {
        matches!(
            gate,
            Gate::AllowParsingUserUIDFromCertAuth
                | Gate::CloudControllerManagerWatchBasedRoutesReconciliation
                | Gate::CloudControllerManagerWebhook
                | Gate::LoggingAlphaOptions
                | Gate::LoggingBetaOptions
                | Gate::RemoteRequestHeaderUID
                | Gate::UnauthenticatedHTTP2DOSMitigation
                | Gate::WatchListClient
        )
    },
    release: Release::Never,
};

/// The `main` of a cloud-controller-manager with these providers.
pub fn main(providers: &'static [Provider]) -> ExitCode {
    main_with(&CLOUD_CONTROLLER_MANAGER, providers)
}

/// The same with other flags or more controllers. Controllers find their [`Cloud`] in
/// [`Context::extensions`](flyball_runtime::Context).
pub fn main_with(component: &'static Component, providers: &'static [Provider]) -> ExitCode {
    match vendor::with_flags(component, providers) {
        Ok(component) => main_of(component, async |prepared: &Prepared, foundation: &Foundation| {
            equip(providers, prepared, foundation).await
        }),
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{}: {problem}", component.name);
            ExitCode::FAILURE
        }
    }
}

fn defaults() -> Options {
    let mut options = Options::default();
    options.config.generic.leader_election.resource_name = NAME.to_owned();
    options.serving = ServingOptions { port: PORT, pair_name: NAME, ..ServingOptions::default() };
    options.webhook_serving = ServingOptions {
        flag_prefix: "webhook-",
        port: WEBHOOK_PORT,
        pair_name: "cloud-controller-manager-webhook",
        ..ServingOptions::default()
    };
    options
}

async fn equip(
    providers: &[Provider],
    prepared: &Prepared,
    foundation: &Foundation,
) -> Result<Equipment, Vec<String>> {
    if flyball_manager::is_shadow() {
        let shadow = flyball_manager::SHADOW;
        return Err(vec![format!(
            "{shadow} is set, but only writes to the API server can be left out: the cloud itself would be changed; unset it"
        )]);
    }
    let cloud = open(providers, prepared, foundation).await.map_err(|problem| vec![problem])?;
    fits(&cloud, prepared).map_err(|problem| vec![problem])?;
    let (beginning, ending) = (cloud.clone(), cloud.clone());
    let options = prepared.options.clone();
    let webhooks = webhook::chosen(&cloud.webhooks, &options.config.cloud.webhook.webhooks)
        .map_err(|problem| vec![problem])?;
    let is_on = prepared.gates.enabled(Gate::CloudControllerManagerWebhook);
    Ok(Equipment {
        serve: is_on
            .then(|| -> ServeMore { Box::new(move |metrics| webhook::serve(&webhooks, &options, metrics)) }),
        extensions: Extensions::default().with(cloud),
        begin: Some(Box::new(move |context| Box::pin(async move { beginning.begin(context).await }))),
        end: Some(Box::new(move |why| Box::pin(async move { ending.end(why).await }))),
    })
}

async fn open(providers: &[Provider], prepared: &Prepared, foundation: &Foundation) -> Result<Cloud, String> {
    let settings = &prepared.options.config.kube_cloud_shared.cloud_provider;
    let Some(provider) = providers.iter().find(|provider| provider.name == settings.name) else {
        let names: Vec<&str> = providers.iter().map(|provider| provider.name).collect();
        return Err(format!(
            "--cloud-provider: there is no cloud provider {:?} here; this program has: {}",
            settings.name,
            names.join(", ")
        ));
    };
    let opening = Opening::new(provider.name, prepared, foundation);
    let has_file = opening.config_file.is_some();
    (provider.open)(opening).await.map_err(|error| {
        let (flag, name) = (if has_file { "--cloud-config" } else { "--cloud-provider" }, provider.name);
        format!("{flag}: the cloud of provider {name:?} cannot be opened: {}", Chain(&*error))
    })
}

/// Checks the cloud against the flags.
fn fits(cloud: &Cloud, prepared: &Prepared) -> Result<(), String> {
    let config = &prepared.options.config.kube_cloud_shared;
    if !cloud.is_tagged() {
        if !config.allow_untagged_cloud {
            return Err(format!(
                "the cloud of provider {:?} does not say which cluster its resources belong to; \
                 --allow-untagged-cloud goes on nevertheless",
                cloud.name()
            ));
        }
        tracing::warn!("the cloud does not say which cluster its resources belong to");
    }
    let is_chosen = |name| prepared.controllers.iter().any(|controller| controller.name == name);
    if is_chosen(table::ROUTES) && config.configure_cloud_routes && cloud.has_routes() {
        route::settings::ranges(&config.cluster_cidr)
            .map_err(|problem| format!("{problem} (--configure-cloud-routes=false does without routes)"))?;
    }
    Ok(())
}
