//! The program from end to end: two gateways as processes in network namespaces, an API server, and a client whose packets
//! arrive, move to the other gateway, and stop. Skipped where there can be no namespaces.

#![allow(clippy::unwrap_used)] // errors should fail the test

mod world;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use flyball_api::{Key, Node, Resource, ResourceType, Service};
use flyball_client::{Client, Patch, Request, Verb};
use flyball_playground::Cluster;
use flyball_playground::cluster::{Components, Options, Port};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize as _;
use serde_json::{Value, json};
use world::{NODE_PORTS, World, ask};

/// A deadline for a machine under load; nothing takes nearly as long.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The Services of the test.
const NAMES: [&str; NODE_PORTS.len()] = ["web", "limited", "sticky", "local"];
/// Roles, configuration and flags, as they are documented.
const MANIFESTS: &str = include_str!("../../../deploy/cloud/linux.yaml");

#[test]
fn packets_arrive_move_and_stop() {
    on_machines("packets_arrive_move_and_stop", async |world, folder| two_gateways(world, folder).await);
}

#[test]
fn a_single_gateway_restarts_unnoticed() {
    on_machines("a_single_gateway_restarts_unnoticed", async |world, folder| {
        one_gateway(world, folder).await
    });
}

/// Plays a test from where the API server is, in a network that the gateways reach.
fn on_machines<F>(test: &'static str, play: F)
where
    F: AsyncFn(&World, &Path) -> anyhow::Result<()> + Send + 'static,
{
    let world = match World::new() {
        Ok(world) => Arc::new(world),
        Err(why) => {
            // Past the capture of the test harness.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why:#}");
            return;
        }
    };
    let inside = world.clone();
    let result = world.inside("hub", move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let folder = tempfile::tempdir()?;
        let played = runtime.block_on(play(&inside, folder.path()));
        if played.is_err() {
            for machine in ["g1", "g2"] {
                println!(
                    "{machine}:\n{}",
                    std::fs::read_to_string(folder.path().join(machine)).unwrap_or_default()
                );
            }
        }
        played
    });
    result.unwrap().unwrap();
}

/// A cluster with two nodes, and the files of the gateways.
async fn prepare(folder: &Path) -> anyhow::Result<(Cluster, Api)> {
    let cluster = serve().await?;
    let api = Api(cluster.admin());
    let manifests = Manifests::read()?;
    manifests.apply(&api).await?;
    let token = api.token("linux-cloud-controller-manager").await?;
    let admin = cluster.kubeconfig()?.context("it serves")?;
    std::fs::write(folder.join("kubeconfig"), with_token(&admin, &token)?)?;
    std::fs::write(folder.join("cloud.yaml"), manifests.configuration()?)?;
    for (node, range) in [("n1", 1), ("n2", 2)] {
        api.create::<Node>(unready(node, range)).await?;
    }
    Ok((cluster, api))
}

/// Without an election there is no other that could take over, so nothing is withdrawn.
async fn one_gateway(world: &World, folder: &Path) -> anyhow::Result<()> {
    let (cluster, api) = prepare(folder).await?;
    let alone = ["--leader-elect=false"];
    let gateway = Gateway::start_with(world, "g1", folder, &alone)?;
    api.create::<Service>(service("web", json!({}))).await?;
    let web = format!("{}:80", api.addresses("web").await?[0]);
    until("an answer", || world.connect(&web).is_ok())?;
    let before = held(world, "g1");
    ensure!(before.contains("valid_lft forever"), "{before}");
    gateway.end()?;
    world.connect(&web).context("while the program does not run")?;
    // A Service that is deleted meanwhile waits for its finalizer.
    api.delete("web").await?;
    let restarted = Gateway::start_with(world, "g1", folder, &alone)?;
    until("the address to go", || held(world, "g1").is_empty())?;
    ensure!(world.connect(&web).is_err(), "packets still arrive");
    restarted.end()?;
    cluster.stop().await;
    Ok(())
}

