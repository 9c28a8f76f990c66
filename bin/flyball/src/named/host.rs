//! A named cluster from the side of its own process: it holds the name, writes its kubeconfigs, answers on its socket, and leaves
//! behind what it should.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use flyball_api::Timestamp;
use flyball_apiserver::store::ShelfId;
use flyball_playground::cluster::{Cluster, Saver, Snapshot};
use flyball_playground::timeline::Dial;
use flyball_runtime::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::channel::{self, Request};
use super::claim::Claim;
use super::list::{Stage, Status, memory};
use super::{Name, State, down, merge};
use crate::args::Up;
use crate::{clock, place, snapshot};

/// What the code that runs the cluster has to do for another process.
pub(crate) enum Command {
    Stop,
    /// To start it again with a snapshot, and to say how that went.
    Restore {
        snapshot: Box<Snapshot>,
        done: oneshot::Sender<anyhow::Result<()>>,
    },
}

/// Makes links to the live page.
type Links = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// What answers requests about this cluster.
struct Answers {
    state: OnceLock<State>,
    /// Writes snapshots of the running cluster.
    saver: Mutex<Option<Saver>>,
    commands_tx: mpsc::Sender<Command>,
    /// Makes links to the live page of the running cluster.
    links: Mutex<Option<Links>>,
    dial: OnceLock<Dial>,
}

/// A cluster under its name.
pub(crate) struct Host {
    claim: Claim,
    /// The kubeconfig of others that gets its context.
    shared: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    is_detached: bool,
    started: Timestamp,
    answers: Arc<Answers>,
    commands: mpsc::Receiver<Command>,
    listener: JoinHandle<()>,
}

impl Host {
    /// Takes the name. Whatever would make the kubeconfigs fail later fails here.
    pub(crate) fn take(args: &Up) -> anyhow::Result<Self> {
        let shared = match &args.kubeconfig {
            Some(path) => Some(place::kubeconfig(path)?),
            None if args.no_kubeconfig => None,
            None => Some(merge::usual()?),
        };
        if let Some(path) = &shared {
            merge::check(path)?;
        }
        let claim = Claim::take(args.wanted())?;
        let data_dir = args.data_dir.as_ref().map(std::path::absolute).transpose().context("--data-dir")?;
        let (commands_tx, commands) = mpsc::channel(1);
        let answers = Arc::new(Answers {
            state: OnceLock::new(),
            saver: Mutex::default(),
            links: Mutex::default(),
            dial: OnceLock::new(),
            commands_tx,
        });
        let started = Clock::system().now();
        let listener = channel::open(&claim.place)?;
        let name = claim.name.clone();
        let listener = tokio::spawn(channel::serve(listener, {
            let answers = Arc::clone(&answers);
            Arc::new(move |request| {
                let (answers, name) = (Arc::clone(&answers), name.clone());
                Box::pin(async move { answers.answer(request, name, started).await })
            })
        }));
        let is_detached = args.detached;
        Ok(Self { claim, shared, data_dir, is_detached, started, answers, commands, listener })
    }

    /// From now on requests may move this clock.
    pub(crate) fn turns(&self, dial: Dial) {
        let _ = self.answers.dial.set(dial);
    }

    pub(crate) fn name(&self) -> &Name {
        &self.claim.name
    }

    pub(crate) fn place(&self) -> &super::Place {
        &self.claim.place
    }

