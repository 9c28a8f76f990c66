//! The load balancers of this machine: their desired state, and the loop that applies it to the kernel while this process leads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Key, Node, Object, Service};
use flyball_cache::{Informer, Subscription};
use flyball_cloud::kit::{ConfigFile, shown};
use flyball_cloud::service::backends::eligible;
use flyball_cloud::service::plan::wants_balancer;
use flyball_cloud::{CloudError, LoadBalancers, default_name};
use flyball_manager::LeaderContext;
use flyball_runtime::{Chain, Metrics, Signal};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::allocate::{View, allocate, to_probe};
use crate::apply::Machine;
use crate::balancer::{Balancer, Held, Unknown, node_addresses, sources};
use crate::config::{Config, LoadBalancers as Pools};
use crate::health;
use crate::kernel::Kernel;
use crate::metrics::GatewayMetrics;
use crate::plan::{Lifetime, Wanted};

/// How often an address is announced: an announcement may be lost.
const ANNOUNCEMENTS: u32 = 3;
/// How often the kernel's state is compared with what is wanted, if nothing has changed and no lifetime is to be renewed.
const PERIOD: Duration = Duration::from_secs(10);

/// How long an address is avoided that another machine has.
const AVOIDED: Duration = Duration::from_secs(600);
/// How many addresses that other machines have are passed over for one Service.
const MOST_PROBES: usize = 8;
/// How often nodes are asked whether they have endpoints.
const HEALTH_PERIOD: Duration = Duration::from_secs(2);

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Gateway(Arc<Inner>);

struct Inner {
    file: Arc<ConfigFile<Config>>,
    machine: Arc<Machine>,
    lifetime: Lifetime,
    state: Mutex<State>,
    /// Held while the kernel's state is changed.
    changing: Arc<tokio::sync::Mutex<()>>,
    /// Wakes the loop before its time.
    wake: Notify,
    /// There are nodes that have not been asked for endpoints.
    ask: Notify,
    metrics: GatewayMetrics,
    /// The cluster, once it is known.
    caches: OnceLock<Caches>,
}

struct Caches {
    services: Arc<Informer<Service>>,
    nodes: Arc<Informer<Node>>,
    _subscription: Subscription,
}

#[derive(Default)]
struct State {
    balancers: BTreeMap<String, Balancer>,
    /// This process no longer leads, so all requests are refused.
    is_closed: bool,
    /// Addresses that are still to be announced, and how often.
    announce: BTreeMap<Held, u32>,
    /// Addresses that this machine has for something else.
    conflicts: BTreeMap<IpAddr, SmolStr>,
    /// Addresses that cannot be held, and why.
    failures: BTreeMap<IpAddr, String>,
    /// Addresses that another machine has, and until when they are avoided.
    avoided: BTreeMap<IpAddr, Instant>,
    /// Which health-check node ports have endpoints, as far as they have been asked.
    health: BTreeMap<SocketAddr, bool>,
}

impl Gateway {
    pub(crate) fn new(
        file: Arc<ConfigFile<Config>>,
        kernel: Arc<dyn Kernel>,
        lifetime: Lifetime,
        metrics: &Metrics,
    ) -> Self {
        Self(Arc::new(Inner {
            file,
            machine: Arc::new(Machine::new(kernel)),
            lifetime,
            state: Mutex::default(),
            changing: Arc::default(),
            wake: Notify::new(),
            ask: Notify::new(),
            metrics: GatewayMetrics::new(metrics),
            caches: OnceLock::new(),
        }))
    }

    /// Takes over: sets up the load balancers of all Services whose status has addresses at once, before the controllers sync
    /// them, and removes all other state of ours from the kernel. From then on, the loop keeps the kernel in the desired state.
    pub(crate) async fn begin(&self, context: LeaderContext) {
        let _ = self.0.machine.fence.set(context.fence);
        let (services, nodes) = (context.informers.get::<Service>(), context.informers.get::<Node>());
        if !(services.synced().await && nodes.synced().await) {
            return;
        }
        // The gateway lives as long as the process.
        let gateway = self.clone();
        let subscription = nodes.subscribe(Box::new(move |change| {
            if let Some(node) = change.new {
                gateway.node_changed(node);
            }
        }));
        let known = (services.store().list(), eligible(nodes.store().list()));
        let _ = self.0.caches.set(Caches { services, nodes, _subscription: subscription });
        self.load(known.0, &known.1);
        if let Err(error) = self.reconcile().await {
            tracing::error!(error = %Chain(&error), "the load balancers of this machine cannot be set up; trying again");
        }
        tokio::spawn(self.clone().keep(context.shutdown.clone()));
        tokio::spawn(self.clone().renew(context.shutdown.clone()));
        tokio::spawn(self.clone().watch_health(context.shutdown));
    }

