//! The cluster as a test uses it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_client::{Client, ClientOptions, ServiceTransport};
use flyball_explain::{Ref, explain, gather, text};
use flyball_playground::cluster::ClusterService;
use flyball_runtime::Clock;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::driver::{self, Command, Failure, Started};
use crate::objects::{Named, apply, documents};
use crate::{Builder, Error, User};

/// Commands that wait while the cluster is at work.
const COMMANDS: usize = 16;
/// Lines of history in an explanation.
const HISTORY: usize = 30;

/// A cluster on a thread of this process. It ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    service: ClusterService,
    client: Client,
    runtime: Handle,
    clock: Clock,
    url: Option<String>,
    kubeconfig: Option<String>,
    notices: Vec<String>,
    patience: Duration,
    commands: mpsc::Sender<Command>,
    /// Ends the thread at once when it is dropped.
    _alive: oneshot::Sender<()>,
}

impl Cluster {
    /// A cluster with three nodes and all controllers, without a port.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) async fn start_with(builder: Builder) -> Result<Self, Error> {
        let Builder { options, start, patience } = builder;
        let (commands, received) = mpsc::channel(COMMANDS);
        let (ready, started) = oneshot::channel();
        let (alive, gone) = oneshot::channel();
        let thread = std::thread::Builder::new().name("flyball-cluster".to_owned());
        let run = move || driver::run(options, start, ready, received, gone);
        thread.spawn(run).map_err(Error::Thread)?;
        let started = started.await.map_err(|_| Error::Stopped)?.map_err(|failure| match failure {
            Failure::Runtime(error) => Error::Thread(error),
            Failure::Cluster(error) => Error::Start(error),
        })?;
        let Started { service, runtime, clock, url, kubeconfig, notices } = started;
        let options = ClientOptions {
            user_agent: concat!("flyball-testing/", env!("CARGO_PKG_VERSION")).to_owned(),
            qps: 0.0,
            ..ClientOptions::default()
        };
        let client = Client::new(Arc::new(ServiceTransport::new(service.clone())), options);
        Ok(Self {
            service,
            client,
            runtime,
            clock,
            url,
            kubeconfig,
            notices,
            patience,
            commands,
            _alive: alive,
        })
    }

    /// A tower service for clients in this process, as the cluster's administrator: `kube::Client::new(cluster.service(), "default")`.
    pub fn service(&self) -> ClusterService {
        self.service.clone()
    }

    /// The same as another user, for tests of roles. RBAC applies.
    pub fn service_as(&self, user: &str, groups: &[&str]) -> ClusterService {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        self.service.for_user(User { name: user.to_owned(), groups, ..User::default() })
    }

    /// The address, `https://127.0.0.1:…`, of a cluster that serves ([`Builder::serve`]).
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The administrator's kubeconfig for other processes, as JSON (which every reader of YAML accepts), of a cluster that serves.
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// Warnings about the flags of the controller manager.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What the cluster's clock shows.
    pub fn now(&self) -> Timestamp {
        // The time of a virtual clock is that of its runtime.
        let _runtime = self.runtime.enter();
        self.clock.now()
    }

    /// Moves the clock: everything that becomes due happens, in order. What follows from what became due last may still be going
    /// on; [`settled`](Self::settled) waits for it.
    pub async fn advance(&self, by: Duration) -> Result<(), Error> {
        self.command(|done| Command::Advance(by, done)).await
    }

    /// Waits until the cluster has no work: no task of it can run, and nothing will be written during the next three seconds of its
    /// time. Fails if that does not come about within ten minutes of its time, which is the case when two controllers undo
    /// each other's writes.
    pub async fn settled(&self) -> Result<(), Error> {
        let outcome = self.command(Command::Settle).await?;
        outcome.map_err(|unsettled| Error::Unsettled { within: unsettled.within, writes: unsettled.writes })
    }

    async fn command<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Error> {
        let (done, outcome) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_| Error::Stopped)?;
        outcome.await.map_err(|_| Error::Stopped)
    }

    /// Applies manifests (YAML or JSON, several documents), as `kubectl apply --server-side` does, and returns what the server
    /// made of them. Objects without a namespace are in `default`.
    pub async fn apply(&self, manifests: &str) -> Result<Vec<Value>, Error> {
        let manifests = documents(manifests)?;
        let client = self.client.clone();
        self.inside(async move {
            let mut applied = Vec::new();
            for manifest in manifests {
                applied.push(apply(&client, manifest).await?);
            }
            Ok(applied)
        })
        .await
    }

    /// An object, if it exists. The kind is as for kubectl (`deploy`, `deployments`, `widgets.example.com`), the name is `name`, in
    /// the namespace `default`, or `namespace/name`.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        self.on(kind, name, async |object, client| object.get(&client).await).await
    }

    /// Deletes an object and what it owns; whether it existed. Names are as for [`get`](Self::get).
    pub async fn delete(&self, kind: &str, name: &str) -> Result<bool, Error> {
        self.on(kind, name, async |object, client| object.delete(&client).await).await
    }

    /// Waits until an object is as `holds` says (`Value::Null` stands for one that does not exist), and returns it. The error
    /// says why it is as it is.
    ///
    /// Each time the cluster has settled, the object is read. If it does not hold, this waits for the next write of somebody
    /// outside of the cluster, such as an operator, and for no longer than [`Builder::patience`].
    pub async fn until(
        &self,
        kind: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, Error> {
        let mut writes = self.service.writes();
        loop {
            writes.borrow_and_update();
            self.settled().await?;
            let object = self.get(kind, name).await?.unwrap_or_default();
            if holds(&object) {
                return Ok(object);
            }
            if !matches!(tokio::time::timeout(self.patience, writes.changed()).await, Ok(Ok(()))) {
                let why = self.why(kind, name).await.unwrap_or_else(|error| format!("{error:?}\n"));
                let object = serde_yaml::to_string(&object).unwrap_or_default();
                let (kind, name, patience) = (kind.to_owned(), name.to_owned(), self.patience);
                return Err(Error::Unmet { kind, name, patience, why, object });
            }
        }
    }

    /// Why an object is as it is: what blocks it, what belongs to it, what controllers wait for, and who did what. Names are as for
    /// [`get`](Self::get).
    pub async fn why(&self, kind: &str, name: &str) -> Result<String, Error> {
        let now = self.now();
        let (kind, name, client) = (kind.to_owned(), name.to_owned(), self.client.clone());
        self.inside(async move {
            let (object, served) = Named::find(&client, &kind, &name).await?;
            let Named { resource, key } = &object;
            let asked = Ref::new(&resource.group, &resource.kind, &key.namespace, &key.name);
            let world = gather::gather(&client, &served, &asked, now).await;
            let mut world = world.map_err(|source| Error::Request { doing: object.doing("read"), source })?;
            gather::remember(&client, &mut world, &asked).await;
            match explain(&world, &asked, None, HISTORY) {
                Ok(explanation) => Ok(text(&explanation, false)),
                Err(failure) => {
                    let (kind, name) = (resource.kind.to_string(), key.to_string());
                    Err(Error::Unexplained { kind, name, why: failure.to_string() })
                }
            }
        })
        .await
    }

    /// Runs an operator, or another task, on the cluster's own thread and clock: its timers follow [`advance`](Self::advance), and
    /// [`settled`](Self::settled) waits until it cannot go on.
    ///
    /// `task` gets the [`service`](Self::service) for its client. A `kube::Client` has a task of its own, so it must be made in
    /// there, too. The task should not wait for anything outside of the cluster, since the clock would run on meanwhile, and must not
    /// block.
    pub fn spawn<F>(&self, task: impl FnOnce(ClusterService) -> F + Send + 'static) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let service = self.service();
        self.runtime.spawn(async move { task(service).await })
    }

    /// Stops all parts in order. A cluster that is dropped ends at once.
    pub async fn stop(self) -> Result<(), Error> {
        self.command(Command::Stop).await
    }

    /// Runs a request on the thread of the cluster, so that it does not depend on the caller's runtime and clock.
    async fn inside<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.runtime.spawn(task).await.unwrap_or(Err(Error::Stopped))
    }

    async fn on<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send>(
        &self,
        kind: &str,
        name: &str,
        action: impl FnOnce(Named, Client) -> F + Send + 'static,
    ) -> Result<T, Error> {
        let (kind, name, client) = (kind.to_owned(), name.to_owned(), self.client.clone());
        self.inside(async move {
            let (object, _) = Named::find(&client, &kind, &name).await?;
            action(object, client).await
        })
        .await
    }
}