async fn two_gateways(world: &World, folder: &Path) -> anyhow::Result<()> {
    let (cluster, api) = prepare(folder).await?;
    // What is not ours, and has to stay.
    world.ip("g1", "addr add 192.0.2.77/24 dev lan")?;
    world.ip("g1", "route add 10.250.0.0/16 via 10.0.0.11")?;

    let mut gateways = vec![Gateway::start(world, "g1", folder)?, Gateway::start(world, "g2", folder)?];
    api.create::<Service>(service(
        "web",
        json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
    ))
    .await?;
    let addresses = api.addresses("web").await?;
    let [v4, v6] = &addresses[..] else { anyhow::bail!("{addresses:?}") };
    let (web, web6) = (format!("{v4}:80"), format!("[{v6}]:80"));

    arrive(world, &web, &web6, v4).await?;
    nodes_are_complete(&api).await?;
    let leads =
        gateways.iter().map(|gateway| gateway.machine).find(|machine| !held(world, machine).is_empty());
    let gateway = leads.context("a leader holds the addresses")?;
    routes_lead_to_nodes(world, gateway)?;
    sources_are_limited(world, &api, gateway).await?;
    clients_stay(world, &api).await?;
    only_nodes_with_endpoints_get_packets(world, &api, gateway).await?;
    move_when_the_leader_is_killed(world, &mut gateways, gateway, &web, folder)?;
    move_when_the_leader_is_stopped(world, &mut gateways, &web, folder)?;
    move_when_the_leader_ends(world, &mut gateways, &web)?;
    stop_when_the_service_is_deleted(world, &api, &web, v4).await?;
    let foreign = (world.ip("g1", "addr show dev lan")?, world.ip("g1", "route show")?);
    ensure!(
        foreign.0.contains("192.0.2.77/24") && foreign.1.contains("10.250.0.0/16 via 10.0.0.11"),
        "{foreign:?}"
    );
    withdraw_without_a_server(world, &mut gateways, cluster).await?;
    for machine in ["g1", "g2"] {
        let log = std::fs::read_to_string(folder.join(machine))?;
        let refused = log.lines().find(|line| line.contains("forbidden"));
        ensure!(refused.is_none(), "the documented roles are not enough on {machine}: {refused:?}");
    }
    Ok(())
}

async fn arrive(world: &World, web: &str, web6: &str, v4: &str) -> anyhow::Result<()> {
    let mut answers = BTreeSet::new();
    until("an answer of each node, over both families", || {
        answers.extend([world.connect(web), world.connect(web6)].into_iter().flatten());
        // The nodes see the gateway, so that their replies come back through it.
        let senders: BTreeSet<String> =
            answers.iter().map(|a| a.replace("10.0.0.3", "10.0.0.2").replace("fd00::3", "fd00::2")).collect();
        let want = ["n1 10.0.0.2", "n1 fd00::2", "n2 10.0.0.2", "n2 fd00::2"];
        senders.iter().eq(want)
    })
    .with_context(|| format!("{answers:?}"))?;
    let socket = world.datagrams()?;
    until("an answer over UDP", || ask(&socket, &format!("{v4}:53")).is_some())?;
    // A port that the Service does not have is refused, not left to the gateway's own programs.
    let refused = world.connect(&format!("{v4}:81")).unwrap_err();
    ensure!(refused.kind() == std::io::ErrorKind::ConnectionRefused, "{refused:?}");
    println!("packets arrive at {web} and {web6}");
    Ok(())
}

async fn nodes_are_complete(api: &Api) -> anyhow::Result<()> {
    for name in ["n1", "n2"] {
        let complete = |node: &Value| {
            let is_named = node["spec"]["providerID"] == format!("linux://{name}");
            is_named && node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z1"
        };
        api.wait::<Node>(&Key::cluster(name), complete).await?;
        let routed = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["reason"] == "RouteCreated")
        };
        api.wait::<Node>(&Key::cluster(name), routed).await?;
    }
    Ok(())
}

fn routes_lead_to_nodes(world: &World, gateway: &str) -> anyhow::Result<()> {
    let routes = world.ip(gateway, "route show proto 170")?;
    for want in ["10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12"] {
        ensure!(routes.contains(want), "{routes}");
    }
    Ok(())
}

