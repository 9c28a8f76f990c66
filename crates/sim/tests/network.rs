//! Bad networks between the controller manager and a real API server: connections that are slow, closed or blackholed, in
//! general and for the node lifecycle controller; and a log that is not read. Skipped without assets.

#[path = "strangers/probe.rs"]
mod probe;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Manager, Skip};
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use flyball_sim::proxy::{Direction, Flow, Proxy};
use probe::{Port, port_flags, try_tokens};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

const CONTROLLER: &str = "replicaset-controller";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const PODS_EACH: u64 = 5;
/// What a dead connection may cost: the timeout of one write, and something for a busy machine. An outcome that is read before the
/// server may have ended its work on the write, a minute, would be too early.
const PATIENCE: Duration = Duration::from_secs(64 + 8);

/// Creates another ReplicaSet, and returns the time until its pods exist.
async fn one_more(api: &Api, name: &str, sets: &mut u64) -> anyhow::Result<()> {
    let (pods, path) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    load::send_all(api, [Request::create(&path, load::workload("ReplicaSet", name, PODS_EACH))]).await?;
    *sets += 1;
    let wanted = *sets * PODS_EACH;
    let took = until(&format!("the pods of {name}"), PATIENCE, || async {
        let seen = count(api, &pods).await?;
        Ok((seen != wanted).then(|| format!("{seen} pods of {wanted}")))
    })
    .await?;
    println!("{name}: {:.1} s", took.as_secs_f64());
    Ok(())
}

#[tokio::test]
async fn a_bad_network_costs_neither_the_lease_nor_work() -> anyhow::Result<()> {
    Cluster::play("a_bad_network_costs_neither_the_lease_nor_work", suffer).await
}

async fn suffer(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let proxy = Proxy::start(cluster.apiserver_address()).await?;
    let kubeconfig = cluster.kubeconfig_by_way_of(proxy.address())?;
    let flags = [format!("--kubeconfig={}", kubeconfig.display()), "-v=2".to_owned()];
    let (program, controllers) = (ours::binary(Profile::Debug)?, [CONTROLLER.to_owned()]);
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    let mut sets = 0;
    one_more(&api, "on-a-good-day", &mut sets).await?;
    let holder = |lease: Value| lease["spec"]["holderIdentity"].to_string();
    let held_by = holder(api.get(LEASE).await?);

    for link in proxy.links() {
        link.set(Direction::ToServer, Flow::Delay(Duration::from_millis(100)));
        link.set(Direction::ToClient, Flow::Delay(Duration::from_millis(100)));
    }
    one_more(&api, "slow", &mut sets).await?;
    proxy.links().iter().for_each(|link| link.cut());
    one_more(&api, "cut", &mut sets).await?;
    proxy.links().iter().for_each(|link| link.reset());
    one_more(&api, "reset", &mut sets).await?;
    proxy.busiest().iter().for_each(|link| link.blackhole());
    one_more(&api, "busiest-blackholed", &mut sets).await?;
    let deaf = proxy.links();
    deaf.iter().for_each(|link| link.set(Direction::ToServer, Flow::Blackhole));
    one_more(&api, "server-hears-nothing", &mut sets).await?;
    let mute = proxy.links();
    mute.iter().for_each(|link| link.set(Direction::ToClient, Flow::Blackhole));
    one_more(&api, "client-hears-nothing", &mut sets).await?;
    let gone = proxy.links();
    gone.iter().for_each(|link| link.blackhole());
    one_more(&api, "all-blackholed", &mut sets).await?;

    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    anyhow::ensure!(holder(api.get(LEASE).await?) == held_by, "the lease has another holder");
    println!("{} connections in all", proxy.accepted());
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

/// A name with two addresses, one for each IP family. A hosts file of its own gives them to `localhost`, wherever it has only one.
#[tokio::test]
async fn a_second_address_is_used_and_probes_are_answered_while_the_first_is_blackholed() -> anyhow::Result<()>
{
    let name = "a_second_address_is_used_and_probes_are_answered_while_the_first_is_blackholed";
    let has_six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok();
    let has_namespaces =
        Command::new("unshare").args(NAMESPACES).arg("true").status().is_ok_and(|s| s.success());
    if !has_six || !has_namespaces {
        Skip { reason: "it needs IPv6 on loopback, and mount namespaces".to_owned() }.announce(name);
        return Ok(());
    }
    Cluster::play(name, lose_an_address).await
}

/// A mount namespace without the rights of root.
const NAMESPACES: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// A script that runs a program with both addresses for `localhost`.
fn with_two_addresses(folder: &Path, program: &Path) -> anyhow::Result<PathBuf> {
    let (hosts, script) = (folder.join("hosts"), folder.join("with-two-addresses"));
    std::fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost\n")?;
    let (hosts, program) = (hosts.display(), program.display());
    let text = format!(
        "#!/bin/sh\nexec unshare --user --map-root-user --mount \\\n  sh -c 'mount --bind {hosts} /etc/hosts && exec {program} \"$@\"' sh \"$@\"\n"
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    Ok(script)
}

async fn lose_an_address(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let server = cluster.apiserver_address();
    let four = Proxy::start(server).await?;
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, four.address().port()));
    let six = Proxy::start_at(six, server).await?;
    let kubeconfig = cluster.kubeconfig_for(&format!("localhost:{}", four.address().port()))?;
    let serving = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?;
    let mut flags = vec![format!("--kubeconfig={}", kubeconfig.display()), "-v=2".to_owned()];
    flags.extend(port_flags(cluster, serving));
    let program = with_two_addresses(cluster.dir(), &ours::binary(Profile::Debug)?)?;
    let controllers = [CONTROLLER.to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    let (mut sets, port) = (0, Port::of(cluster, serving)?);
    port.serves().await?;
    one_more(&api, "on-a-good-day", &mut sets).await?;
    let usual = probes(&port, tokio::time::sleep(Duration::from_secs(3))).await?.0;

    let (first, second) = if six.links().is_empty() { (&four, &six) } else { (&six, &four) };
    println!("{} connections at {}", first.links().len(), first.address());
    second.links().iter().for_each(|link| link.cut());
    first.blackhole();
    let (blackholed, made) = probes(&port, one_more(&api, "first-address-blackholed", &mut sets)).await?;
    made?;
    anyhow::ensure!(!second.links().is_empty(), "nothing goes through {}", second.address());
    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");

    // Connections that say nothing or stall, and invalid tokens. The API server is asked about each of those.
    let mut silent = vec![];
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(serving).await?);
    }
    let _stalled = stall(&port).await?;
    let (attacked, tokens) = probes(&port, try_tokens(&port, u64::MAX, Duration::from_secs(5))).await?;
    println!("{} tokens; usual {usual:?}, blackholed {blackholed:?}, attacked {attacked:?}", tokens?);
    // On a busy machine all of them are slow.
    let limit = Duration::from_millis(100).max(usual * 5);
    anyhow::ensure!(blackholed <= limit, "/healthz took {blackholed:?} with a blackholed address");
    anyhow::ensure!(attacked <= limit, "/healthz took {attacked:?} while strangers attacked");
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

