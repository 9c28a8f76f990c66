//! The journal: decisions of controllers on disk. It is bounded by size and age, survives restarts and kills, and holds no data of
//! objects: names, reasons and outcomes only.
//!
//! A folder has files (`segments`) of blocks; a block is a gzip member with a line of JSON for each decision ([`line`]), so
//! `zcat` reads a file. A block is written at once, a second after its first decision at the latest; a kill costs what was not
//! written, and leaves a torn block at most, which readers leave out. Each run begins a new file. [`trace`] turns lines into
//! OTLP traces, which follow one change across controllers.

#[doc(hidden)]
pub mod fuzzing;
mod line;
mod segments;
pub mod trace;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flyball_runtime::decisions::{Archive, Decision, DecisionLog};
use flyball_runtime::{Chain, Clock, Signal, SignalSender};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinHandle;

pub use crate::line::Line;
use crate::segments::{Append, Reader, Segments};
pub use crate::segments::{Limits, OpenError, read};

/// How long a decision waits for others at most before it is written.
const GATHER: Duration = Duration::from_secs(1);
/// A block that is larger is written at once.
const BLOCK: usize = 64 << 10;

/// How long the end of the process waits for the disk.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A journal that follows a decision log.
pub struct Journal {
    stop: SignalSender,
    task: JoinHandle<()>,
}

impl Journal {
    /// Opens the journal in a folder, which is created if it does not exist, and writes there what `log` records from now on. The
    /// log finds older decisions in it.
    pub fn follow(log: &DecisionLog, folder: &Path, limits: Limits, clock: Clock) -> Result<Self, OpenError> {
        let segments = Segments::open(folder, limits, clock)?;
        log.keep_in(Arc::new(Kept(segments.reader())));
        let (stop, stops) = Signal::new();
        let run = segments.run();
        let task = tokio::spawn(write(log.listen(), segments, run, stops));
        Ok(Self { stop, task })
    }

    /// Writes what is left.
    pub async fn finish(self) {
        self.stop.set();
        if tokio::time::timeout(TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the last decisions are missing in the journal: the disk is too slow");
        }
    }
}

/// The journal as the decision log uses it.
struct Kept(Reader);

impl Archive for Kept {
    fn find(&self, limit: usize, first: u64, wanted: &dyn Fn(&Decision) -> bool) -> Vec<Decision> {
        self.0.find(limit, first, wanted)
    }

    fn has_dropped(&self) -> bool {
        self.0.has_dropped()
    }
}

/// What is written next.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
}

impl Block {
    fn add(&mut self, run: u64, decision: &Decision) {
        let length = self.text.len();
        let added = catch_unwind(AssertUnwindSafe(|| {
            serde_json::to_writer(&mut self.text, &Line::of(run, decision)).is_ok()
        }));
        match added {
            Ok(true) => self.text.push(b'\n'),
            // These types can always be written. If not, that costs this decision and not the journal.
            Ok(false) | Err(_) => {
                self.text.truncate(length);
                self.lost(1);
            }
        }
    }

    fn lost(&mut self, count: u64) {
        self.text.extend_from_slice(format!("{{\"missed\":{count}}}\n").as_bytes());
    }
}

async fn write<S: Append>(mut decisions: Receiver<Arc<Decision>>, mut segments: S, run: u64, stop: Signal) {
    let mut missed = 0;
    loop {
        let mut block = Block::default();
        if missed > 0 {
            block.lost(missed);
        }
        let is_last = !gather(&mut decisions, &mut block, run, &stop).await;
        if is_last {
            rest(&mut decisions, &mut block, run);
        }
        if !block.text.is_empty() {
            // On a blocking thread, so that recording a decision never waits for compression or the disk.
            let written = tokio::task::spawn_blocking(move || {
                let missed = put(&mut segments, &block.text);
                (segments, missed)
            });
            match written.await {
                Ok((back, lines)) => (segments, missed) = (back, lines),
                // The process ends.
                Err(_) => return,
            }
        }
        if is_last {
            return;
        }
    }
}

/// Writes a block; returns how many of its lines are missing. A bug costs a block, and what follows is written to another file.
fn put(segments: &mut impl Append, block: &[u8]) -> u64 {
    match catch_unwind(AssertUnwindSafe(|| segments.append(block))) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => tracing::error!(error = %Chain(&error), "decisions are missing in the journal"),
        Err(_) => {
            tracing::error!(
                "decisions are missing in the journal: writing them has panicked, as logged where it happened"
            );
            segments.leave_file();
        }
    }
    block.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Collects a block. Returns whether there may be more.
async fn gather(decisions: &mut Receiver<Arc<Decision>>, block: &mut Block, run: u64, stop: &Signal) -> bool {
    let mut due = None;
    loop {
        let ends = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.wait() => return false,
            () = ends => return true,
            decision = decisions.recv() => match decision {
                Ok(decision) => block.add(run, &decision),
                Err(RecvError::Lagged(count)) => block.lost(count),
                Err(RecvError::Closed) => return false,
            },
        }
        if block.text.len() >= BLOCK {
            return true;
        }
        due.get_or_insert_with(|| tokio::time::Instant::now() + GATHER);
    }
}

/// What was recorded until now.
fn rest(decisions: &mut Receiver<Arc<Decision>>, block: &mut Block, run: u64) {
    loop {
        match decisions.try_recv() {
            Ok(decision) => block.add(run, &decision),
            Err(TryRecvError::Lagged(count)) => block.lost(count),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use flyball_api::{Key, Timestamp};
    use flyball_runtime::decisions::{Outcome, Subject};
    use parking_lot::Mutex;

    use super::*;

    /// Panics at the first block.
    #[derive(Clone, Default)]
    struct Fragile(Arc<Mutex<Vec<String>>>);

    impl Append for Fragile {
        fn append(&mut self, lines: &[u8]) -> io::Result<()> {
            let mut calls = self.0.lock();
            calls.push(String::from_utf8_lossy(lines).into_owned());
            assert!(calls.len() > 1, "a bug");
            Ok(())
        }

        fn leave_file(&mut self) {
            self.0.lock().push("another file".to_owned());
        }
    }

    fn decision(name: &str) -> Decision {
        Decision {
            id: 0,
            time: Timestamp::UNIX_EPOCH,
            controller: "test",
            owner: "ns/owner".into(),
            action: "create",
            target: Subject::new("Pod", &Key::new("ns", name)),
            subresource: "".into(),
            why: "because".into(),
            outcome: Outcome::Done,
            took_ms: Duration::ZERO,
        }
    }

    #[tokio::test]
    async fn a_panic_while_a_block_is_written_costs_that_block_and_not_the_journal() {
        let (log, store) = (DecisionLog::default(), Fragile::default());
        let (stop, stops) = Signal::new();
        let task = tokio::spawn(write(log.listen(), store.clone(), 1, stops));
        log.record(decision("lost-1"));
        log.record(decision("lost-2"));
        while store.0.lock().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        log.record(decision("kept"));
        stop.set();
        task.await.unwrap();
        let calls = store.0.lock().clone();
        assert!(calls[0].contains("lost-2") && calls[1] == "another file", "{calls:?}");
        assert!(calls[2].starts_with("{\"missed\":2}\n") && calls[2].contains("kept"), "{calls:?}");
    }
}
