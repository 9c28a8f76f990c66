//! A Kubernetes cluster inside the test process, for tests of operators: the API server, all controllers of
//! kube-controller-manager, a scheduler and simulated nodes, in a few milliseconds, without network, and with a clock of its own.
//!
//! ```
//! use std::time::Duration;
//!
//! use flyball_testing::Cluster;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), flyball_testing::Error> {
//! let cluster = Cluster::start().await?;
//! cluster
//!     .apply(
//!         "
//! apiVersion: batch/v1
//! kind: CronJob
//! metadata: {name: report}
//! spec:
//!   schedule: '30 * * * *'
//!   jobTemplate:
//!     spec:
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           containers: [{name: report, image: report}]
//! ",
//!     )
//!     .await?;
//! cluster.advance(Duration::from_secs(3600)).await?;
//! cluster.until("cronjob", "report", |job| job["status"]["lastSuccessfulTime"].is_string()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Clients.** [`Cluster::service`] is a tower service that a `kube::Client` sits on, without a socket:
//! `kube::Client::new(cluster.service(), "default")`. Programs that need an address get one with [`Builder::serve`], then
//! [`Cluster::kubeconfig`] is for them. [`Cluster::apply`], [`get`](Cluster::get), [`delete`](Cluster::delete) are for manifests.
//!
//! **Time.** The cluster's clock stands still, except that
//! - [`Cluster::advance`] moves it: schedules, TTLs, deadlines, back-offs and leases become due as in a real cluster, in order, and
//!   nothing waits for real time;
//! - while the cluster is at work it takes the time that it needs: after a request that may write, the clock moves on until
//!   nothing has been written for three seconds of the cluster's time. So a Deployment becomes ready without a call to `advance`.
//!   Leases, events and heartbeats do not count as writes here.
//!
//! [`Cluster::settled`] waits for the end of that work. The clock begins at the real time, rounded down to a full hour, so that the
//! next full hour is an hour away; [`Builder::starting_at`] chooses another time.
//!
//! **Operators.** One that runs anywhere in the process, or outside of it, works; the cluster does not know when it is busy, so use
//! [`Cluster::until`] to wait for what it does. An operator that is started with [`Cluster::spawn`] runs on the cluster's own thread
//! and clock: `requeue_after(hour)` is over after `advance(hour)`, and [`Cluster::settled`] waits for it, too.
//!
//! **Failures.** The error of [`Cluster::until`] says why the object is as it is, as `flyball why` does: what blocks it, what
//! belongs to it, and who did what. [`Cluster::why`] is that text.

mod builder;
mod cluster;
mod driver;
mod error;
mod objects;

pub use builder::Builder;
pub use cluster::Cluster;
pub use error::Error;
pub use flyball_api::Timestamp;
pub use flyball_apiserver::registry::User;
pub use flyball_playground::cluster::ClusterService;
pub use serde_json::Value;