async fn sources_are_limited(world: &World, api: &Api, gateway: &str) -> anyhow::Result<()> {
    api.create::<Service>(service("limited", json!({"loadBalancerSourceRanges": ["203.0.113.0/24"]})))
        .await?;
    let address = format!("{}:80", api.addresses("limited").await?[0]);
    let kept_out = world.connect(&address).unwrap_err();
    ensure!(kept_out.kind() == std::io::ErrorKind::TimedOut, "{kept_out:?}");
    not_past_the_load_balancer(world, gateway)?;
    api.patch("limited", json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.100/32"]}})).await?;
    until("an answer after the range has changed", || world.connect(&address).is_ok())
}

/// A gateway forwards, so a client could use it as its router to the nodes. Node ports of Services without ranges are open to it.
fn not_past_the_load_balancer(world: &World, gateway: &str) -> anyhow::Result<()> {
    let number = if gateway == "g1" { 2 } else { 3 };
    world.ip("client", &format!("route add 10.0.0.0/24 via 192.0.2.{number}"))?;
    world.ip("n1", &format!("route add 192.0.2.0/24 via 10.0.0.{number}"))?;
    let [open, limited, ..] = NODE_PORTS;
    let answer = world.connect(&format!("10.0.0.11:{open}"))?;
    ensure!(answer == "n1 192.0.2.100", "{answer}");
    let kept_out = world.connect(&format!("10.0.0.11:{limited}")).unwrap_err();
    ensure!(kept_out.kind() == std::io::ErrorKind::TimedOut, "{kept_out:?}");
    world.ip("client", "route del 10.0.0.0/24")?;
    world.ip("n1", "route del 192.0.2.0/24")?;
    Ok(())
}

async fn clients_stay(world: &World, api: &Api) -> anyhow::Result<()> {
    api.create::<Service>(service("sticky", json!({"sessionAffinity": "ClientIP"}))).await?;
    let address = format!("{}:80", api.addresses("sticky").await?[0]);
    let mut answers = BTreeSet::new();
    for _ in 0..20 {
        answers.insert(world.connect(&address).with_context(|| address.clone())?);
    }
    ensure!(answers.len() == 1, "{answers:?}");
    Ok(())
}

/// With `externalTrafficPolicy: Local`, which also shows them the client.
async fn only_nodes_with_endpoints_get_packets(
    world: &World,
    api: &Api,
    gateway: &str,
) -> anyhow::Result<()> {
    let via = if gateway == "g1" { "10.0.0.2" } else { "10.0.0.3" };
    for node in ["n1", "n2"] {
        world.ip(node, &format!("route add 192.0.2.0/24 via {via}"))?;
    }
    world.ready[0].store(false, Ordering::Relaxed);
    let spec = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000});
    api.create::<Service>(service("local", spec)).await?;
    let address = format!("{}:80", api.addresses("local").await?[0]);
    // Until the nodes have been asked, packets are refused.
    until("the node with endpoints to answer", || world.connect(&address).is_ok())?;
    for _ in 0..20 {
        let answer = world.connect(&address).with_context(|| address.clone())?;
        ensure!(answer == "n2 192.0.2.100", "{answer}");
    }
    world.ready[0].store(true, Ordering::Relaxed);
    world.ready[1].store(false, Ordering::Relaxed);
    until("the other node to answer", || {
        world.connect(&address).is_ok_and(|answer| answer.starts_with("n1 "))
    })?;
    for _ in 0..20 {
        let answer = world.connect(&address)?;
        ensure!(answer == "n1 192.0.2.100", "{answer}");
    }
    for node in ["n1", "n2"] {
        world.ip(node, "route del 192.0.2.0/24")?;
    }
    Ok(())
}

