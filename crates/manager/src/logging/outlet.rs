//! Writes log lines without blocking the threads that log: a full pipe blocks only the writer's thread. Lines that do not fit
//! into the buffer are counted, and their number is logged later.

use std::{
    io::{ErrorKind, Write},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// The size of the buffer: some thousand lines.
const CAPACITY: usize = 1 << 20;
/// Lines within this time are written together, since fewer, larger writes cost far less.
const GATHER: Duration = Duration::from_millis(10);
/// Buffer capacity that is kept between writes; that of a burst is freed.
const KEPT: usize = 64 << 10;

/// The destination of lines. Clones share it.
#[derive(Clone)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the writer: there are lines, or a flush is requested.
    wanted: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Whether the writer is writing lines.
    writing: bool,
    /// How many callers wait for a flush.
    flushing: usize,
    dropped: u64,
    /// Of those, how many have been logged.
    reported: u64,
}

impl Outlet {
    /// Starts a thread that writes to `out`.
    pub(super) fn new(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = shared.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_all(out))?;
        Ok(Self { shared })
    }

    /// Adds a line. Does not block.
    pub(super) fn push(&self, line: &str) {
        let mut state = self.shared.state.lock();
        if state.waiting.len() + line.len() > CAPACITY {
            state.dropped += 1;
            return;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.extend_from_slice(line.as_bytes());
        drop(state);
        if was_empty {
            self.shared.wanted.notify_one();
        }
    }

    /// Lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.state.lock().dropped
    }

    /// Waits until everything is written, at most until `deadline`. Returns whether it is.
    pub(super) fn flush(&self, deadline: Instant) -> bool {
        let mut state = self.shared.state.lock();
        state.flushing += 1;
        self.shared.wanted.notify_one();
        while !state.is_idle() {
            if self.shared.written.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.flushing -= 1;
        state.is_idle()
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.writing
    }
}

impl Shared {
    fn write_all(&self, mut out: impl Write) {
        let mut lines = vec![];
        loop {
            self.gather(&mut lines);
            write_patiently(&mut out, &lines);
            let mut state = self.state.lock();
            state.writing = false;
            let unreported = state.dropped - state.reported;
            state.reported = state.dropped;
            drop(state);
            if unreported > 0 {
                tracing::warn!(
                    lines = unreported,
                    "log lines were dropped, because the log was not read fast enough"
                );
            }
            self.written.notify_all();
        }
    }

    /// Waits for lines, and then for further lines to write together.
    fn gather(&self, lines: &mut Vec<u8>) {
        lines.clear();
        lines.shrink_to(KEPT);
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            self.wanted.wait(&mut state);
        }
        let deadline = Instant::now() + GATHER;
        while state.flushing == 0 && !self.wanted.wait_until(&mut state, deadline).timed_out() {}
        std::mem::swap(lines, &mut state.waiting);
        state.writing = true;
    }
}

/// A closed pipe is not an error. A slow one is waited for, also if it is non-blocking.
fn write_patiently(out: &mut impl Write, mut lines: &[u8]) {
    while !lines.is_empty() {
        match out.write(lines) {
            Ok(written @ 1..) => lines = lines.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(GATHER),
            Ok(0) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, pipe};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_flush_waits_until_everything_is_written() {
        let (reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer).unwrap();
        for number in 0..100 {
            outlet.push(&format!("{number}\n"));
        }
        assert!(outlet.flush(soon()));
        let lines: Vec<String> = BufReader::new(reader).lines().take(100).map(Result::unwrap).collect();
        assert_eq!(lines, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(outlet.flush(soon()), "nothing is left");
    }

    #[test]
    fn a_full_pipe_blocks_no_caller_and_dropped_lines_are_counted() {
        let (mut reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer).unwrap();
        let line = format!("{}\n", "x".repeat(99));
        let pushed = 5 * CAPACITY as u64 / 100;
        for _ in 0..pushed {
            outlet.push(&line);
        }
        assert!(!outlet.flush(Instant::now() + Duration::from_millis(50)), "the pipe is not read");
        let dropped = outlet.dropped();
        assert!(dropped > 0 && dropped < pushed, "{dropped} of {pushed}");

        let reading = thread::spawn(move || {
            let mut read = vec![0; (pushed - dropped) as usize * 100];
            reader.read_exact(&mut read).map(|()| read)
        });
        assert!(outlet.flush(soon()), "the pipe is read");
        let read = reading.join().unwrap().unwrap();
        assert!(read.chunks(100).all(|read| read == line.as_bytes()), "no line is broken");
        assert_eq!(outlet.dropped(), dropped, "there is room again");
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let outlet = Outlet::new(writer).unwrap();
        for _ in 0..3 {
            outlet.push("lost\n");
            assert!(outlet.flush(soon()));
        }
        assert_eq!(outlet.dropped(), 0);
    }

    #[test]
    fn a_non_blocking_pipe_is_retried() {
        /// Accepts a byte on every other call.
        #[derive(Clone, Default)]
        struct Grudging(Arc<Mutex<(bool, Vec<u8>)>>);
        impl Write for Grudging {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let (willing, written) = &mut *self.0.lock();
                *willing = !*willing;
                match (*willing, bytes.first()) {
                    (true, Some(first)) => {
                        written.push(*first);
                        Ok(1)
                    }
                    _ => Err(ErrorKind::WouldBlock.into()),
                }
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let grudging = Grudging::default();
        let outlet = Outlet::new(grudging.clone()).unwrap();
        outlet.push("patience\n");
        assert!(outlet.flush(soon()));
        assert_eq!(grudging.0.lock().1, b"patience\n");
    }
}
