//! The options of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ipnet::IpNet;
use jiff::Timestamp;
use smol_str::SmolStr;
use tokio::io::{AsyncWriteExt as _, DuplexStream};

use crate::pki::Pair;
use crate::registry::User;
use crate::store::{Limits, Snapshot};

/// The clock. Under virtual time it follows tokio's clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    AlwaysAllow,
    /// Roles and bindings decide; `system:masters` may do everything.
    Rbac,
    /// Besides, kubelets may do what the pods on their node need.
    NodeAndRbac,
}

/// A bearer token and its user.
#[derive(Debug, Clone)]
pub struct StaticToken {
    pub token: String,
    pub user: User,
}

impl StaticToken {
    /// A token for a user with groups; `system:authenticated` is added at login.
    pub fn new(token: &str, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User { name: user.to_owned(), uid: format!("{user}-uid"), groups, ..User::default() };
        Self { token: token.to_owned(), user }
    }
}

/// A page beside the API: from the query to JSON, or to an error about the query.
pub type Page = Arc<dyn Fn(&str) -> Result<serde_json::Value, String> + Send + Sync>;

/// A container of a pod; the only one, if none is named.
#[derive(Debug, Clone, Copy)]
pub struct InPod<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    /// The container in the request.
    pub container: Option<&'a str>,
}

/// What a process reads and writes. Its outputs end when it drops them.
pub struct Streams {
    /// What the client sends; it ends at once if the client sends nothing.
    pub stdin: DuplexStream,
    pub stdout: DuplexStream,
    pub stderr: DuplexStream,
    /// Whether the client has a terminal, which shows nothing by itself that is typed.
    pub tty: bool,
}

/// A command that is ready to run; it returns its exit code. It is dropped if the client goes.
pub type Process = Box<dyn FnOnce(Streams) -> BoxFuture<'static, i32> + Send>;

/// The output and exit code of a command that has no input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Ran {
    /// A process that writes this, and ends.
    pub fn process(self) -> Process {
        Box::new(move |mut streams| {
            Box::pin(async move {
                let Self { stdout, stderr, code } = self;
                // A client that has gone reads nothing.
                let _ = streams.stdout.write_all(stdout.as_bytes()).await;
                let _ = streams.stderr.write_all(stderr.as_bytes()).await;
                code
            })
        })
    }
}

/// The log of a container.
pub struct Log {
    /// Its lines, with the times at which they were written.
    pub lines: Vec<(Timestamp, String)>,
    /// Resolves when the log is complete.
    pub end: BoxFuture<'static, ()>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsage {
    pub namespace: SmolStr,
    pub name: SmolStr,
    pub labels: Vec<(SmolStr, SmolStr)>,
    pub node: SmolStr,
    /// The usage of each container.
    pub containers: Vec<(SmolStr, Amounts)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu_milli: u64,
    pub memory_bytes: u64,
}