/// Killed, it withdraws nothing: its addresses expire, and the other gateway announces them.
fn move_when_the_leader_is_killed(
    world: &World,
    gateways: &mut Vec<Gateway>,
    leader: &str,
    web: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    let at = gateways.iter().position(|gateway| gateway.machine == leader).context("a leader")?;
    let killed = gateways.remove(at);
    let (machine, standby) = (killed.machine, gateways[0].machine);
    killed.kill();
    let began = Instant::now();
    let mut expired = None;
    until("an answer through the other gateway", || {
        if held(world, machine).is_empty() {
            expired.get_or_insert_with(|| began.elapsed());
        } else {
            assert!(held(world, standby).is_empty(), "both gateways hold the addresses");
        }
        is_through(world, web, standby)
    })?;
    let expired = expired.context("the addresses of the killed leader have not expired")?;
    println!("killed: its addresses are gone after {expired:?}");
    println!(
        "killed: packets go through the standby after {:?}, of which the lease takes up to 6 s",
        began.elapsed()
    );
    gateways.push(Gateway::start(world, machine, folder)?);
    Ok(())
}

/// Stopped and continued, it finds that it leads no more before it touches anything.
fn move_when_the_leader_is_stopped(
    world: &World,
    gateways: &mut Vec<Gateway>,
    web: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    let (mut stopped, standby) = (gateways.remove(0), gateways[0].machine);
    until("a standby", || gateways[0].is_serving(world))?;
    kill_process(Pid::from_child(&stopped.child), Signal::STOP)?;
    until("an answer through the standby", || is_through(world, web, standby))?;
    ensure!(held(world, stopped.machine).is_empty(), "both gateways hold the addresses");
    kill_process(Pid::from_child(&stopped.child), Signal::CONT)?;
    let status = loop {
        ensure!(held(world, stopped.machine).is_empty(), "it takes the addresses back");
        if let Some(status) = stopped.child.try_wait()? {
            break status;
        }
    };
    ensure!(status.code() == Some(1), "it ended with {status}");
    println!("stopped: packets go through the standby, and the old leader ends when it is continued");
    gateways.push(Gateway::start(world, stopped.machine, folder)?);
    Ok(())
}

/// Ended, it withdraws its addresses and releases its lease.
fn move_when_the_leader_ends(world: &World, gateways: &mut Vec<Gateway>, web: &str) -> anyhow::Result<()> {
    let (ended, standby) = (gateways.remove(0), gateways[0].machine);
    let machine = ended.machine;
    until("a standby", || gateways[0].is_serving(world))?;
    let began = Instant::now();
    ended.end()?;
    ensure!(held(world, machine).is_empty(), "{machine} still has {:?}", held(world, machine));
    println!("ended: its addresses are withdrawn after {:?}", began.elapsed());
    until("an answer through the standby", || is_through(world, web, standby))?;
    println!("ended: packets go through the standby after {:?}", began.elapsed());
    Ok(())
}

/// Whether a packet arrives, and comes through this gateway.
fn is_through(world: &World, web: &str, gateway: &str) -> bool {
    let address = if gateway == "g1" { " 10.0.0.2" } else { " 10.0.0.3" };
    world.connect(web).is_ok_and(|answer| answer.ends_with(address))
}

async fn stop_when_the_service_is_deleted(
    world: &World,
    api: &Api,
    web: &str,
    v4: &str,
) -> anyhow::Result<()> {
    // A flow that goes on over the deletion.
    let (socket, dns) = (world.datagrams()?, format!("{v4}:53"));
    until("an answer over UDP", || ask(&socket, &dns).is_some())?;
    api.delete("web").await?;
    until("the Service to be gone for the flow", || ask(&socket, &dns).is_none())?;
    ensure!(ask(&socket, &dns).is_none() && world.connect(web).is_err(), "packets still arrive");
    for gateway in ["g1", "g2"] {
        ensure!(!held(world, gateway).contains(v4), "{gateway} still has {v4}");
    }
    println!("packets stop with the Service");
    Ok(())
}

