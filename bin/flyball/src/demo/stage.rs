//! What the demo's steps use: a client, informers, and the printed lines.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_api::job::Job;
use flyball_api::{Key, Resource};
use flyball_cache::{Informer, InformerOptions, Informers};
use flyball_client::Client;
use flyball_playground::Cluster;
use flyball_playground::objects::Pod;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::args::LogFormat;
use crate::lines::{Style, say};
use crate::up;

/// Timeout for what should happen within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Stage {
    client: Client,
    informers: Informers,
    printer: JoinHandle<()>,
}

impl Stage {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let client = cluster.admin();
        let style = Style { format: LogFormat::Text, colour: std::io::stdout().is_terminal() };
        let printer = tokio::spawn(up::print_decisions(cluster.decisions().listen(), style));
        let informers = Informers::new(client.clone(), InformerOptions::default());
        Self { client, informers, printer }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn say(&self, text: &str) {
        say!("   {text}");
    }

    pub(super) async fn close(self) {
        self.printer.abort();
        self.informers.stop_all();
    }

    /// The pods of the app, by name.
    pub(super) fn pods(&self, app: &str) -> Vec<Arc<Pod>> {
        pods_of(&self.informers.get::<Pod>(), app)
    }

    /// Waits until the pods of the demo's Deployment are as they should be.
    pub(super) async fn until(
        &self,
        what: &str,
        holds: impl Fn(&[Arc<Pod>]) -> bool,
    ) -> anyhow::Result<Vec<Arc<Pod>>> {
        let pods = self.informers.get::<Pod>();
        let seen = wait(&pods, PATIENCE, || {
            let found = pods_of(&pods, super::WEB);
            holds(&found).then_some(found)
        });
        match seen.await {
            Some(found) => Ok(found),
            None => {
                let there: Vec<String> = pods_of(&pods, super::WEB)
                    .iter()
                    .map(|pod| {
                        format!("{} ({} on {})", pod.metadata.name, pod.status.phase, pod.spec.node_name)
                    })
                    .collect();
                bail!("not within {} s: {what}; the pods are: {}", PATIENCE.as_secs(), there.join(", "))
            }
        }
    }

    /// Waits until a Job is complete.
    pub(super) async fn job_completes(&self, name: &str, patience: Duration) -> anyhow::Result<()> {
        let jobs = self.informers.get::<Job>();
        let key = Key::new(super::NAMESPACE, name);
        let done = |job: &Job| {
            let complete =
                |type_: &str| job.status.conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
            (complete("Complete"), complete("Failed"))
        };
        let ended = wait(&jobs, patience, || {
            jobs.store().get(&key).map(|job| done(&job)).filter(|(complete, failed)| *complete || *failed)
        });
        match ended.await {
            Some((true, _)) => Ok(()),
            Some(_) => bail!("Job {name} has failed"),
            None => bail!("Job {name} is not complete after {} s", patience.as_secs()),
        }
    }

    /// Waits for the first Job of a CronJob.
    pub(super) async fn job_of(&self, cron_job: &str, patience: Duration) -> anyhow::Result<String> {
        let jobs = self.informers.get::<Job>();
        let started = wait(&jobs, patience, || {
            let owned = |job: &Arc<Job>| {
                job.metadata.controller().is_some_and(|o| o.kind == "CronJob" && o.name == cron_job)
            };
            jobs.store().list().iter().find(|job| owned(job)).map(|job| job.metadata.name.to_string())
        });
        started
            .await
            .with_context(|| format!("CronJob {cron_job} started nothing in {} s", patience.as_secs()))
    }

    /// Waits until an object is gone.
    pub(super) async fn gone<T: Resource>(&self, key: &Key) -> anyhow::Result<()> {
        let informer = self.informers.get::<T>();
        let gone = wait(&informer, PATIENCE, || informer.store().get(key).is_none().then_some(()));
        gone.await.with_context(|| format!("{} {key} is still there", T::TYPE.kind))
    }
}

fn pods_of(pods: &Informer<Pod>, app: &str) -> Vec<Arc<Pod>> {
    let mut found = pods.store().list();
    found.retain(|pod| pod.metadata.labels.get("app") == Some(app));
    found.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    found
}

/// Calls `look` again with every change of a kind, until it returns something.
async fn wait<T: Resource, R>(
    informer: &Arc<Informer<T>>,
    patience: Duration,
    look: impl Fn() -> Option<R>,
) -> Option<R> {
    let changed = Arc::new(Notify::new());
    let _subscription = informer.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    let seen = async {
        informer.synced().await;
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            changed.notified().await;
        }
    };
    tokio::time::timeout(patience, seen).await.ok()
}