const SILENT: usize = 300;
const STALLED: usize = 50;

/// Connections whose clients do not go on: in the headers of a request, or in its body.
async fn stall(port: &Port) -> anyhow::Result<Vec<impl Sized + use<>>> {
    let headers = "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ";
    let body = "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nslow";
    let mut stalled = vec![];
    for begin in [headers, body].into_iter().cycle().take(2 * STALLED) {
        let mut stream = port.connect().await?;
        stream.write_all(begin.as_bytes()).await?;
        stream.flush().await?;
        stalled.push(stream);
    }
    Ok(stalled)
}

/// Probes `/healthz` while something happens. Returns the median of the times, and what came of it. A probe that fails is an error.
async fn probes<T>(port: &Port, meanwhile: impl Future<Output = T>) -> anyhow::Result<(Duration, T)> {
    let mut times = vec![];
    let probing = async {
        loop {
            times.push(port.probe().await?);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let done = tokio::select! {
        done = meanwhile => done,
        failed = probing => return failed,
    };
    anyhow::ensure!(!times.is_empty(), "no probe was answered meanwhile");
    times.sort_unstable();
    Ok((times[times.len() / 2], done))
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() -> anyhow::Result<()> {
    Cluster::play("a_log_that_nobody_reads_stops_nothing", shout).await
}

async fn shout(cluster: &mut Cluster) -> anyhow::Result<()> {
    const SETS: u64 = 100;
    const EACH: u64 = 25;
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let program = ours::binary(Profile::Debug)?;
    // The log is a pipe. Its reader is here, and does not read.
    let log = cluster.dir().join("unheard.log");
    anyhow::ensure!(Command::new("mkfifo").arg(&log).status()?.success(), "mkfifo failed");
    let reader: File = OpenOptions::new().read(true).write(true).open(&log)?;
    let flags: Vec<String> =
        ["--kube-api-qps=200", "--kube-api-burst=300", "-v=9"].into_iter().map(str::to_owned).collect();
    let controllers = [CONTROLLER.to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("unheard", &manager)?;
    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let load =
        (0..SETS).map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), EACH)));
    load::send_all(&api, load).await?;
    until("all pods", Duration::from_secs(300), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen != SETS * EACH).then(|| format!("{seen} pods")))
    })
    .await?;

    // From now on the log is read: it continues, with a line about dropped lines, since there were far more than fit.
    let dropped = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(reader.take(64 << 20)).lines();
        lines.map_while(Result::ok).find(|line| line.contains("log lines were dropped"))
    });
    let dropped = tokio::time::timeout(Duration::from_secs(120), dropped).await??;
    println!("{}", dropped.as_deref().unwrap_or("no line about dropped lines"));
    anyhow::ensure!(dropped.is_some(), "dropped lines were not reported");
    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    // It is not read any more, again; the manager must end nevertheless.
    let status = process.stop(Duration::from_secs(60)).await?;
    anyhow::ensure!(status.success(), "it ended with {status}");
    Ok(())
}