/// Without an API server no process may lead. Other Services still have addresses.
async fn withdraw_without_a_server(
    world: &World,
    gateways: &mut [Gateway],
    cluster: Cluster,
) -> anyhow::Result<()> {
    let gateway = gateways.iter_mut().find(|gateway| !held(world, gateway.machine).is_empty());
    let gateway = gateway.context("a leader holds the addresses")?;
    cluster.stop().await;
    let status = gateway.child.wait()?;
    let left = held(world, gateway.machine);
    ensure!(status.code() == Some(1) && left.is_empty(), "it ended with {status} and has {left:?}");
    println!("without a server: the leader withdraws its addresses and ends");
    Ok(())
}

/// The addresses that a gateway holds for load balancers.
fn held(world: &World, gateway: &str) -> String {
    let addresses = world.ip(gateway, "-o addr show dev lan").unwrap_or_default();
    addresses.lines().filter(|line| line.contains("192.0.2.20") || line.contains("2001:db8::20")).collect()
}

/// Tries until it is so. Packets announce nothing, so trying again is all that a client can do; each attempt takes its time.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_so() {
        ensure!(began.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::yield_now();
    }
    Ok(())
}

async fn serve() -> anyhow::Result<Cluster> {
    let mut options = Options {
        port: Some(Port::Exactly(0)),
        bind: "10.0.0.1".parse()?,
        components: Components::None,
        ..Options::default()
    };
    options.server.service_cidrs = vec!["10.96.0.0/16".parse()?, "fd96::/112".parse()?];
    Ok(Cluster::start(options).await?)
}

/// A manager in a machine's namespace.
struct Gateway {
    machine: &'static str,
    child: Child,
}

impl Gateway {
    fn start(world: &World, machine: &'static str, folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(world, machine, folder, &[])
    }

    fn start_with(
        world: &World,
        machine: &'static str,
        folder: &Path,
        further: &[&str],
    ) -> anyhow::Result<Self> {
        let path = |name: &str| folder.join(name).display().to_string();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(machine))?;
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &world.name(machine),
                env!("CARGO_BIN_EXE_linux-cloud-controller-manager"),
            ])
            .args(Manifests::read()?.arguments()?)
            .arg("--route-reconciliation-period=1s")
            .args(further)
            .arg(format!("--kubeconfig={}", path("kubeconfig")))
            .arg(format!("--cloud-config={}", path("cloud.yaml")))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start the manager")?;
        Ok(Self { machine, child })
    }

    /// Whether it serves its port, which it does when it can take part in an election.
    fn is_serving(&self, world: &World) -> bool {
        let connects = || std::net::TcpStream::connect("127.0.0.1:10258").is_ok();
        world.inside(self.machine, connects).unwrap_or(false)
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it has.
    fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The documents of [`MANIFESTS`].
struct Manifests(Vec<Value>);

impl Manifests {
    fn read() -> anyhow::Result<Self> {
        let documents = serde_yaml::Deserializer::from_str(MANIFESTS).map(Value::deserialize);
        Ok(Self(documents.collect::<Result<_, _>>()?))
    }

    /// Every object as an administrator creates it. Nothing runs the pods of the DaemonSet, but it must be valid.
    async fn apply(&self, api: &Api) -> anyhow::Result<()> {
        const RBAC: &str = "rbac.authorization.k8s.io";
        let types = [
            ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true),
            ResourceType::new("", "v1", "configmaps", "ConfigMap", true),
            ResourceType::new("apps", "v1", "daemonsets", "DaemonSet", true),
            ResourceType::new(RBAC, "v1", "clusterroles", "ClusterRole", false),
            ResourceType::new(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", false),
            ResourceType::new(RBAC, "v1", "roles", "Role", true),
            ResourceType::new(RBAC, "v1", "rolebindings", "RoleBinding", true),
        ];
        for object in &self.0 {
            let known = types.iter().find(|known| object["kind"] == known.kind.as_str());
            api.create_as(known.with_context(|| object["kind"].to_string())?, object).await?;
        }
        Ok(())
    }

    fn of_kind(&self, kind: &str) -> anyhow::Result<&Value> {
        self.0.iter().find(|object| object["kind"] == kind).with_context(|| format!("no {kind}"))
    }

    fn configuration(&self) -> anyhow::Result<String> {
        Ok(self.of_kind("ConfigMap")?["data"]["cloud.yaml"].as_str().context("no cloud.yaml")?.to_owned())
    }

    /// The flags of the program, but for that of its file.
    fn arguments(&self) -> anyhow::Result<Vec<String>> {
        let container = &self.of_kind("DaemonSet")?["spec"]["template"]["spec"]["containers"][0];
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone())?;
        Ok(arguments.into_iter().filter(|argument| !argument.starts_with("--cloud-config=")).collect())
    }
}

