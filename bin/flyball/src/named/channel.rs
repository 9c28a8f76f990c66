//! The socket by which other commands reach a running cluster: one request, one answer, as lines of JSON. Only its owner can open it,
//! as its folder is closed to others.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::{HOME, Place};

/// No line is longer.
const LONGEST: u64 = 1 << 20;
/// How long a process may take to answer a question about itself.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Request {
    /// A [`Status`](super::list::Status).
    Status {},
    /// A link to the live page that works once.
    Page {},
    /// Ends the cluster in order. The answer comes when that begins.
    Stop {},
    /// Writes a snapshot to a file that does not exist. The answer comes when it is complete.
    Save { file: PathBuf },
    /// Moves the clock, sets its speed, or neither; a [`Shown`](crate::clock::Shown). The answer comes when that is done.
    Clock { by: Option<Duration>, speed: Option<u32> },
    /// Starts the cluster again with what is in a file. The answer comes when it runs.
    Restore { file: PathBuf },
}

/// What answers requests.
pub(crate) type Answerer =
    std::sync::Arc<dyn Fn(Request) -> BoxFuture<'static, anyhow::Result<Value>> + Send + Sync>;

/// Opens the socket of a cluster whose name this process holds.
pub(crate) fn open(place: &Place) -> anyhow::Result<UnixListener> {
    let path = place.socket();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", path.display()));
        }
        _ => {}
    }
    UnixListener::bind(&path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            anyhow!("{} is too long for a socket: choose a shorter folder with {HOME}", path.display())
        }
        _ => anyhow!(error).context(format!("listen on {}", path.display())),
    })
}

/// Answers requests until it is dropped. A request whose sender is gone is dropped, too.
pub(crate) async fn serve(listener: UnixListener, answer: Answerer) {
    match flyball_listen::each(listener, |stream, _| converse(stream, answer.clone())).await {}
}

async fn converse(stream: UnixStream, answer: Answerer) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    while let Some(line) = next_line(&mut lines).await {
        let outcome = match serde_json::from_str::<Request>(&line) {
            Ok(request) => {
                tokio::select! {
                    outcome = answer(request) => outcome,
                    // Nobody waits for the answer any more.
                    _ = lines.fill_buf() => return,
                }
            }
            Err(error) => Err(anyhow!("unknown request: {error}")),
        };
        let response = match outcome {
            Ok(value) => json!({"ok": value}),
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        if send(&mut write, &response).await.is_err() {
            return;
        }
    }
}

async fn next_line(lines: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    let mut line = String::new();
    match lines.take(LONGEST).read_line(&mut line).await {
        Ok(length) if length > 0 && line.ends_with('\n') => Some(line),
        _ => None,
    }
}

async fn send(write: &mut OwnedWriteHalf, message: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(write.write_all(&line).await?)
}

/// Whether a cluster answers, and the connection to it.
pub(crate) enum Reached {
    Yes(Connection),
    /// No process listens.
    No,
}

pub(crate) struct Connection {
    lines: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

pub(crate) async fn reach(socket: &Path) -> anyhow::Result<Reached> {
    match UnixStream::connect(socket).await {
        Ok(stream) => {
            let (read, write) = stream.into_split();
            Ok(Reached::Yes(Connection { lines: BufReader::new(read), write }))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Ok(Reached::No)
        }
        Err(error) => Err(error).with_context(|| format!("connect to {}", socket.display())),
    }
}

impl Connection {
    /// Sends a request and waits for its answer, however long it takes.
    pub(crate) async fn request<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<T> {
        send(&mut self.write, request).await.context("the cluster has just ended")?;
        let Some(line) = next_line(&mut self.lines).await else { bail!("the cluster has just ended") };
        let mut response: Value = serde_json::from_str(&line)?;
        if let Some(error) = response["error"].as_str() {
            bail!("{error}");
        }
        Ok(serde_json::from_value(response["ok"].take())?)
    }

    /// The same for a question that takes no time.
    pub(crate) async fn request_soon<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<T> {
        let answer = tokio::time::timeout(ANSWERS_WITHIN, self.request(request)).await;
        answer.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", ANSWERS_WITHIN.as_secs())))
    }
}
