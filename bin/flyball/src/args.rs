//! The command line of `flyball`.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use flyball_replay::overrides::Timed;

use crate::assets::{Assets, Program};
use crate::named::Name;
use crate::named::claim::Wanted;

/// A Kubernetes cluster in one process, and commands to inspect it.
#[derive(Debug, Parser)]
#[command(name = "flyball", version, about, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster: API server, controllers, scheduler, simulated nodes. Ctrl-C or `flyball down` ends it.
    Up(Up),
    /// List the clusters of this machine.
    List(List),
    /// End a cluster in order, and wait for its end.
    Down(Down),
    /// Print a link to the live page of a cluster, for a browser. It works once.
    #[command(after_help = UI_HELP)]
    Ui(Page),
    /// Explain the state of an object: what blocks it now, what belongs to it, and what happened.
    #[command(after_help = WHY_HELP)]
    Why(Why),
    /// Explain what did not happen to an object.
    #[command(after_help = WHY_NOT_HELP)]
    WhyNot(WhyNot),
    /// List the simulated nodes, or switch one off and on.
    Node(Node),
    /// Show the clock of a cluster, move it forward, or make it go faster.
    #[command(after_help = CLOCK_HELP)]
    Clock(Clock),
    /// Show how a cluster recovers from failures, step by step; fails if a step does not have the expected effect.
    Demo(Demo),
    /// Print the decisions that a journal has kept, or export them as OTLP traces.
    #[command(after_help = JOURNAL_HELP)]
    Journal(Journal),
    /// Save a running cluster to a file, or bring one back to what is in a file.
    Snapshot(Snapshot),
    /// Record the objects of a cluster and their changes to a file, without secrets, for `flyball replay`.
    #[command(after_help = RECORD_HELP)]
    Record(Record),
    /// Play a recording against an embedded cluster, as fast as possible; with changes, print what would be decided differently.
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
    /// Print the completions of a shell: `source <(flyball completions bash)`.
    Completions(Completions),
    /// Write manual pages for all commands into a folder.
    Man(Man),
    /// Write a folder with `etcd`, `kube-apiserver` and `kubectl` for Go tests that use envtest (KUBEBUILDER_ASSETS).
    Assets(Assets),
    /// Run one of these programs; their scripts call this.
    #[command(hide = true)]
    Asset {
        #[command(subcommand)]
        program: Program,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Up {
    /// The name of the cluster; its context in kubeconfigs is flyball-NAME [default: flyball].
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// Run in the background: return when the cluster is ready. `flyball down` ends it.
    #[arg(long)]
    pub(crate) detach: bool,
    /// This is the process in the background.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) detached: bool,
    /// Minimum number of simulated nodes; with --cloud it is the file that has machines.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: u16,
    /// The port to serve on; 0 for any free port [default: 6443, or any free port if that is in use].
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The address to serve on; 0.0.0.0 or :: for all interfaces. Clients need credentials in any case.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: std::net::IpAddr,
    /// Further names and addresses in the serving certificate, by which other machines reach this one.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) certificate_names: Vec<String>,
    /// Keep the cluster's data in this directory and continue from what it holds. Without it the data is lost at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Start with what is in this file of `flyball snapshot save`, instead of an empty cluster.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// The file of a simulated cloud, which is followed: its machines are the nodes, and its controllers run. docs/cloud.md
    /// describes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud: Option<PathBuf>,
    /// Listen on the addresses of load balancers, which are then loopback addresses of this machine (Linux): simulated pods answer
    /// with a page that says who they are.
    #[arg(long)]
    pub(crate) expose: bool,
    /// Which controllers run, in the syntax of kube-controller-manager's --controllers: `*`, `-name`, `name`.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,
    /// Seconds that pods stay on an unreachable node, unless they have tolerations for it. The default of Kubernetes is 300.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) pods_move_after: u32,
    /// The kubeconfig that gets the cluster's context; what else is in it stays [default: that of kubectl, as in $KUBECONFIG or
    /// ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Leave all other kubeconfigs alone: only the cluster's own is written, which the first lines of output name.
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) no_kubeconfig: bool,
    /// Let a program control the cluster: requests and responses are lines of JSON, and the cluster's clock moves only on
    /// request. The defaults are then any free port and a temporary kubeconfig, and only responses are printed.
    #[arg(long, value_enum, value_name = "CHANNEL", conflicts_with_all = [
        "bind_address", "certificate_names", "data_dir", "pods_move_after", "log_format", "name", "detach", "no_kubeconfig",
        "cloud", "expose",
    ])]
    pub(crate) control: Option<Control>,
    /// What the cluster's clock shows at the start, such as 2026-03-01T12:00:00Z [default: the last full hour].
    #[arg(long, requires = "control", value_name = "TIME")]
    pub(crate) starting_at: Option<flyball_api::Timestamp>,
    /// Do not print decisions.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Format of the printed decisions.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// More flags for kube-controller-manager, after `--`: `-- --node-monitor-grace-period=50s`.
    #[arg(last = true, value_name = "CONTROLLER MANAGER FLAGS")]
    pub(crate) manager_flags: Vec<String>,
}