    /// Deletes the rules that a killed process has left behind: on a standby they would redirect packets for its own pods. The
    /// addresses of the killed process expire by themselves.
    pub(crate) async fn delete_leftover_rules(self, shutdown: Signal) {
        let Lifetime::For(time) = self.0.lifetime else { return };
        loop {
            let alone = self.0.changing.clone().lock_owned().await;
            if self.0.caches.get().is_some() {
                return;
            }
            let machine = self.0.machine.clone();
            let done = spawn_blocking(move || {
                let _alone = alone;
                machine.delete_leftover_rules()
            });
            match done.await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot delete the rules of an earlier process"),
                Err(_) => return,
            }
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = shutdown.wait() => return,
            }
        }
    }

    /// The nodes that were in use are not known here, so all are until they are asked: nothing waits for those that do not answer.
    fn load(&self, mut services: Vec<Arc<Service>>, nodes: &[Arc<Node>]) {
        services.retain(|service| wants_balancer(service) && !service.metadata.is_deleting());
        services.sort_unstable_by_key(|service| service.key());
        for service in services.iter().filter(|service| shown(service).next().is_some()) {
            if let Err(error) = self.put(service, nodes, Unknown::Usable, &BTreeSet::new()) {
                tracing::warn!(service = %service.key(), error = %Chain(&error), "its load balancer is not taken over");
            }
        }
    }

    /// The service controller updates load balancers when nodes are added or removed, but not when their addresses change, which
    /// are often set later.
    fn node_changed(&self, node: &Node) {
        let addresses = node_addresses(node);
        let mut state = self.0.state.lock();
        let backends = state.balancers.values_mut().flat_map(|balancer| &mut balancer.backends);
        let outdated =
            backends.filter(|backend| backend.node == node.metadata.name && backend.addresses != addresses);
        let changed = outdated.map(|backend| backend.addresses.clone_from(&addresses)).count();
        if changed > 0 {
            self.0.wake.notify_one();
        }
    }

    fn period(&self) -> Duration {
        match self.0.lifetime {
            Lifetime::Forever => PERIOD,
            // Two renewals may fail.
            Lifetime::For(time) => (time / 3).max(Duration::from_millis(500)),
        }
    }

    /// Reverts changes that others have made to the kernel's state.
    async fn keep(self, shutdown: Signal) {
        let mut ticks = ticks(self.period());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.0.wake.notified() => {}
                () = shutdown.wait() => return,
            }
            if self.0.state.lock().is_closed {
                return;
            }
            if let Err(error) = self.reconcile().await {
                tracing::error!(error = %Chain(&error), "the load balancers of this machine are not up to date; trying again");
            }
        }
    }

    /// Renews lifetimes, whatever else is under way.
    async fn renew(self, shutdown: Signal) {
        if self.0.lifetime == Lifetime::Forever {
            return;
        }
        let mut ticks = ticks(self.period());
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = shutdown.wait() => return,
            }
            let (machine, lifetime) = (self.0.machine.clone(), self.0.lifetime);
            if self.0.state.lock().is_closed || spawn_blocking(move || machine.renew(lifetime)).await.is_err()
            {
                return;
            }
        }
    }

    /// Refuses to do more, and withdraws everything. Where no other process could take over, everything stays as it is, so that
    /// packets still arrive while the program restarts.
    pub(crate) async fn end(&self) {
        if self.0.lifetime == Lifetime::Forever {
            self.0.state.lock().is_closed = true;
            tracing::info!("load balancers stay as they are until the next start");
            return;
        }
        {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            state.balancers.clear();
            state.announce.clear();
        }
        match self.reconcile().await {
            Ok(()) => tracing::info!("the addresses of load balancers are withdrawn"),
            Err(error) => {
                tracing::error!(error = %Chain(&error), "the addresses of load balancers cannot be withdrawn; they expire");
            }
        }
    }

    /// Watches health-check node ports; apart from the renewals, which must not wait for a node that does not answer.
    async fn watch_health(self, shutdown: Signal) {
        let mut ticks = ticks(HEALTH_PERIOD);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.0.ask.notified() => {}
                () = shutdown.wait() => return,
            }
            if self.0.state.lock().is_closed {
                return;
            }
            self.check_health().await;
        }
    }

    /// Queries the health-check node ports of all Services with `externalTrafficPolicy: Local`.
    pub(crate) async fn check_health(&self) {
        let targets: BTreeSet<SocketAddr> =
            self.0.state.lock().balancers.values().flat_map(Balancer::health_checks).collect();
        let answers = health::check(targets.clone()).await;
        let mut state = self.0.state.lock();
        let state = &mut *state;
        // What could not be asked counts as before.
        state.health.retain(|target, _| targets.contains(target));
        state.health.extend(answers);
        for balancer in state.balancers.values_mut() {
            if balancer.set_idle(&state.health, Unknown::Idle) {
                tracing::info!(service = %balancer.service, "other nodes have endpoints");
                self.0.wake.notify_one();
            }
        }
    }

    /// Records what a Service asks for, with addresses for it. Of an update that is refused, what keeps clients out counts
    /// nevertheless.
    fn put(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        unknown: Unknown,
        probed: &BTreeSet<IpAddr>,
    ) -> Result<Put, CloudError> {
        let config = self.0.file.current();
        let pools = config.load_balancers.as_ref().ok_or(CloudError::NotImplemented)?;
        let shown = self.shown_by_others(service);
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(CloudError::failed("this process leads no more"));
        }
        let put = self.wanted(&state, pools, service, nodes, shown);
        let name = default_name(service);
        let mut balancer = match put {
            Ok(balancer) => balancer,
            Err(error) => {
                match (state.balancers.get_mut(&name), sources(service)) {
                    (Some(present), Ok(sources)) => present.sources = sources,
                    // Who may use it is not known.
                    (Some(_), Err(_)) => drop(state.balancers.remove(&name)),
                    (None, _) => {}
                }
                return Err(error);
            }
        };
        if let Some(new) = to_probe(service, state.balancers.get(&name), &balancer, probed) {
            return Ok(Put::Probe(new));
        }
        balancer.set_idle(&state.health, unknown);
        if balancer.health_checks().any(|target| !state.health.contains_key(&target)) {
            self.0.ask.notify_one();
        }
        let status = balancer.status();
        state.balancers.insert(name, balancer);
        Ok(Put::Done(status))
    }

    /// The load balancer that a Service asks for.
    fn wanted(
        &self,
        state: &State,
        pools: &Pools,
        service: &Service,
        nodes: &[Arc<Node>],
        shown: BTreeSet<IpAddr>,
    ) -> Result<Balancer, CloudError> {
        let avoided = state.avoided.iter().filter(|(_, until)| Instant::now() < **until);
        let avoided = avoided.map(|(address, _)| *address);
        let taken = state.conflicts.keys().copied().chain(avoided).chain(shown).collect();
        let mut balancer = allocate(&View { pools, balancers: &state.balancers, taken }, service, nodes)?;
        // The cache may have newer addresses than what the controller has read, and reports no change from before.
        let cached = |name: &SmolStr| self.0.caches.get()?.nodes.store().get(&Key::cluster(name.clone()));
        for backend in &mut balancer.backends {
            if let Some(node) = cached(&backend.node) {
                backend.addresses = node_addresses(&node);
            }
        }
        Ok(balancer)
    }

    /// [`Self::put`], once no other machine in the network answers for the addresses.
    async fn put_probed(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<LoadBalancerStatus, CloudError> {
        let mut free = BTreeSet::new();
        for _ in 0..MOST_PROBES {
            let held = match self.put(service, nodes, Unknown::Idle, &free)? {
                Put::Done(status) => return Ok(status),
                Put::Probe(held) => held,
            };
            let (machine, probed) = (self.0.machine.clone(), held.clone());
            match spawn_blocking(move || machine.kernel.is_elsewhere(&probed))
                .await
                .map_err(CloudError::failed)?
            {
                Ok(false) => drop(free.insert(held.address)),
                Ok(true) => {
                    tracing::warn!(address = %held, "another machine has an address of the pools; it is avoided");
                    if service.spec.load_balancer_ip.parse() == Ok(held.address) {
                        return Err(CloudError::failed(format!(
                            "loadBalancerIP {} is in use by another machine in the network",
                            held.address
                        )));
                    }
                    self.0.state.lock().avoided.insert(held.address, Instant::now() + AVOIDED);
                }
                // A machine that cannot probe the network cannot add the address either; that error is reported then.
                Err(error) => {
                    tracing::warn!(%error, address = %held, "cannot probe whether another machine has the address");
                    free.insert(held.address);
                }
            }
        }
        Err(CloudError::failed(
            "several addresses of the pools belong to other machines in the network; take them out of the pools",
        ))
    }

    /// The addresses in the statuses of other Services.
    fn shown_by_others(&self, service: &Service) -> BTreeSet<IpAddr> {
        let services = self.0.caches.get().map(|caches| caches.services.store().list());
        let others = services
            .into_iter()
            .flatten()
            .filter(|other| other.uid() != service.uid() && wants_balancer(other));
        others.flat_map(|other| shown(&other).collect::<Vec<_>>()).collect()
    }

    /// Brings the kernel to what is wanted.
    async fn reconcile(&self) -> Result<(), CloudError> {
        let done = self.change().await;
        let metrics = &self.0.metrics;
        match &done {
            Ok(()) => {
                let state = self.0.state.lock();
                let wanted: usize = state.balancers.values().map(|balancer| balancer.addresses.len()).sum();
                let missing = state.conflicts.len() + state.failures.len();
                metrics.addresses.set(wanted.saturating_sub(missing) as f64);
                metrics.missing.set(missing as f64);
            }
            Err(_) => metrics.failures.inc(),
        }
        done
    }

    async fn change(&self) -> Result<(), CloudError> {
        let alone = self.0.changing.clone().lock_owned().await;
        let (balancers, announce): (Vec<Balancer>, Vec<Held>) = {
            let mut state = self.0.state.lock();
            state.announce.retain(|_, times| *times > 0);
            state.announce.values_mut().for_each(|times| *times -= 1);
            (state.balancers.values().cloned().collect(), state.announce.keys().cloned().collect())
        };
        let (machine, lifetime) = (self.0.machine.clone(), self.0.lifetime);
        let work = move || {
            // Here, since this may run on when nothing waits for it any more.
            let _alone = alone;
            machine.change(&Wanted { balancers: balancers.iter().collect(), lifetime }, &announce)
        };
        let changed = spawn_blocking(work).await.map_err(CloudError::failed)?.map_err(CloudError::failed)?;
        let mut state = self.0.state.lock();
        state.avoided.retain(|_, until| Instant::now() < *until);
        for held in changed.new {
            state.announce.insert(held, ANNOUNCEMENTS - 1);
        }
        if state.conflicts != changed.conflicts {
            tracing::warn!(addresses = ?changed.conflicts, "this machine has addresses of load balancers for something else");
            state.conflicts = changed.conflicts;
        }
        if state.failures != changed.failures {
            tracing::error!(failures = ?changed.failures, "addresses of load balancers cannot be held; trying again");
            state.failures = changed.failures;
        }
        Ok(())
    }

    /// Fails if this machine does not hold the addresses of a load balancer.
    fn is_held(&self, name: &str) -> Result<(), CloudError> {
        let state = self.0.state.lock();
        let addresses = state.balancers.get(name).into_iter().flat_map(|balancer| &balancer.addresses);
        let problem = |held: &Held| {
            let Held { address, .. } = held;
            let taken = state.conflicts.get(address).map(|interface| {
                format!(
                    "{address} is an address of this machine already, on {interface}; remove it there, or take it out of the pools"
                )
            });
            taken.or_else(|| state.failures.get(address).cloned())
        };
        let mut problems = addresses.filter_map(problem);
        problems.next().map_or(Ok(()), |problem| Err(CloudError::failed(problem)))
    }
}

/// The result of recording a Service.
enum Put {
    Done(LoadBalancerStatus),
    /// The network has to be probed for this address first.
    Probe(Held),
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

impl LoadBalancers for Gateway {
    async fn get(&self, _: &str, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        Ok(self.0.state.lock().balancers.get(&default_name(service)).map(Balancer::status))
    }

    async fn ensure(
        &self,
        _: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<LoadBalancerStatus, CloudError> {
        let status = self.put_probed(service, nodes).await;
        // A refused update may still have restricted the source ranges.
        let done = self.reconcile().await;
        let status = status?;
        done?;
        self.is_held(&default_name(service))?;
        Ok(status)
    }

    async fn update(&self, cluster: &str, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        self.ensure(cluster, service, nodes).await.map(drop)
    }

    async fn delete(&self, _: &str, service: &Service) -> Result<(), CloudError> {
        self.0.state.lock().balancers.remove(&default_name(service));
        self.reconcile().await
    }
}
