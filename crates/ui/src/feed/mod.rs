//! Follows the caches while there are viewers, and sends the changes to each of them.
//!
//! Changes are collected by key and sent four times a second, each object once, in its latest state. A viewer gets everything
//! first, then the batches. What a viewer may lag behind is bounded ([`BATCHES`], [`ROWS`]): one that is slower loses its stream,
//! and its browser asks for a new one. A stream that nobody reads holds next to nothing: what is sent is listed and written when it
//! is sent. With the last viewer all subscriptions end.

mod controllers;
mod lines;
mod table;
#[cfg(test)]
mod tests;
mod viewer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::daemon_set::DaemonSet;
use flyball_api::deployment::Deployment;
use flyball_api::job::Job;
use flyball_api::namespace::Namespace;
use flyball_api::node::Node;
use flyball_api::persistent_volume_claim::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSet;
use flyball_api::stateful_set::StatefulSet;
use flyball_runtime::decisions::Decision;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use self::controllers::{Controller, controllers};
use self::lines::{Line, Lines, Others};
use self::table::{AllRows, Changes, Table, TableOf};
use self::viewer::Seat;
pub(crate) use self::viewer::Viewer;
use crate::row::Around;
use crate::sources::Sources;

const BATCH_EVERY: Duration = Duration::from_millis(250);
/// Batches between two looks at the controllers, and between two searches for caches that were started since.
const CONTROLLERS_EVERY: u64 = 4;
const SEARCH_EVERY: u64 = 20;
/// Rows in one batch, and batches that a viewer may lag behind.
const ROWS: usize = 1000;
const BATCHES: usize = 32;
/// With more viewers, the one that came first has to go.
const VIEWERS: usize = 8;
/// Decisions that a new viewer gets.
const RECENT: usize = 200;

/// The tables, in the order in which they are sent: what is broken is mostly above.
fn tables() -> Vec<Box<dyn Table>> {
    vec![
        Box::new(TableOf::<Node>::default()),
        Box::new(TableOf::<Deployment>::default()),
        Box::new(TableOf::<StatefulSet>::default()),
        Box::new(TableOf::<DaemonSet>::default()),
        Box::new(TableOf::<ReplicaSet>::default()),
        Box::new(TableOf::<Job>::default()),
        Box::new(TableOf::<PersistentVolumeClaim>::default()),
        Box::new(TableOf::<Namespace>::default()),
        Box::new(TableOf::<Pod>::default()),
    ]
}

/// A message to the page.
#[derive(Serialize)]
struct Batch {
    /// The time of the manager, in milliseconds: ages are computed with it.
    now: i64,
    /// How many times as fast as the browser's it goes, if it can be moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u32>,
    #[serde(flatten)]
    changes: Changes,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    lines: VecDeque<Line>,
    #[serde(skip_serializing_if = "is_zero")]
    missed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    controllers: Option<Vec<Controller>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leads: Option<bool>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

pub(crate) struct Feed {
    sources: Sources,
    /// Where the work is done: not on the thread that answers probes.
    runtime: Handle,
    running: Mutex<Option<Running>>,
}

/// The feed while there are viewers.
struct Running {
    following: Arc<Mutex<Following>>,
    out: Sender<Bytes>,
    task: JoinHandle<()>,
    /// The viewers that may stay, the oldest first.
    seats: VecDeque<Arc<Seat>>,
    /// All streams that are open, those that have to end included.
    open: usize,
}

/// Subscriptions and what they have found.
struct Following {
    tables: Vec<Box<dyn Table>>,
    others: Others,
    lines: Arc<Lines>,
    decisions: Receiver<Arc<Decision>>,
}

impl Feed {
    pub(crate) fn new(sources: Sources, runtime: Handle) -> Arc<Self> {
        Arc::new(Self { sources, runtime, running: Mutex::default() })
    }

    /// A new viewer. The first one starts the feed.
    pub(crate) fn join(self: &Arc<Self>) -> Viewer {
        let mut running = self.running.lock();
        let running = running.get_or_insert_with(|| self.start());
        let seat = Arc::<Seat>::default();
        running.open += 1;
        running.seats.push_back(seat.clone());
        if running.seats.len() > VIEWERS
            && let Some(oldest) = running.seats.pop_front()
        {
            oldest.give_up();
        }
        // First the subscription, then what there is: a change in between is sent twice rather than never.
        Viewer::new(self.clone(), seat, running.out.subscribe())
    }

    /// The names of the tables, in the order in which they are sent.
    fn kinds(&self) -> VecDeque<&'static str> {
        let running = self.running.lock();
        let Some(present) = running.as_ref() else { return VecDeque::new() };
        let following = present.following.lock();
        following.tables.iter().map(|table| table.kind()).collect()
    }

