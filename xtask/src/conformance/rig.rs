//! A real cluster inside the rig's namespaces: a control plane, a scheduler, two nodes, and the controller manager under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_sim::api::Api;
use flyball_sim::cluster::{Cluster, Kubelets, Manager, Options, Process, Unavailable};
use serde_json::Value;
use tokio::time::Instant;

use super::artefacts::Artefacts;
use super::network::{self, Address, PODS, SERVER, SERVICES};
use super::node::{self, Node, Setup};
use super::{dns, namespaces, storage};

/// How long nodes may take to become ready on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// A controller manager that ends sooner is broken.
const STAYS_FOR: Duration = Duration::from_secs(60);
const NODES: [&str; 2] = ["node-1", "node-2"];

pub(crate) struct Rig {
    // Dropped in this order.
    manager: Process,
    manager_program: PathBuf,
    manager_since: Instant,
    scheduler: Process,
    dns: Process,
    nodes: Vec<Node>,
    pub(crate) cluster: Cluster,
}

impl Rig {
    /// Starts everything and waits until all nodes are ready.
    pub(crate) async fn start(
        artefacts: &Artefacts,
        manager: &Path,
        images: &Path,
        cgroup: &str,
    ) -> anyhow::Result<Self> {
        network::create_bridge().await.context("create the network")?;
        let names = NODES.map(str::to_owned).to_vec();
        let options = Options {
            kubelets: Some(Kubelets { server: SERVER, nodes: names }),
            apiserver_flags: vec![
                format!("--service-cluster-ip-range={SERVICES}"),
                "--enable-priority-and-fairness=true".to_owned(),
            ],
            ..Options::default()
        };
        let mut cluster = Cluster::real(options).await.map_err(|e| match e {
            Unavailable::Skip(skip) => anyhow::anyhow!("{skip}"),
            Unavailable::Broken(e) => e,
        })?;
        cluster.keep_logs();
        let hosts = write_hosts(cluster.dir())?;
        storage::write_kubeconfig(&cluster)?;
        let setup = Setup { cluster: &cluster, artefacts, images, cgroup, hosts: &hosts };
        let mut nodes = Vec::new();
        for (n, name) in (1..).zip(NODES) {
            namespaces::create_cgroup(&format!("{cgroup}/{name}"))?;
            let mut node = Node::create(&setup, name, Address { ip: node::ip(n) })?;
            node.made().await?;
            network::plug_in(&node).await.with_context(|| format!("connect {name}"))?;
            nodes.push(node);
        }
        for node in &mut nodes {
            node.start(&setup).await.with_context(|| format!("start {}", node.name))?;
        }
        let manager_program = manager.to_owned();
        let manager = start_manager(&cluster, &manager_program)?;
        let scheduler = start_scheduler(&cluster)?;
        let dns = dns::start(&cluster, artefacts)?;
        let manager_since = Instant::now();
        let mut rig = Self { manager, manager_program, manager_since, scheduler, dns, nodes, cluster };
        rig.until_ready().await?;
        storage::create_class(&*rig.cluster.api().await?).await?;
        Ok(rig)
    }

    /// Why a program of the rig ended, if one did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        if let Err(reason) = self.keep_manager() {
            return Some(format!("{reason:#}"));
        }
        for process in [&mut self.scheduler, &mut self.dns] {
            if let Some(status) = process.ended() {
                return Some(format!(
                    "{} ended with {status}; see {}",
                    process.name(),
                    process.log().display()
                ));
            }
        }
        self.nodes.iter_mut().find_map(Node::ended)
    }

    /// Starts the controller manager again if it has ended, as a kubelet would: on a busy machine it may lose its lease.
    fn keep_manager(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.manager.ended() else { return Ok(()) };
        if self.manager_since.elapsed() < STAYS_FOR {
            bail!("kube-controller-manager ended with {status}; see {}", self.manager.log().display());
        }
        println!("  kube-controller-manager ended with {status}; it is started again");
        self.manager = start_manager(&self.cluster, &self.manager_program)?;
        self.manager_since = Instant::now();
        Ok(())
    }

    /// Connects each node when the controller manager has given it a range of addresses, and waits until it is ready.
    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let api = self.cluster.api().await?;
        let deadline = Instant::now() + READY_WITHIN;
        let mut connected = vec![false; self.nodes.len()];
        loop {
            let objects = nodes_of(&api).await?;
            let mut ready = 0;
            for (index, node) in self.nodes.iter().enumerate() {
                let Some(object) = objects.iter().find(|object| object["metadata"]["name"] == *node.name)
                else {
                    continue;
                };
                if let (false, Some(pods)) = (connected[index], object["spec"]["podCIDR"].as_str()) {
                    let others: Vec<&Node> =
                        self.nodes.iter().filter(|other| other.name != node.name).collect();
                    network::route_pods(pods, node, &others).await?;
                    node.connect(pods)?;
                    connected[index] = true;
                }
                ready += usize::from(is_ready(object));
            }
            if ready == self.nodes.len() {
                return Ok(());
            }
            if let Some(reason) = self.ended() {
                bail!(reason);
            }
            if Instant::now() > deadline {
                bail!("{ready} of {} nodes are ready after {} s", self.nodes.len(), READY_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn start_manager(cluster: &Cluster, program: &Path) -> anyhow::Result<Process> {
    let flags = manager_flags();
    let manager = Manager { binary: program, controllers: &[], leader_elect: true, flags: &flags };
    cluster.start_manager("kube-controller-manager", &manager)
}

/// The flags of the controller manager beside those that every one of ours gets in tests.
pub(crate) fn manager_flags() -> Vec<String> {
    vec![
        "--allocate-node-cidrs=true".to_owned(),
        format!("--cluster-cidr={PODS}"),
        format!("--service-cluster-ip-range={SERVICES}"),
    ]
}

async fn nodes_of(api: &Arc<Api>) -> anyhow::Result<Vec<Value>> {
    Ok(api.list_named("nodes", None, None).await?)
}

fn is_ready(node: &Value) -> bool {
    let is = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    // A taint of the node lifecycle controller keeps pods away for a short time.
    node["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is))
        && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
}

fn start_scheduler(cluster: &Cluster) -> anyhow::Result<Process> {
    let kubeconfig = cluster.dir().join("kube-scheduler.kubeconfig").display().to_string();
    let args = [
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", cluster.dir().join("kube-scheduler-cert").display()),
    ];
    cluster.start_program("kube-scheduler", &cluster.assets().binary("kube-scheduler"), &args)
}

/// The API server and the nodes resolve each other's names.
fn write_hosts(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for (n, name) in (1..).zip(NODES) {
        hosts.push_str(&format!("{} {name}\n", node::ip(n)));
    }
    let path = folder.join("hosts");
    std::fs::write(&path, hosts).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