    /// The kubeconfig that users are shown.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.shared.clone().unwrap_or_else(|| self.claim.place.kubeconfig().to_owned())
    }

    /// Writes the kubeconfigs of a cluster that has started, and what others may know about it.
    pub(crate) fn publish(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let text = cluster.kubeconfig()?.context("the cluster does not serve")?;
        let context = self.name().context();
        let state = State {
            name: self.name().clone(),
            pid: std::process::id(),
            started: self.started,
            server: cluster.address().map(|address| format!("https://{address}")),
            kubeconfig: self.claim.place.kubeconfig().to_owned(),
            merged: self.shared.iter().cloned().collect(),
            data_dir: self.data_dir.clone(),
            log: self.is_detached.then(|| self.claim.place.log()),
            stopped: false,
        };
        // An earlier cluster of this name may have been merged elsewhere.
        let earlier = self.claim.earlier.iter().flat_map(|earlier| &earlier.merged);
        for file in earlier.filter(|file| !state.merged.contains(file)) {
            merge::remove(file, &context)?;
        }
        // First, so that whatever a kill leaves behind is found.
        self.claim.write(&state)?;
        self.claim.succeed();
        let state = self.answers.state.get_or_init(|| state);
        place::write_private(self.claim.place.kubeconfig(), &merge::renamed(&text, &context)?)?;
        for file in &state.merged {
            merge::add(file, &text, &context)?;
        }
        *self.answers.links.lock() = Some(Box::new(cluster.page_links()));
        *self.answers.saver.lock() = Some(cluster.saver());
        Ok(())
    }

    /// Drops all references to the cluster before it stops.
    pub(crate) fn withdraw(&self) {
        *self.answers.saver.lock() = None;
        *self.answers.links.lock() = None;
    }

    /// The next command of another process.
    pub(crate) async fn next_command(&mut self) -> Command {
        match self.commands.recv().await {
            Some(command) => command,
            // Not reached: the other end is here, too.
            None => std::future::pending().await,
        }
    }

    /// Clears away what belongs to a cluster that has stopped; what has data is kept.
    pub(crate) fn leave(mut self) -> anyhow::Result<()> {
        self.listener.abort();
        let Some(state) = self.answers.state.get() else { return Ok(()) };
        match state.data_dir {
            Some(_) => self.claim.keep(&State { stopped: true, ..state.clone() }),
            None => down::clear(&self.claim.place, state),
        }
    }
}

impl Answers {
    async fn answer(&self, request: Request, name: Name, started: Timestamp) -> anyhow::Result<Value> {
        match request {
            Request::Status {} => Ok(serde_json::to_value(self.status(name, started))?),
            Request::Page {} => {
                let link = self.links.lock().as_ref().and_then(|link| link());
                Ok(json!(link.context("the cluster is just starting or stopping")?))
            }
            Request::Stop {} => self.send(Command::Stop).await,
            Request::Save { file } => {
                let saver = self.saver.lock().clone().context("the cluster is just starting or stopping")?;
                tokio::task::spawn_blocking(move || snapshot::write(&saver, &file)).await?
            }
            Request::Clock { by, speed } => {
                let dial = self.dial.get().context("the cluster is just starting")?;
                Ok(serde_json::to_value(clock::turn(dial, by, speed).await?)?)
            }
            Request::Restore { file } => {
                let read = tokio::task::spawn_blocking(move || snapshot::read(&file));
                let snapshot = Box::new(read.await??);
                let (done, outcome) = oneshot::channel();
                self.send(Command::Restore { snapshot, done }).await?;
                outcome.await.context("the cluster is stopping")??;
                Ok(json!({}))
            }
        }
    }

    async fn send(&self, command: Command) -> anyhow::Result<Value> {
        self.commands_tx.send(command).await.ok().context("the cluster is stopping")?;
        Ok(json!({}))
    }

    fn status(&self, name: Name, started: Timestamp) -> Status {
        let (state, saver) = (self.state.get(), self.saver.lock().clone());
        let server = saver.as_ref().map(Saver::server);
        Status {
            name,
            state: if server.is_some() { Stage::Running } else { Stage::Starting },
            pid: Some(std::process::id()),
            started: Some(started),
            server: state.and_then(|state| state.server.clone()),
            kubeconfig: state.map(|state| state.kubeconfig.clone()),
            data_dir: state.and_then(|state| state.data_dir.clone()),
            log: state.and_then(|state| state.log.clone()),
            nodes: server.map(|server| server.store().len(&ShelfId::new("", "nodes"))),
            memory_bytes: memory(),
        }
    }
}