const MONITOR: &str = "node-lifecycle-controller";
const NODES: &str = "/api/v1/nodes";
const NODE: &str = "/api/v1/nodes/node-1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// Shorter than the default, so that the manager sees nothing for more than twice that long.
const GRACE: Duration = Duration::from_secs(30);
const BLIND: Duration = Duration::from_secs(70);

#[tokio::test]
async fn a_healthy_node_stays_ready_while_only_we_cannot_see_it() -> anyhow::Result<()> {
    Cluster::play("a_healthy_node_stays_ready_while_only_we_cannot_see_it", be_blind).await
}

async fn be_blind(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    until("the namespace of the leases", Duration::from_secs(60), || async {
        let found = api.get("/api/v1/namespaces/kube-node-lease").await;
        Ok(found.err().map(|error| error.to_string()))
    })
    .await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-1"},
        "spec": {"holderIdentity": "node-1", "leaseDurationSeconds": 40}});
    load::send_all(&api, [Request::create(NODES, node), Request::create(LEASES, lease)]).await?;
    load::send_all(&api, [Request::merge(format!("{NODE}/status"), ready)]).await?;
    let kubelet = tokio::spawn(renew(api.clone()));

    let proxy = Proxy::start(cluster.apiserver_address()).await?;
    let kubeconfig = cluster.kubeconfig_by_way_of(proxy.address())?;
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--node-monitor-grace-period={}s", GRACE.as_secs()),
        "--node-monitor-period=2s".to_owned(),
        "-v=2".to_owned(),
    ];
    let (program, controllers) = (ours::binary(Profile::Debug)?, [MONITOR.to_owned()]);
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: false, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    // The API server taints every new node, and the controller removes the taint when the node is ready.
    until("the taint to go", Duration::from_secs(60), || async {
        let taints = api.get(NODE).await?["spec"]["taints"].clone();
        Ok(taints.as_array().is_some_and(|taints| !taints.is_empty()).then(|| taints.to_string()))
    })
    .await?;

    // Nothing reaches the manager, not even on new connections; its own requests arrive.
    let begin = std::time::Instant::now();
    while begin.elapsed() < BLIND {
        proxy.links().iter().for_each(|link| link.set(Direction::ToClient, Flow::Blackhole));
        let node = api.get(NODE).await?;
        anyhow::ensure!(is_ready(&node) == "True", "after {:?} of blindness: {node}", begin.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{} connections in all", proxy.accepted());
    proxy.links().iter().for_each(|link| link.cut());
    let seeing = std::time::Instant::now();
    while seeing.elapsed() < GRACE + Duration::from_secs(5) {
        let node = api.get(NODE).await?;
        anyhow::ensure!(is_ready(&node) == "True", "seeing again for {:?}: {node}", seeing.elapsed());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // The monitor still works: a node that stops its heartbeats is noticed.
    kubelet.abort();
    until("the silent node to be noticed", Duration::from_secs(120), || async {
        let node = api.get(NODE).await?;
        Ok((is_ready(&node) != "Unknown").then(|| is_ready(&node).to_owned()))
    })
    .await?;
    anyhow::ensure!(process.ended().is_none(), "the controller manager ended");
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

/// Renews a lease, as a kubelet does.
async fn renew(api: Arc<Api>) {
    loop {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let renewal = json!({"spec": {"renewTime": now}});
        // The next attempt comes soon.
        let _ = load::send_all(&api, [Request::merge(format!("{LEASES}/node-1"), renewal)]).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

fn is_ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}