impl Up {
    /// The requested name. With --kubeconfig, several clusters may run without a name.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        match (&self.name, &self.kubeconfig) {
            (Some(name), _) => Wanted::Exactly(name),
            (None, Some(_)) => Wanted::Any,
            (None, None) => Wanted::Default,
        }
    }
}

const UI_HELP: &str = "\
With --manager-kubeconfig it serves the page of a manager in a real cluster on this machine, until Ctrl-C. The kubeconfig names the
manager's port (https://HOST:10257), and a user with the role flyball-observer.";

#[derive(Debug, Group)]
pub(crate) struct Page {
    /// The name of the cluster [default: flyball].
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// A kubeconfig for the port of a Flyball manager in a real cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub(crate) manager_kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct List {
    /// Format of the list.
    #[arg(long, short, value_enum, default_value_t = ListOutput::Text)]
    pub(crate) output: ListOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListOutput {
    Text,
    /// One JSON document.
    Json,
    /// One name per line.
    Name,
}

#[derive(Debug, Group)]
pub(crate) struct Down {
    /// The name of the cluster [default: flyball].
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub(crate) name: Option<Name>,
    /// All clusters of this machine.
    #[arg(long)]
    pub(crate) all: bool,
    /// Also remove the data that a cluster with --data-dir has kept.
    #[arg(long)]
    pub(crate) purge: bool,
}

/// How a program drives the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Control {
    /// Requests come on stdin, answers go to stdout. The cluster ends when stdin is closed.
    Stdio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text per decision.
    Text,
    /// One JSON object per line.
    Json,
}

/// How to reach the running cluster.
#[derive(Debug, Group)]
pub(crate) struct Target {
    /// The name of the cluster [default: flyball, or the only one that runs].
    #[arg(long, global = true)]
    pub(crate) name: Option<Name>,
    /// The kubeconfig of the cluster, instead of its name.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "name")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

const WHY_HELP: &str = "\
Examples:
  flyball why deploy web
  flyball why pod/web-1 -n shop -o json
  flyball why ns/old --kubeconfig ~/.kube/config --context production

Works on any cluster. Decisions of controllers are shown if a Flyball manager answers: `flyball up` does; for another one, name a
kubeconfig for its port with --manager-kubeconfig. Exit code 1: the object does not exist or could not be read.";

const WHY_NOT_HELP: &str = "\
Examples:
  flyball why-not scheduled pod/web-1
  flyball why-not evicted pod/db-0 -n shop
  flyball why-not scaled hpa web";

/// Which object, and how the answer is printed.
#[derive(Debug, Group)]
pub(crate) struct Why {
    /// The object, as for kubectl: `pod/web-1`, `deploy web`, `hpa/web`, `widgets.example.com/a`.
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) object: Vec<String>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Group)]
pub(crate) struct WhyNot {
    /// What did not happen: scheduled, ready, available, bound, deleted, evicted, scaled, updated or started.
    #[arg(value_name = "QUESTION")]
    pub(crate) question: flyball_explain::Question,
    /// The object, as for kubectl: `pod/web-1`, `deploy web`.
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) object: Vec<String>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Group)]
pub(crate) struct Answer {
    /// The namespace of the object.
    #[arg(long, short, default_value = "default")]
    pub(crate) namespace: String,
    /// Format of the answer.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Maximum number of lines of history; older ones are left out.
    #[arg(long, default_value_t = 30)]
    pub(crate) limit: usize,
    /// The context of the kubeconfig [default: its current context].
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// A kubeconfig whose server is the port of a Flyball manager (10257), for the decisions of its controllers.
    #[arg(long, value_name = "FILE")]
    pub(crate) manager_kubeconfig: Option<PathBuf>,
    /// The name of a cluster that `flyball up` has started.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) name: Option<Name>,
    /// The kubeconfig [default: $KUBECONFIG, then that of the default or only cluster that `flyball up` has started, then
    /// ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    /// One JSON document.
    Json,
}

