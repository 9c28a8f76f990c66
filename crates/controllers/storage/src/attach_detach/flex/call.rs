//! One call of a FlexVolume driver: runs the program, bounds its time and output, and reads its answer.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use flyball_api::de::null_default;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// How many bytes a driver may write to standard output, and to standard error.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// How many characters of an output are quoted in an error.
const QUOTED: usize = 200;
/// How many characters of a driver's own message are kept: it becomes the message of an event.
const MESSAGE_LIMIT: usize = 1000;
/// The longest path that Linux accepts. The path of a device is written to the status of a node.
const PATH_LIMIT: usize = 4096;
/// How long to wait for a program that was killed. One that hangs in the kernel ends only when its I/O does.
const KILL_WAIT: Duration = Duration::from_secs(2);

const SUCCESS: &str = "Success";
const NOT_SUPPORTED: &str = "Not supported";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("FlexVolume driver {driver}: {call}: it is not installed")]
    NotInstalled { driver: String, call: String },
    #[error("FlexVolume driver {driver}: {call}: cannot run {}", program.display())]
    Start { driver: String, call: String, program: PathBuf, source: io::Error },
    #[error("FlexVolume driver {driver}: {call}: no answer within {limit:?}; the program was killed")]
    Timeout { driver: String, call: String, limit: Duration },
    #[error("FlexVolume driver {driver}: {call}: cannot read the output")]
    Read { driver: String, call: String, source: io::Error },
    #[error(
        "FlexVolume driver {driver}: {call}: more than {OUTPUT_LIMIT} bytes of output; the program was killed"
    )]
    TooMuchOutput { driver: String, call: String },
    #[error(
        "FlexVolume driver {driver}: {call}: the output is not a JSON object with a status ({status}): {output:?}: {why}"
    )]
    Garbage { driver: String, call: String, status: ExitStatus, output: String, why: String },
    #[error("FlexVolume driver {driver}: {call}: it reports success, but ended with {status}")]
    Exit { driver: String, call: String, status: ExitStatus },
    #[error("FlexVolume driver {driver}: {call}: the path of the device has more than {PATH_LIMIT} bytes")]
    DevicePath { driver: String, call: String },
    #[error("FlexVolume driver {driver}: {call}: no longer wanted; the program was killed")]
    Cancelled { driver: String, call: String },
    /// The driver reports a failure. The text is upstream's, since it is the message of an event.
    #[error("{call} command failed, status: {status}, reason: {reason}")]
    Failure { call: String, status: String, reason: String },
    /// The driver does not have this call.
    #[error("FlexVolume driver {driver}: {call} is not supported")]
    NotSupported { driver: String, call: String },
}

/// The answer of a driver. As in Go, names may be capitalised, and `null` is the same as no value.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Answer {
    #[serde(alias = "Status", deserialize_with = "null_default")]
    status: String,
    #[serde(alias = "Message", deserialize_with = "null_default")]
    message: String,
    /// The path of the device on the node, after `attach`.
    #[serde(alias = "Device", deserialize_with = "null_default")]
    pub device: String,
    /// Whether the volume is attached, after `isattached`.
    #[serde(alias = "Attached", deserialize_with = "null_default")]
    pub attached: bool,
    /// After `init`.
    #[serde(alias = "Capabilities")]
    capabilities: Option<Capabilities>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Capabilities {
    attach: Option<bool>,
}

impl Answer {
    /// Whether the driver attaches volumes, after `init`. It does unless it says that it does not.
    pub fn can_attach(&self) -> bool {
        self.capabilities.as_ref().and_then(|capabilities| capabilities.attach).unwrap_or(true)
    }
}

/// A call of a driver.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) driver: String,
    pub(super) program: PathBuf,
    /// Such as `attach`.
    pub(super) name: &'static str,
    pub(super) arguments: Vec<String>,
    pub(super) limit: Duration,
}

