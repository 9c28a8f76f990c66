//! The options of a cluster for tests.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_playground::cluster::{Options, Port};
use flyball_playground::nodes;

use crate::{Cluster, Error};

/// How long [`Cluster::until`] waits for the next change by an operator.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of a [`Cluster`]: `Cluster::builder().nodes(5).serve().start().await?`.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    pub(crate) options: Options,
    pub(crate) start: Option<Timestamp>,
    pub(crate) patience: Duration,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { options: Options::default(), start: None, patience: PATIENCE }
    }

    /// The number of simulated nodes, `node-1` …; 3 by default.
    pub fn nodes(mut self, count: u16) -> Self {
        self.options.nodes = nodes::Options { count, ..self.options.nodes };
        self
    }

    /// Which controllers run, as in `--controllers` of kube-controller-manager: `*`, `-name`, `name`; all by default.
    pub fn controllers<S: Into<String>>(mut self, list: impl IntoIterator<Item = S>) -> Self {
        self.options.controllers = list.into_iter().map(Into::into).collect();
        self
    }

    /// Further flags of kube-controller-manager, such as `--node-monitor-grace-period=10s`.
    pub fn manager_flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.options.manager_flags = flags.into_iter().map(Into::into).collect();
        self
    }

    /// What the cluster's clock shows at the start. By default the real time, rounded down to a full hour.
    pub fn starting_at(mut self, start: Timestamp) -> Self {
        self.start = Some(start);
        self
    }

    /// Also serve HTTPS on a free port of the loopback address, for clients outside of this process.
    pub fn serve(self) -> Self {
        self.serve_on(0)
    }

    /// The same on a certain port.
    pub fn serve_on(mut self, port: u16) -> Self {
        self.options.port = Some(Port::Exactly(port));
        self
    }

    /// How long, in real time, [`Cluster::until`] waits for the next change by somebody outside of the cluster; ten seconds by
    /// default. Only a failing test waits that long.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the cluster, on a thread of its own. When this returns, the nodes are ready and pods can be created.
    pub async fn start(self) -> Result<Cluster, Error> {
        Cluster::start_with(self).await
    }
}
