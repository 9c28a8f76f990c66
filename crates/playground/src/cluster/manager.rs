//! Our controller manager in this process: the program's own flags, controllers and identities, over the embedded
//! server.

use std::sync::Arc;
use std::time::Duration;

use flyball_apiserver::ApiServer;
use flyball_cache::Informers;
use flyball_client::{Client, ClientOptions, Fence, FenceClock, Identities, Transport, user_agent};
use flyball_cloud::CLOUD_CONTROLLER_MANAGER;
use flyball_cloud::simulated::Simulated;
use flyball_manager::engine::Engine;
use flyball_manager::flags::Invocation;
use flyball_manager::select::{Choice, choose, is_listed};
use flyball_manager::table::Controller;
use flyball_manager::{KUBE_CONTROLLER_MANAGER, LeaderContext, Prepared, prepare};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::gates::Gates;
use flyball_runtime::{
    DebugPages, Extensions, Health, Insight, Leadership, Metrics, Shared, Signal, Supervision, version,
};
use tokio::task::JoinHandle;

use super::identity::Identity;
use super::page::Shown;
use super::transport::UserTransport;
use super::{Controllers, Options, StartError};

const USER: &str = "system:kube-controller-manager";
/// Grace period for syncs in flight; the server stops right after the controllers.
const GRACE: Duration = Duration::from_secs(1);
/// Client-side rate limits are practically off: this server has no other clients to protect.
const QPS: f64 = 1000.0;
const BURST: u32 = 2000;

/// The controllers of a cloud of which nothing is known but that it has load balancers.
const BALANCING: &[&str] = &["service-lb-controller"];
/// Those of any other cloud. They do not start if it lacks what they need.
const OF_CLOUD: &[&str] = &[
    "service-lb-controller",
    "cloud-node-controller",
    "cloud-node-lifecycle-controller",
    "node-route-controller",
];
/// What the ranges of all simulated nodes are from.
const POD_RANGES: &str = "10.244.0.0/14";

pub(super) fn start(
    server: &ApiServer,
    identity: &Identity,
    options: &Options,
    cloud: &Simulated,
    decisions: DecisionLog,
    shutdown: Signal,
) -> Result<(Controllers, Shown, JoinHandle<()>), StartError> {
    let (asked, clock) = (options.manager_flags.as_slice(), options.clock);
    let watching = super::watching(options);
    let of_cloud = if options.cloud.is_some() { OF_CLOUD } else { BALANCING };
    let Prepared { options, gates, mut controllers, notices, .. } = read(identity, options)?;
    // No notices about flags that we set ourselves.
    let names: Vec<&str> = asked.iter().filter_map(|flag| flag.split('=').next()).collect();
    let about_asked = |notice: &String| names.iter().any(|name| notice.starts_with(&format!("{name} ")));
    let notices = notices.into_iter().filter(about_asked).collect();
    let list = &options.config.generic.controllers;
    controllers.extend(of_cloud.iter().filter_map(|name| of_the_cloud(name, list, &gates)));
    let agent = user_agent(version::GIT_VERSION, version::FLYBALL, "");
    let transport: Arc<dyn Transport> = Arc::new(UserTransport::new(server.clone(), USER, &[]));
    let open: Arc<dyn Transport> = Arc::new(UserTransport::by_token(server.clone()));
    let limited =
        ClientOptions { user_agent: agent.clone(), qps: QPS, burst: BURST, ..ClientOptions::default() };
    let main = Client::new(Arc::clone(&transport), limited.clone());
    let identities = Identities::per_account(main, open, agent.clone());
    let unlimited = ClientOptions { user_agent: format!("{agent}/shared-informers"), qps: 0.0, ..limited };
    let cloud = cloud.cloud();
    let (insight, health) = (Insight::default(), Health::default());
    let shared = Shared {
        component: KUBE_CONTROLLER_MANAGER.name,
        clock,
        config: Arc::new(options.config.clone()),
        gates,
        informers: Informers::new(Client::new(transport, unlimited), watching),
        decisions,
        debug: DebugPages::default(),
        metrics: Metrics::default(),
        server_ca: Some(identity.root_ca().into()),
        extensions: Extensions::default().with(cloud.clone()).with(insight.clone()),
    };
    let supervision =
        Supervision { leading: Leadership::always(), shutdown, grace: GRACE, health: health.clone() };
    let context = LeaderContext {
        informers: shared.informers.clone(),
        identities: identities.clone(),
        fence: Fence::new(FenceClock::Boot),
        shutdown: supervision.shutdown.clone(),
    };
    let shown = Shown { informers: shared.informers.clone(), insight, health };
    let engine = Engine::new(shared, identities);
    let running = controllers.iter().map(|controller| controller.name).collect();
    let task = tokio::spawn(async move {
        cloud.begin(context).await;
        engine.run(controllers, &supervision).await;
    });
    Ok((Controllers { running, notices }, shown, task))
}

/// A controller that needs a cloud, if it is enabled. In a real cluster it runs in a cloud-controller-manager; here the cloud is
/// simulated.
fn of_the_cloud(name: &str, list: &[String], gates: &Gates) -> Option<&'static Controller> {
    let is_wanted = match KUBE_CONTROLLER_MANAGER.controller(name) {
        Some(known) => choose(known, list, gates) == Choice::Cloud,
        // kube-controller-manager never had this one.
        None => is_listed(name, true, list),
    };
    CLOUD_CONTROLLER_MANAGER.controller(name).filter(|_| is_wanted)
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
    if options.cloud.is_some() {
        arguments.push(format!("--cluster-cidr={POD_RANGES}"));
    }
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