impl Call {
    /// Runs the program and waits for its answer. If this future is dropped, the program is killed: its result would be lost, and
    /// it must not act for a process that has lost its lease.
    ///
    /// The program runs in real time, on a thread and a runtime of its own, also where the clock of the caller is paused.
    ///
    /// # Errors
    /// The driver could not be run, gave no answer, or reports a failure.
    pub(super) async fn run(self) -> Result<Answer, CallError> {
        let (driver, name, program) = (self.driver.clone(), self.name, self.program.clone());
        let start = |source| CallError::Start { driver, call: name.to_owned(), program, source };
        let (_caller, cancelled) = oneshot::channel();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => Ok(runtime.block_on(self.run_here(cancelled))),
            Err(error) => Err(error),
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(start(error)),
            Err(error) => Err(start(io::Error::other(error))),
        }
    }

    /// `cancelled` ends when its sender is dropped.
    async fn run_here(self, cancelled: oneshot::Receiver<()>) -> Result<Answer, CallError> {
        let child = Command::new(&self.program)
            .arg(self.name)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Of its own, so that what it has started can be killed with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let (driver, call) = (self.driver.clone(), self.name.to_owned());
        let mut child = match child {
            Ok(child) => child,
            Err(source) => return Err(CallError::Start { driver, call, program: self.program, source }),
        };
        let ended = tokio::select! {
            _ = cancelled => Err(CallError::Cancelled { driver, call }),
            ended = tokio::time::timeout(self.limit, outputs(&mut child)) => match ended {
                Ok(Ok(outputs)) => Ok(outputs),
                Ok(Err(Unread::TooMuch)) => Err(CallError::TooMuchOutput { driver, call }),
                Ok(Err(Unread::Io(source))) => Err(CallError::Read { driver, call, source }),
                Err(_) => Err(CallError::Timeout { driver, call, limit: self.limit }),
            },
        };
        match ended {
            Ok(outputs) => outputs.answer(self.driver, self.name),
            Err(error) => {
                kill(&mut child).await;
                Err(error)
            }
        }
    }
}

/// What a program has written, and how it ended.
struct Outputs {
    standard: Vec<u8>,
    errors: Vec<u8>,
    status: ExitStatus,
}

impl Outputs {
    /// What the driver says with that. Its length is bounded, and so are those of all errors.
    fn answer(self, driver: String, call: &str) -> Result<Answer, CallError> {
        let (call, status) = (call.to_owned(), self.status);
        // Upstream reads both as one text, so that a driver can answer on either.
        let text = if self.standard.trim_ascii().is_empty() { &self.errors } else { &self.standard };
        let answer: Answer = match serde_json::from_slice(text) {
            Ok(answer) => answer,
            Err(error) => {
                // It quotes values that have another type than they should.
                let (output, why) = (quote(text), shortened(&error.to_string(), QUOTED));
                return Err(CallError::Garbage { driver, call, status, output, why });
            }
        };
        match answer.status.as_str() {
            NOT_SUPPORTED => Err(CallError::NotSupported { driver, call }),
            SUCCESS if !status.success() => Err(CallError::Exit { driver, call, status }),
            SUCCESS if answer.device.len() > PATH_LIMIT => Err(CallError::DevicePath { driver, call }),
            SUCCESS => Ok(answer),
            other => {
                let status = shortened(other, MESSAGE_LIMIT);
                Err(CallError::Failure { call, status, reason: shortened(&answer.message, MESSAGE_LIMIT) })
            }
        }
    }
}

enum Unread {
    TooMuch,
    Io(io::Error),
}

/// Kills a program with its children, and waits for its end, so that it does not stay as a zombie.
async fn kill(child: &mut Child) {
    // None if it has ended and been waited for: then its id may be that of another process.
    if let Some(group) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        // Fails if all have just ended.
        let _ = kill_process_group(group, Signal::KILL);
        // If it does not end in time, Tokio waits for it when it is dropped.
        let _ = tokio::time::timeout(KILL_WAIT, child.wait()).await;
    }
}

async fn outputs(child: &mut Child) -> Result<Outputs, Unread> {
    let (standard, errors) = (child.stdout.take(), child.stderr.take());
    let (standard, errors) = tokio::try_join!(read(standard), read(errors))?;
    let status = child.wait().await.map_err(Unread::Io)?;
    Ok(Outputs { standard, errors, status })
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Unread> {
    let mut text = vec![];
    if let Some(from) = from {
        let read = from.take(OUTPUT_LIMIT + 1).read_to_end(&mut text).await.map_err(Unread::Io)?;
        if u64::try_from(read).is_ok_and(|read| read > OUTPUT_LIMIT) {
            return Err(Unread::TooMuch);
        }
    }
    Ok(text)
}

fn quote(text: &[u8]) -> String {
    shortened(String::from_utf8_lossy(text).trim(), QUOTED)
}

/// At most this many characters of a text.
fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a driver says that ends with success and writes this, for fuzz targets (`crates/fuzz`).
pub fn answer_in(standard: &[u8]) -> Result<Answer, CallError> {
    let outputs = Outputs { standard: standard.to_vec(), errors: vec![], status: ExitStatus::default() };
    outputs.answer("example.com/driver".to_owned(), "attach")
}