/// Serves the requests that a real server forwards to kubelets.
pub trait Kubelet: Send + Sync {
    /// The log of a container (of the only one, if none is named); with `previous`, of its run before the last restart. `Err` says
    /// why there is none.
    fn logs(&self, pod: &InPod<'_>, previous: bool) -> Result<Log, String>;

    /// Runs a command in a container, or attaches to it if there is none; `Err` says why that is not possible.
    fn exec(&self, pod: &InPod<'_>, _command: &[&str]) -> Result<Process, String> {
        Err(format!("commands cannot be run in pod {:?}", pod.pod))
    }

    /// Whether connections can be forwarded to a pod now; `Err` says why not.
    fn can_forward(&self, pod: &InPod<'_>) -> Result<(), String> {
        Err(format!("connections cannot be forwarded to pod {:?}", pod.pod))
    }

    /// Connects to a port of a pod.
    fn connect(&self, pod: &InPod<'_>, _port: u16) -> Result<DuplexStream, String> {
        self.can_forward(pod)?;
        Err(format!("nothing listens in pod {:?}", pod.pod))
    }

    /// Connects to a port of a node; to that of its kubelet if there is none.
    fn connect_node(&self, node: &serde_json::Value, _port: Option<u16>) -> Result<DuplexStream, String> {
        Err(format!("node {} does not accept connections", node["metadata"]["name"]))
    }

    /// The current usage of pods. If this is `Some` at the start, `metrics.k8s.io` is served.
    fn usage(&self) -> Option<Vec<PodUsage>> {
        None
    }

    /// Why a log, a command or a connection is refused.
    fn refusal(&self, what: &str) -> String {
        format!("{what} is not available: pods do not accept connections")
    }
}

/// How aggregated API servers recognise this server, whom they let say who the user of a request is.
#[derive(Clone)]
pub struct FrontProxy {
    /// The certificate that this server presents.
    pub client: Pair,
    /// PEM of the authority that has signed it.
    pub authority: String,
    /// Its common name.
    pub name: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Uids {
    #[default]
    Random,
    /// In descending order. Where the uid decides between objects of the same age, as when a ReplicaSet has too many pods, the
    /// youngest is then deleted, as it is when ages differ.
    Falling,
}

/// The options of a server.
#[derive(Clone)]
pub struct Options {
    pub clock: Clock,
    /// Time is virtual, so it must stand still while a webhook answers: otherwise the call would time out at once.
    pub virtual_time: bool,
    /// Seed of names, uids and timeouts.
    pub seed: u64,
    pub uids: Uids,
    pub history: Limits,
    /// Keep objects in this directory; in memory if absent.
    pub data_dir: Option<PathBuf>,
    /// Start with these objects, instead of what is in `data_dir`.
    pub snapshot: Option<Arc<Snapshot>>,
    pub authorization: Authorization,
    /// Whether requests without credentials are `system:anonymous` rather than refused.
    pub anonymous: bool,
    pub tokens: Vec<StaticToken>,
    /// PEM of the key that signs service account tokens (RSA or P-256); generated if absent.
    pub service_account_key: Option<String>,
    /// `iss` of service account tokens, and the default audience.
    pub issuer: String,
    /// Address ranges of services, the primary family first.
    pub service_cidrs: Vec<IpNet>,
    /// The range of node ports.
    pub node_ports: std::ops::RangeInclusive<u16>,
    /// Admission plugins that are off, by their names (`ServiceAccount`, …).
    pub disabled_admission: BTreeSet<String>,
    /// How often a watch with `allowWatchBookmarks` gets a bookmark.
    pub bookmark_every: Duration,
    /// Entries that the audit log in memory keeps.
    pub audit_entries: usize,
    /// Also write the audit log to this file.
    pub audit_file: Option<PathBuf>,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// How long pods stay on a node that is not ready or not reachable, unless they have tolerations for it.
    pub toleration: Duration,
    /// Whether `managedFields` are kept.
    pub managed_fields: bool,
    /// Enabled feature gates that are off by default: `HPAScaleToZero`, `MaxUnavailableStatefulSet`,
    /// `TaintTolerationComparisonOperators`, `WorkloadWithJob`, and those of kinds.
    pub feature_gates: BTreeSet<String>,
    /// Versions of the API, as in `resource.k8s.io/v1beta2`, that are served in addition to upstream's default. Their
    /// kinds also need their gates.
    pub runtime_config: BTreeSet<String>,
    /// Serves logs, `exec` and `attach`; without it, they are not available.
    pub kubelet: Option<Arc<dyn Kubelet>>,
    /// The address that is advertised to clients, `127.0.0.1:6443`.
    pub advertise: String,
    /// Where the server listens, for the endpoints of the `kubernetes` service; they are not written without it.
    pub endpoint: Option<SocketAddr>,
    /// PEM of the authorities whose clients are trusted, for other servers that delegate authentication to this one.
    pub client_ca: Option<String>,
    /// Without it, aggregated API servers get the user of a request, but no certificate.
    pub front_proxy: Option<FrontProxy>,
    /// Further pages by path, such as `/debug/decisions`. RBAC applies to them as to other paths.
    pub pages: BTreeMap<String, Page>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(Timestamp::now),
            virtual_time: false,
            seed: 0,
            uids: Uids::default(),
            history: Limits::default(),
            data_dir: None,
            snapshot: None,
            authorization: Authorization::NodeAndRbac,
            anonymous: true,
            tokens: Vec::new(),
            service_account_key: None,
            issuer: "https://kubernetes.default.svc".to_owned(),
            service_cidrs: vec![IpNet::V4(SERVICE_RANGE)],
            node_ports: 30_000..=32_767,
            disabled_admission: BTreeSet::new(),
            bookmark_every: Duration::from_secs(60),
            audit_entries: 100_000,
            audit_file: None,
            event_ttl: Duration::from_secs(3600),
            toleration: Duration::from_secs(300),
            managed_fields: true,
            feature_gates: BTreeSet::new(),
            runtime_config: BTreeSet::new(),
            kubelet: None,
            advertise: "127.0.0.1:6443".to_owned(),
            endpoint: None,
            client_ca: None,
            front_proxy: None,
            pages: BTreeMap::new(),
        }
    }
}

/// The default range of services.
const SERVICE_RANGE: ipnet::Ipv4Net = ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(10, 96, 0, 0), 16);

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("data_dir", &self.data_dir)
            .finish_non_exhaustive()
    }
}
