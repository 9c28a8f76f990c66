//! Our controller manager in this process: the program's own flags, controllers and identities, over the embedded
//! server.

use std::sync::Arc;
use std::time::Duration;

use flyball_apiserver::ApiServer;
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Identities, Transport, user_agent};
use flyball_cloud::CLOUD_CONTROLLER_MANAGER;
use flyball_cloud::simulated::{Config, Simulated};
use flyball_manager::engine::Engine;
use flyball_manager::flags::Invocation;
use flyball_manager::select::{Choice, choose};
use flyball_manager::table::Controller;
use flyball_manager::{KUBE_CONTROLLER_MANAGER, Prepared, Surroundings, prepare};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{
    DebugPages, Extensions, Health, Leadership, Metrics, Shared, Signal, Supervision, version,
};
use tokio::task::JoinHandle;

use super::identity::Identity;
use super::transport::UserTransport;
use super::{Controllers, Options, StartError};

const USER: &str = "system:kube-controller-manager";
/// Grace period for syncs in flight; the server stops right after the controllers.
const GRACE: Duration = Duration::from_secs(1);
/// Client-side rate limits are practically off: this server has no other clients to protect.
const QPS: f64 = 1000.0;
const BURST: u32 = 2000;

pub(super) fn start(
    server: &ApiServer,
    identity: &Identity,
    options: &Options,
    decisions: DecisionLog,
    shutdown: Signal,
) -> Result<(Controllers, JoinHandle<()>), StartError> {
    let (asked, clock) = (options.manager_flags.as_slice(), options.clock);
    let Prepared { options, gates, mut controllers, notices, .. } = read(identity, options)?;
    // No notices about flags that we set ourselves.
    let names: Vec<&str> = asked.iter().filter_map(|flag| flag.split('=').next()).collect();
    let about_asked = |notice: &String| names.iter().any(|name| notice.starts_with(&format!("{name} ")));
    let notices = notices.into_iter().filter(about_asked).collect();
    let list = &options.config.generic.controllers;
    controllers.extend(balancing(list, &gates));
    let agent = user_agent(version::GIT_VERSION, version::FLYBALL, "");
    let transport: Arc<dyn Transport> = Arc::new(UserTransport::new(server.clone(), USER, &[]));
    let open: Arc<dyn Transport> = Arc::new(UserTransport::by_token(server.clone()));
    let limited =
        ClientOptions { user_agent: agent.clone(), qps: QPS, burst: BURST, ..ClientOptions::default() };
    let main = Client::new(Arc::clone(&transport), limited.clone());
    let identities = Identities::per_account(main, open, agent.clone());
    let unlimited = ClientOptions { user_agent: format!("{agent}/shared-informers"), qps: 0.0, ..limited };
    let cloud = Simulated::new(Config::default()).cloud();
    let shared = Shared {
        component: KUBE_CONTROLLER_MANAGER.name,
        clock,
        config: Arc::new(options.config.clone()),
        gates,
        informers: Informers::new(Client::new(transport, unlimited), InformerOptions::default()),
        decisions,
        debug: DebugPages::default(),
        metrics: Metrics::default(),
        server_ca: Some(identity.root_ca().into()),
        extensions: Extensions::default().with(cloud.clone()),
    };
    let supervision =
        Supervision { leading: Leadership::always(), shutdown, grace: GRACE, health: Health::default() };
    let surroundings = Surroundings {
        informers: shared.informers.clone(),
        identities: identities.clone(),
        shutdown: supervision.shutdown.clone(),
    };
    let engine = Engine::new(shared, identities);
    let running = controllers.iter().map(|controller| controller.name).collect();
    let task = tokio::spawn(async move {
        cloud.begin(surroundings).await;
        engine.run(controllers, &supervision).await;
    });
    Ok((Controllers { running, notices }, task))
}

/// The service-lb-controller, if it is enabled. In a real cluster it runs in a cloud-controller-manager; here the cloud is
/// simulated.
fn balancing(list: &[String], gates: &Gates) -> Option<&'static Controller> {
    const NAME: &str = "service-lb-controller";
    let known = KUBE_CONTROLLER_MANAGER.controller(NAME)?;
    let is_wanted = choose(known, list, gates) == Choice::Cloud;
    CLOUD_CONTROLLER_MANAGER.controller(NAME).filter(|_| is_wanted)
}

/// Parses the flags as the program would.
fn read(identity: &Identity, options: &Options) -> Result<Prepared, StartError> {
    let mut arguments = vec![
        format!("--service-account-private-key-file={}", identity.path("sa.key")),
        format!("--root-ca-file={}", identity.root_ca_file()),
        format!("--cluster-signing-cert-file={}", identity.path("ca.crt")),
        format!("--cluster-signing-key-file={}", identity.path("ca.key")),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--controllers={}", options.controllers.join(",")),
    ];
    arguments.extend(options.manager_flags.iter().cloned());
    let parsed = match KUBE_CONTROLLER_MANAGER.parse(&arguments) {
        Ok(Invocation::Run(parsed)) => parsed,
        Ok(Invocation::Help | Invocation::Version(_)) => {
            let why = "the controller manager's flags may not ask for help or the version here";
            return Err(StartError::Flags(why.to_owned()));
        }
        Err(error) => return Err(StartError::Flags(error.to_string())),
    };
    prepare(*parsed).map_err(|problems| StartError::Flags(problems.join("\n")))
}
