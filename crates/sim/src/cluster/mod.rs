//! A real control plane for a test: etcd and kube-apiserver on loopback, ready in seconds, gone with the test.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use flyball_sim::cluster::Cluster;
//! let Some(cluster) = Cluster::for_test("pods_are_listed").await? else { return Ok(()) };
//! let pods = cluster.api().await?.list_named("pods", None, None).await?;
//! # Ok(()) }
//! ```

mod assets;
mod config;
mod etcd;
mod pki;
mod ports;
mod process;
mod usage;
mod watchdog;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

pub use assets::{Assets, BINARIES, CLOUD_CONTROLLER_MANAGER, KUBERNETES_VERSION, Skip};
pub use config::{Kubelets, Manager, Options};
pub(crate) use pki::Pki;
pub use process::Process;
pub use usage::Usage;

use config::Ports;
use watchdog::Watchdog;

use crate::api::Api;
use crate::audit::AuditLog;
use crate::client::{ApiClient, Tls};

/// Attempts to start if another process takes one of the ports.
const ATTEMPTS: usize = 5;
/// How long the API server may take to become ready; a busy machine needs most of it.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// This machine has no control plane binaries: the test is skipped.
    #[error(transparent)]
    Skip(#[from] Skip),
    /// They exist, but the cluster did not start: the test fails.
    #[error("the cluster did not start")]
    Broken(#[source] anyhow::Error),
}

/// A control plane for one test.
pub struct Cluster {
    // Fields are dropped in this order: first the API server, then etcd, then the watchdog.
    apiserver: Option<Process>,
    etcd: Process,
    watchdog: Arc<Watchdog>,
    pki: Pki,
    ports: Ports,
    assets: Assets,
    options: Options,
    client: Arc<dyn ApiClient>,
    dir: PathBuf,
    keep: bool,
}

impl Cluster {
    /// A cluster for the test called `name`, or `None` after printing that the test is skipped.
    pub async fn for_test(name: &str) -> anyhow::Result<Option<Self>> {
        match Self::real(Options::default()).await {
            Ok(cluster) => Ok(Some(cluster)),
            Err(Unavailable::Skip(skip)) => {
                skip.announce(name);
                Ok(None)
            }
            Err(Unavailable::Broken(e)) => Err(e),
        }
    }

    /// Runs a test on its own cluster, whose logs are kept if the test fails. Without assets it prints that the test called
    /// `name` is skipped.
    pub async fn play(
        name: &str,
        test: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(mut cluster) = Self::for_test(name).await? else { return Ok(()) };
        let result = test(&mut cluster).await;
        result.inspect_err(|_| cluster.keep_logs())
    }

    /// Starts etcd and kube-apiserver and waits until the cluster's bootstrap objects exist.
    pub async fn real(options: Options) -> Result<Self, Unavailable> {
        let assets = Assets::find()?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::start(assets.clone(), options.clone()).await {
                Ok(cluster) => return Ok(cluster),
                Err(StartError::PortTaken(e)) => last = Some(e),
                Err(StartError::Other(e)) => return Err(Unavailable::Broken(e)),
            }
        }
        Err(Unavailable::Broken(last.unwrap_or_else(|| anyhow::anyhow!("no free ports"))))
    }

    async fn start(assets: Assets, options: Options) -> Result<Self, StartError> {
        let dir =
            tempfile::Builder::new().prefix("flyball-cluster-").tempdir().context("make a folder")?.keep();
        let pki = Pki::create(dir.join("pki"), &options.addresses())?;
        config::write_files(&dir, &options)?;
        let watchdog = Arc::new(Watchdog::start(&dir.join("etcd")).context("start the watchdog")?);
        let [api, etcd, peer] = ports::free().context("find free ports")?;
        let ports = Ports { api, etcd, peer };
        let server = format!("https://127.0.0.1:{api}");
        config::write_kubeconfigs(&dir, &pki, ports, &options)?;
        let client: Arc<dyn ApiClient> = Arc::new(Tls::new(&server, &pki.file("ca.crt"), "admin-token")?);
        let etcd = start_etcd(&assets, &dir, ports, &watchdog)?;
        let mut cluster =
            Self { apiserver: None, etcd, watchdog, pki, ports, assets, options, client, dir, keep: false };
        let ready = match cluster.start_apiserver_process() {
            Ok(()) => cluster.ready().await,
            Err(e) => Err(e),
        };
        match ready {
            Ok(()) => Ok(cluster),
            Err(e) if cluster.lost_a_port() => Err(StartError::PortTaken(e)),
            Err(e) => {
                cluster.keep = true;
                Err(StartError::Other(e.context(format!("logs are in {}", cluster.dir.display()))))
            }
        }
    }

    /// Stops the API server; clients see refused connections until it is started again.
    pub async fn stop_apiserver(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.apiserver.take() {
            process.stop(Duration::from_secs(20)).await.context("stop kube-apiserver")?;
        }
        Ok(())
    }

    /// Kills the API server, as a machine failure would; requests in flight get no response.
    pub fn kill_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Kills etcd. Until it is started again the API server cannot answer.
    pub fn kill_etcd(&mut self) {
        self.etcd.kill();
    }

    /// Starts etcd again, on the same ports and the current data folder.
    pub fn start_etcd(&mut self) -> anyhow::Result<()> {
        self.etcd.kill();
        self.etcd = start_etcd(&self.assets, &self.dir, self.ports, &self.watchdog)?;
        Ok(())
    }

    /// Waits until the API server serves again, after it or its store was away.
    pub async fn until_ready(&mut self) -> anyhow::Result<()> {
        self.ready().await
    }

    /// Starts the API server again, on the same port and the same data.
    pub async fn start_apiserver(&mut self) -> anyhow::Result<()> {
        self.start_apiserver_process()?;
        self.ready().await
    }

    /// Copies the data of etcd. The control plane is down meanwhile.
    pub async fn back_up(&mut self) -> anyhow::Result<()> {
        self.stop_store().await?;
        copy_folder(&self.dir.join("etcd"), &self.dir.join("etcd-backup")).context("copy the store")?;
        self.start_store().await
    }

    /// Restores the copy, as from a snapshot of etcd: versions continue from there.
    pub async fn restore(&mut self) -> anyhow::Result<()> {
        self.stop_store().await?;
        std::fs::remove_dir_all(self.dir.join("etcd")).context("remove the store")?;
        copy_folder(&self.dir.join("etcd-backup"), &self.dir.join("etcd")).context("restore the store")?;
        self.start_store().await
    }

    async fn stop_store(&mut self) -> anyhow::Result<()> {
        self.stop_apiserver().await?;
        self.etcd.stop(Duration::from_secs(20)).await.context("stop etcd")?;
        Ok(())
    }

    async fn start_store(&mut self) -> anyhow::Result<()> {
        self.start_etcd()?;
        self.start_apiserver().await
    }

    fn start_apiserver_process(&mut self) -> anyhow::Result<()> {
        let args = config::apiserver_args(&self.dir, &self.pki, self.ports, &self.options);
        let binary = self.assets.binary("kube-apiserver");
        let log = self.dir.join("kube-apiserver.log");
        let process = Process::spawn("kube-apiserver", &binary, &args, log, &self.watchdog);
        self.apiserver = Some(process.context("start kube-apiserver")?);
        Ok(())
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        /// Created by the API server shortly after it reports ready; before that, roles may be missing.
        const BOOTSTRAP: [&str; 7] = [
            "/api/v1/namespaces/default",
            "/api/v1/namespaces/kube-system",
            "/api/v1/namespaces/kube-public",
            "/api/v1/namespaces/kube-node-lease",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit",
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
            "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
        ];
        let deadline = tokio::time::Instant::now() + READY_WITHIN;
        let mut wanted = std::iter::once("/readyz").chain(BOOTSTRAP).peekable();
        while let Some(path) = wanted.peek() {
            if matches!(crate::client::get(&*self.client, path).await, Ok(reply) if reply.status().is_success())
            {
                wanted.next();
                continue;
            }
            for process in self.apiserver.iter_mut().chain([&mut self.etcd]) {
                if let Some(status) = process.ended() {
                    bail!("{} ended with {status}", process.name());
                }
            }
            if tokio::time::Instant::now() > deadline {
                bail!("kube-apiserver did not serve {path} within {} s", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Whether a process of this cluster logged that its port was in use.
    fn lost_a_port(&self) -> bool {
        ["etcd.log", "kube-apiserver.log"].iter().any(|log| {
            let text = std::fs::read(self.dir.join(log)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains("address already in use")
        })
    }

    /// Starts a controller manager; its log is `{name}.log` in the cluster's folder.
    pub fn start_manager(&self, name: &str, manager: &Manager<'_>) -> anyhow::Result<Process> {
        let [port] = ports::free().context("find a free port")?;
        let args = config::manager_args(&self.dir, &self.pki, port, manager);
        let log = self.dir.join(format!("{name}.log"));
        Process::spawn(name, manager.binary, &args, log, &self.watchdog)
            .with_context(|| format!("start {}", manager.binary.display()))
    }

    /// Starts a cloud-controller-manager in the same way; `controllers` and `flags` must name the cloud.
    pub fn start_cloud_manager(&self, manager: &Manager<'_>) -> anyhow::Result<Process> {
        let [port] = ports::free().context("find a free port")?;
        let args = config::cloud_manager_args(&self.dir, port, manager);
        let log = self.dir.join("cloud-controller-manager.log");
        Process::spawn("cloud-controller-manager", manager.binary, &args, log, &self.watchdog)
            .with_context(|| format!("start {}", manager.binary.display()))
    }

    /// Starts another program beside the control plane; its log is `{name}.log` in the cluster's folder.
    pub fn start_program(&self, name: &str, binary: &Path, args: &[String]) -> anyhow::Result<Process> {
        Process::spawn(name, binary, args, self.dir.join(format!("{name}.log")), &self.watchdog)
            .with_context(|| format!("start {}", binary.display()))
    }

    /// A file of the cluster's keys and certificates: `ca.crt`.
    pub fn certificate(&self, file: &str) -> PathBuf {
        self.pki.file(file)
    }

    /// The administrator's API with discovery.
    pub async fn api(&self) -> anyhow::Result<Arc<Api>> {
        Ok(Arc::new(Api::discover(Arc::clone(&self.client)).await?))
    }

    /// The administrator's client, without discovery.
    pub fn client(&self) -> &Arc<dyn ApiClient> {
        &self.client
    }

    /// The address of the API server.
    pub fn apiserver_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.api))
    }

    /// Writes a kubeconfig with which the controller manager reaches the API server at another address, such as a proxy's. To
    /// be given as `--kubeconfig` with the further flags.
    pub fn kubeconfig_by_way_of(&self, address: SocketAddr) -> anyhow::Result<PathBuf> {
        self.kubeconfig_for(&address.to_string())
    }

    /// The same with a host and a port, such as `localhost:6443`.
    pub fn kubeconfig_for(&self, server: &str) -> anyhow::Result<PathBuf> {
        let there = std::fs::read_to_string(self.dir.join("kcm.kubeconfig"))?;
        let file = self.dir.join(format!("kcm-{}.kubeconfig", server.replace(['[', ']', ':'], "-")));
        std::fs::write(&file, there.replace(&self.apiserver_address().to_string(), server))?;
        Ok(file)
    }

    /// The audit log from its beginning.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::tail(self.dir.join("audit.log"))
    }

    /// The folder with logs, keys and kubeconfigs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The binaries this cluster runs on.
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// CPU and memory of the API server.
    pub fn apiserver_usage(&self) -> Option<Usage> {
        self.apiserver.as_ref().and_then(|process| Usage::of(process.id()))
    }

    /// Keeps the logs when the cluster is dropped, as after a panic.
    pub fn keep_logs(&mut self) {
        self.keep = true;
    }

    /// Deletes an object directly in etcd: `pods/default/x`. Only useful while the server is stopped.
    pub async fn delete_from_store(&self, key: &str) -> anyhow::Result<()> {
        etcd::delete(self.ports.etcd, &format!("/registry/{key}")).await
    }

    /// Compacts etcd, so that an older watch gets 410.
    pub async fn compact(&self) -> anyhow::Result<()> {
        etcd::compact(self.ports.etcd).await
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut process) = self.apiserver.take() {
            process.kill();
        }
        self.etcd.kill();
        ports::release(&[self.ports.api, self.ports.etcd, self.ports.peer]);
        if self.keep || std::thread::panicking() {
            let _ = std::fs::remove_dir_all(self.dir.join("etcd"));
            let line = format!("the cluster's logs are in {}\n", self.dir.display());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

fn start_etcd(
    assets: &Assets,
    dir: &Path,
    ports: Ports,
    watchdog: &Arc<Watchdog>,
) -> anyhow::Result<Process> {
    let args = config::etcd_args(dir, ports);
    Process::spawn("etcd", &assets.binary("etcd"), &args, dir.join("etcd.log"), watchdog)
        .context("start etcd")
}

enum StartError {
    PortTaken(anyhow::Error),
    Other(anyhow::Error),
}

impl From<anyhow::Error> for StartError {
    fn from(e: anyhow::Error) -> Self {
        Self::Other(e)
    }
}
