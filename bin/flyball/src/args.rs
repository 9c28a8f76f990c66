//! The command line of `flyball`.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::assets::{Assets, Program};

/// A Kubernetes cluster in one process, and commands to inspect it.
#[derive(Debug, Parser)]
#[command(name = "flyball", version, about, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster: API server, controllers, scheduler, simulated nodes. Ctrl-C ends it.
    Up(Up),
    /// Explain the state of an object: what blocks it now, what belongs to it, and what happened.
    #[command(after_help = WHY_HELP)]
    Why(Why),
    /// Explain what did not happen to an object.
    #[command(after_help = WHY_NOT_HELP)]
    WhyNot(WhyNot),
    /// List the simulated nodes, or switch one off and on.
    Node(Node),
    /// Show how a cluster recovers from failures, step by step; fails if a step does not have the expected effect.
    Demo(Demo),
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
    /// Minimum number of simulated nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: u16,
    /// The port to serve on; 0 for any free port [default: 6443, or any free port if that is in use].
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The address to serve on; 0.0.0.0 or :: for all of this machine. Whoever can reach it still needs credentials.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: std::net::IpAddr,
    /// Further names and addresses in the serving certificate, by which other machines reach this one.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) certificate_names: Vec<String>,
    /// Keep the cluster's data in this directory and continue from what it holds. Without it the data is lost at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Which controllers run, in the syntax of kube-controller-manager's --controllers: `*`, `-name`, `name`.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,
    /// Seconds that pods stay on an unreachable node, unless they have tolerations for it. The default of Kubernetes is 300.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) pods_move_after: u32,
    /// Where the kubeconfig is written [default: ~/.flyball/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Be driven by a program: requests and answers are lines of JSON, and the cluster's clock moves only as they say. With it,
    /// any free port and a temporary kubeconfig are the defaults, and nothing is printed but answers.
    #[arg(long, value_enum, value_name = "CHANNEL", conflicts_with_all = ["bind_address", "certificate_names", "data_dir", "pods_move_after", "log_format"])]
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
    /// The kubeconfig that `flyball up` wrote [default: ~/.flyball/kubeconfig].
    #[arg(long, value_name = "FILE", global = true)]
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
    /// The kubeconfig [default: $KUBECONFIG, then ~/.flyball/kubeconfig, then ~/.kube/config].
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
        name: String,
    },
    /// Switch a node on again.
    Start {
        /// The name of the node.
        name: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    /// The pause between steps, in seconds.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub(crate) pause: f64,
}
