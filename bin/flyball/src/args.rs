//! The command line of `flyball`.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

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
    /// Explain the state of an object: the controllers' decisions about it, and what they are waiting for.
    Why(Why),
    /// List the simulated nodes, or switch one off and on.
    Node(Node),
    /// Show how a cluster recovers from failures, step by step; fails if a step does not have the expected effect.
    Demo(Demo),
}

#[derive(Debug, Group)]
pub(crate) struct Up {
    /// Minimum number of simulated nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: u16,
    /// The port to serve on; 0 for any free port [default: 6443, or any free port if that is in use].
    #[arg(long)]
    pub(crate) port: Option<u16>,
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

#[derive(Debug, Group)]
pub(crate) struct Why {
    /// The object: `pod/web-1`, `deploy/web`, or `deploy web`.
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) object: Vec<String>,
    /// The namespace of the object.
    #[arg(long, short, default_value = "default")]
    pub(crate) namespace: String,
    /// Maximum number of decisions to show; older ones are left out.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) target: Target,
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