#[derive(Debug, Group)]
pub(crate) struct Node {
    #[command(subcommand)]
    pub(crate) action: NodeAction,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// List the simulated nodes.
    List,
    /// Switch a node off: its heartbeats stop, it becomes NotReady and its pods are evicted.
    Stop {
        /// The name of the node.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Switch a node on again.
    Start {
        /// The name of the node.
        #[arg(value_name = "NODE")]
        node: String,
    },
}

const CLOCK_HELP: &str = "\
Examples:
  flyball clock                 what it shows
  flyball clock +1h             everything that is due within an hour happens now, in order
  flyball clock --speed 60x     an hour takes a minute, until `flyball clock --speed 1x`

Simulated nodes send their heartbeats on the way, so no node is lost. Ctrl-C stops the clock where it is.";

#[derive(Debug, Group)]
pub(crate) struct Clock {
    /// How far to move it: `+90s`, `+1h30m`, `+2d`.
    #[arg(value_name = "+TIME", value_parser = crate::clock::forward)]
    pub(crate) by: Option<std::time::Duration>,
    /// How many times faster than real time it goes from now on: 1x to 10000x.
    #[arg(long, value_name = "FACTOR", value_parser = crate::clock::speed)]
    pub(crate) speed: Option<u32>,
    #[command(flatten)]
    pub(crate) cluster: OfCluster,
}

const JOURNAL_HELP: &str = "\
Examples:
  flyball journal data/journal                          of `flyball up --data-dir data`
  flyball journal /var/lib/flyball --format otlp |      of a manager with --flyball-journal-dir
    curl --json @- http://127.0.0.1:4318/v1/traces";

#[derive(Debug, Group)]
pub(crate) struct Journal {
    /// The folder of the journal.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Lines for people, one JSON object per line, or one document with traces.
    #[arg(long, value_enum, default_value_t = JournalFormat::Text)]
    pub(crate) format: JournalFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalFormat {
    Text,
    Json,
    Otlp,
}

#[derive(Debug, Group)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    pub(crate) action: SnapshotAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotAction {
    /// Write all objects, certificates and keys of a running cluster to a file. It goes on without a pause.
    Save {
        /// The file; it must not exist. Only you can read it, as it holds Secrets and private keys.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        cluster: OfCluster,
    },
    /// Replace everything in a running cluster by what is in a file. Clients see the end of their watches and list again.
    Restore {
        /// A file of `flyball snapshot save`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        cluster: OfCluster,
    },
}

const RECORD_HELP: &str = "\
Examples:
  flyball record day.recording --for 24h --kubeconfig ~/.kube/config --context production
  flyball record play.recording                      a cluster of `flyball up`, until Ctrl-C

It only lists and watches. Secrets, Events and Leases are not even requested; data of ConfigMaps, and everything but the metadata of
custom resources, is left out; values of environment variables, commands, arguments and foreign annotations are replaced by digests
with a key that is thrown away. What the user may not list is left out, and the first lines say so.";

#[derive(Debug, Group)]
pub(crate) struct Record {
    /// The file; it must not exist.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How long to record: `90s`, `1h30m`, `2d` [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = crate::clock::forward)]
    pub(crate) time: Option<std::time::Duration>,
    /// The context of the kubeconfig [default: its current context].
    #[arg(long, requires = "kubeconfig")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

const REPLAY_HELP: &str = "\
Examples:
  flyball replay day.recording                                what controllers decide
  flyball replay day.recording --lose-zone b@12:00            what they would decide if zone b were lost at noon (UTC)
  flyball replay day.recording --flag=--node-monitor-grace-period=20s
  flyball replay day.recording --apply hpa.yaml@+1h           an hour after the start
  flyball replay day.recording --times 100                    each time the same

What users and operators did is played; controllers, scheduler and nodes are Flyball's own and react to it, in virtual time. With
changes it is played twice, and the difference is printed. Times are 12:00 or 12:00:30 (UTC), 2026-03-01T12:00:00Z, or +1h30m from the
start of the recording; without one it is the start. docs/replay.md says what a replay can show and what it cannot.";

#[derive(Debug, Group)]
pub(crate) struct Replay {
    /// A file of `flyball record`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What if kube-controller-manager had this flag? Can be given several times.
    #[arg(long = "flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) flags: Vec<String>,
    /// What if these manifests had been applied?
    #[arg(long, value_name = "FILE[@TIME]")]
    pub(crate) apply: Vec<Timed<PathBuf>>,
    /// What if this node had been lost?
    #[arg(long, value_name = "NODE[@TIME]")]
    pub(crate) lose_node: Vec<Timed<String>>,
    /// What if all nodes of this zone had been lost?
    #[arg(long, value_name = "ZONE[@TIME]")]
    pub(crate) lose_zone: Vec<Timed<String>>,
    /// Play it so many times; fails unless all decisions are the same each time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) times: u32,
    /// Print every decision, or every difference, as JSON: one object per line.
    #[arg(long, short, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) output: LogFormat,
}

/// Which cluster.
#[derive(Debug, Group)]
pub(crate) struct OfCluster {
    /// The name of the cluster [default: flyball, or the only one that runs].
    #[arg(long)]
    pub(crate) name: Option<Name>,
}

#[derive(Debug, Group)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Group)]
pub(crate) struct Man {
    /// The folder; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    /// The pause between steps, in seconds.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub(crate) pause: f64,
}