/// A kubeconfig for a token in place of the administrator's certificate.
fn with_token(kubeconfig: &str, token: &str) -> anyhow::Result<String> {
    let mut config: Value = serde_yaml::from_str(kubeconfig)?;
    config["users"][0]["user"] = json!({"token": token});
    Ok(config.to_string())
}

struct Api(Client);

impl Api {
    async fn create<T: Resource>(&self, object: Value) -> anyhow::Result<()> {
        self.create_as(&T::TYPE, &object).await
    }

    async fn create_as(&self, resource: &ResourceType, object: &Value) -> anyhow::Result<()> {
        let namespace = object["metadata"]["namespace"].as_str();
        let request = Request::collection(Verb::Create, resource, namespace).body(object.to_string());
        self.0.request(request).await.with_context(|| format!("create {}", object["kind"]))?;
        Ok(())
    }

    async fn token(&self, account: &str) -> anyhow::Result<String> {
        let accounts = ResourceType::new("", "v1", "serviceaccounts", "ServiceAccount", true);
        let key = Key::new("kube-system", account);
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let request = Request::object(Verb::Create, &accounts, &key, Some("token")).body(body.to_string());
        let reply: Value = serde_json::from_slice(&self.0.request(request).await?.body)?;
        Ok(reply["status"]["token"].as_str().context("no token")?.to_owned())
    }

    async fn get<T: Resource>(&self, key: &Key) -> anyhow::Result<Value> {
        let reply = self.0.request(Request::object(Verb::Get, &T::TYPE, key, None)).await?;
        Ok(serde_json::from_slice(&reply.body)?)
    }

    async fn patch(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        let body = patch.to_string();
        let request =
            Request::patch(&Service::TYPE, &Key::new("default", name), None, &Patch::Merge(patch)).body(body);
        self.0.request(request).await.context("patch")?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.0
            .request(Request::object(Verb::Delete, &Service::TYPE, &Key::new("default", name), None))
            .await?;
        Ok(())
    }

    async fn wait<T: Resource>(&self, key: &Key, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            let object = self.get::<T>(key).await?;
            if is_so(&object) {
                return Ok(object);
            }
            ensure!(began.elapsed() < TIMEOUT, "waited in vain: {object}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The addresses in a Service's status, as soon as there are some.
    async fn addresses(&self, service: &str) -> anyhow::Result<Vec<String>> {
        let ingress = |service: &Value| service["status"]["loadBalancer"]["ingress"].as_array().cloned();
        let found = self.wait::<Service>(&Key::new("default", service), |s| ingress(s).is_some()).await?;
        let ips = ingress(&found).unwrap_or_default();
        Ok(ips.iter().filter_map(|entry| entry["ip"].as_str().map(str::to_owned)).collect())
    }
}

/// A Node as its kubelet creates it.
fn unready(name: &str, range: u8) -> Value {
    let range = format!("10.244.{range}.0/24");
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"podCIDR": range, "podCIDRs": [range], "taints": [taint]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A Service with a node port of its own, and `further` fields.
fn service(name: &str, further: Value) -> Value {
    let at = NAMES.iter().position(|known| *known == name).unwrap_or_default();
    let mut ports = vec![json!({"name": "http", "protocol": "TCP", "port": 80, "nodePort": NODE_PORTS[at]})];
    if name == "web" {
        ports.push(json!({"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30053}));
    }
    let mut spec = json!({"type": "LoadBalancer", "ports": ports});
    for (field, value) in further.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}
