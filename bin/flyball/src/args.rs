//! The command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

/// A whole Kubernetes cluster in one process, and what to ask it.
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
    /// Say why an object is as it is: the decisions for it and about it, and what is being waited for.
    Why(Why),
    /// List the simulated nodes, or switch one off and on.
    Node(Node),
    /// Watch a cluster heal itself: a walk-through that ends with an error if anything it shows does not happen.
    Demo(Demo),
}

#[derive(Debug, Group)]
pub(crate) struct Up {
    /// How many simulated nodes there are at least.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: u16,
    /// The port to serve on; 0 for any that is free. Without it: 6443, or another one if that is taken.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Keep the cluster in this directory and go on from what is there. Without it, it is gone at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Which controllers run, as kube-controller-manager's flag says it: `*`, `-name`, `name`.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,
    /// How long pods stay on a node that is lost, in seconds, unless they say so themselves. A real cluster waits 300.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) pods_move_after: u32,
    /// Where the kubeconfig is written [default: ~/.flyball/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Do not tell what is decided.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// How decisions are told.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Further flags of kube-controller-manager, after `--`: `-- --node-monitor-grace-period=50s`.
    #[arg(last = true, value_name = "CONTROLLER MANAGER FLAGS")]
    pub(crate) manager_flags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}

/// Where the running cluster is found.
#[derive(Debug, Group)]
pub(crate) struct Target {
    /// The kubeconfig that `flyball up` wrote [default: ~/.flyball/kubeconfig].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Why {
    /// The object: `pod/web-1`, `deploy/web`.
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: String,
    /// Its namespace.
    #[arg(long, short, default_value = "default")]
    pub(crate) namespace: String,
    /// How many decisions are shown at most, the latest.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// How decisions are told.
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
    /// Switch a node off: no heartbeats, until it counts as lost and its pods move.
    Stop {
        /// Its name.
        name: String,
    },
    /// Switch a node on again.
    Start {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    /// The pause between steps, in seconds.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub(crate) pause: f64,
}