    /// All rows of one table, as they are now.
    fn rows(&self, kind: &str) -> Option<AllRows> {
        let running = self.running.lock();
        let mut following = running.as_ref()?.following.lock();
        let table = following.tables.iter_mut().find(|table| table.kind() == kind)?;
        Some(table.all(&self.around()))
    }

    /// A viewer has gone. With the last one the feed ends.
    fn leave(&self, seat: &Arc<Seat>) {
        let mut running = self.running.lock();
        let Some(present) = running.as_mut() else { return };
        present.seats.retain(|other| !Arc::ptr_eq(other, seat));
        present.open -= 1;
        if present.open == 0 {
            present.task.abort();
            *running = None;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.running.lock().is_some()
    }

    fn around(&self) -> Around {
        Around::new(&self.sources.informers, self.sources.acts.clone())
    }

    fn now(&self) -> i64 {
        self.sources.clock.now().as_millisecond()
    }

    fn speed(&self) -> Option<u32> {
        self.sources.acts.as_ref()?.speed()
    }

    /// The first message: a new picture begins.
    fn greeting(&self) -> Bytes {
        let about = json!({
            "component": self.sources.component,
            "version": flyball_runtime::version::GIT_VERSION,
            "flyball": flyball_runtime::version::FLYBALL,
            "acts": self.sources.acts.is_some(),
        });
        event(&json!({ "now": self.now(), "speed": self.speed(), "begin": about }))
    }

    /// The last message of the picture.
    fn last_words(&self) -> Bytes {
        let recent = self.sources.decisions.recent(RECENT, |_| true);
        let batch = Batch {
            lines: recent.into_iter().map(|decision| Line::Decision(Box::new(decision))).collect(),
            controllers: Some(controllers(&self.sources.insight, &self.sources.health)),
            leads: (self.sources.leads)(),
            ..self.empty()
        };
        let mut message = event(&batch).to_vec();
        message.extend_from_slice(&event(&json!({ "complete": true })));
        message.into()
    }

    fn empty(&self) -> Batch {
        Batch {
            now: self.now(),
            speed: self.speed(),
            changes: Changes::default(),
            lines: VecDeque::new(),
            missed: 0,
            controllers: None,
            leads: None,
        }
    }

    fn start(self: &Arc<Self>) -> Running {
        let lines = Arc::new(Lines::new(self.sources.clock));
        let decisions = self.sources.decisions.listen();
        let mut following = Following { tables: tables(), others: Others::default(), lines, decisions };
        following.search(&self.sources);
        let following = Arc::new(Mutex::new(following));
        let (out, _) = channel(BATCHES);
        let task = self.runtime.spawn(run(Arc::downgrade(self), following.clone(), out.clone()));
        Running { following, out, task, seats: VecDeque::new(), open: 0 }
    }

    fn batch(&self, following: &mut Following, turn: u64) -> Bytes {
        following.read_decisions();
        if turn.is_multiple_of(SEARCH_EVERY) {
            following.search(&self.sources);
        }
        let (mut changes, mut room, around) = (Changes::default(), ROWS, self.around());
        for table in &mut following.tables {
            room -= table.take(&around, room, &mut changes);
        }
        let (lines, missed) = following.lines.take();
        let looks = turn.is_multiple_of(CONTROLLERS_EVERY);
        let controllers = looks.then(|| controllers(&self.sources.insight, &self.sources.health));
        let leads = if looks { (self.sources.leads)() } else { None };
        event(&Batch { changes, lines, missed, controllers, leads, ..self.empty() })
    }
}

impl Following {
    fn search(&mut self, sources: &Sources) {
        for table in &mut self.tables {
            table.follow(&sources.informers, &self.lines);
        }
        let with_rows: Vec<&str> = self.tables.iter().map(|table| table.kind()).collect();
        self.others.follow(&sources.informers, &with_rows, &self.lines);
    }

    fn read_decisions(&mut self) {
        loop {
            match self.decisions.try_recv() {
                Ok(decision) => self.lines.decided(&decision),
                Err(TryRecvError::Lagged(missed)) => self.lines.missed(missed),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }
}

async fn run(feed: std::sync::Weak<Feed>, following: Arc<Mutex<Following>>, out: Sender<Bytes>) {
    let mut ticks = interval(BATCH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in 1.. {
        ticks.tick().await;
        let Some(feed) = feed.upgrade() else { return };
        let batch = feed.batch(&mut following.lock(), turn);
        // Fails if all viewers have just gone.
        let _ = out.send(batch);
    }
}

/// A server-sent event.
fn event(message: &impl Serialize) -> Bytes {
    let mut text = b"data: ".to_vec();
    // JSON has no line breaks of its own, and these types can always be written.
    let _ = serde_json::to_writer(&mut text, message);
    text.extend_from_slice(b"\n\n");
    text.into()
}
