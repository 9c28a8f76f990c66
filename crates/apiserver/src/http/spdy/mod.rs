//! SPDY/3.1, which older clients use for `exec`, `attach` and `portforward`: the handshake, and connections.

mod command;
mod forward;
mod frames;

use flate2::Compression;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::frames::{Frame, HEADER, LONGEST, Reader};
use super::command::Command;
use super::respond::{self, Body, BoxError};
use crate::error::ApiError;
pub(crate) use forward::session;

/// The protocol of commands, and that of forwarded ports.
const COMMANDS: &str = "v4.channel.k8s.io";
const PORTS: &str = "portforward.k8s.io";
/// Frames that wait for the client to read them.
const BACKLOG: usize = 16;

/// Connects to a port of the pod, or says why that is not possible.
pub(crate) type Connect = Box<dyn Fn(u16) -> Result<DuplexStream, String> + Send + Sync>;

/// A client's request for a SPDY connection.
#[derive(Clone)]
pub(crate) struct Handshake {
    offered: Vec<String>,
    upgrade: OnUpgrade,
}

impl Handshake {
    pub(crate) fn read(parts: &request::Parts) -> Option<Self> {
        let is_spdy = |name: String| name.eq_ignore_ascii_case("SPDY/3.1");
        listed(&parts.headers, "upgrade").into_iter().any(is_spdy).then_some(())?;
        let offered = listed(&parts.headers, "x-stream-protocol-version");
        Some(Self { offered, upgrade: parts.extensions.get::<OnUpgrade>()?.clone() })
    }

    /// Accepts the upgrade, and runs a command.
    pub(crate) fn run(self, command: Command) -> Result<Response<Body>, ApiError> {
        self.accept(COMMANDS, |client| command::run(client, command))
    }

    /// Accepts the upgrade, and forwards until the client ends the connection.
    pub(crate) fn forward(self, connect: Connect) -> Result<Response<Body>, ApiError> {
        self.accept(PORTS, |client| forward::session(client, connect))
    }

    fn accept<F>(
        self,
        protocol: &'static str,
        session: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
    ) -> Result<Response<Body>, ApiError>
    where
        F: Future<Output = Result<(), BoxError>> + Send,
    {
        let Self { offered, upgrade } = self;
        if !offered.iter().any(|offered| offered.eq_ignore_ascii_case(protocol)) {
            let why = format!(
                "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server supports [{protocol:?}]"
            );
            return Err(ApiError { code: 403, ..ApiError::unexplained(why) });
        }
        tokio::spawn(async move {
            let client = match upgrade.await {
                Ok(upgraded) => TokioIo::new(upgraded),
                Err(error) => return tracing::debug!(%error, "a connection was not upgraded to SPDY"),
            };
            if let Err(error) = session(client).await {
                tracing::debug!(error, "a SPDY connection broke");
            }
        });
        let mut response = Response::new(respond::full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert("x-stream-protocol-version", HeaderValue::from_static(protocol));
        Ok(response)
    }
}

fn listed(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).map(|one| one.trim().to_owned()).collect()
}

/// What a client sends over a connection.
struct Incoming<R> {
    from: R,
    reader: Reader,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    fn new(from: R) -> Self {
        Self { from, reader: Reader::new() }
    }

    /// The next frame; `None` when the client has closed the connection.
    async fn next(&mut self) -> Result<Option<Frame>, BoxError> {
        let mut header = [0; HEADER];
        if self.from.read_exact(&mut header).await.is_err() {
            return Ok(None);
        }
        let length = frames::length(&header);
        if length > LONGEST {
            return Err(format!("a frame of {length} bytes is too long").into());
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body).await?;
        Ok(Some(self.reader.read(&header, body).ok_or("a frame is malformed")?))
    }
}

/// A connection: what the client sends, the frames that go to it, and the task that writes them.
fn opened<C>(client: C) -> (Incoming<ReadHalf<C>>, mpsc::Sender<Vec<u8>>, JoinSet<()>)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
{
    let (from, mut to) = tokio::io::split(client);
    let (frames, mut waiting) = mpsc::channel::<Vec<u8>>(BACKLOG);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(frame) = waiting.recv().await {
            if to.write_all(&frame).await.and(to.flush().await).is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    (Incoming::new(from), frames, tasks)
}

/// The frame of a client that opens stream 1 with headers that may be malformed, for fuzz targets.
pub(crate) fn opening(headers: &[u8]) -> Option<Vec<u8>> {
    frames::client::Client::with_level(Compression::fast())?.open_with(1, headers)
}

/// A header of a stream.
fn value<'a>(headers: &'a [(String, String)], wanted: &str) -> &'a str {
    let mut found = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.next().map_or("", |(_, value)| value.as_str())
}

/// Ports of a pod in tests and fuzz targets: 80 is connected to `answers`, and nothing listens on others.
pub(crate) fn pod<F>(answers: fn(DuplexStream) -> F) -> Connect
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    Box::new(move |port| {
        if port != 80 {
            return Err(format!("nothing listens on port {port}"));
        }
        let (ours, theirs) = tokio::io::duplex(1024);
        tokio::spawn(answers(ours));
        Ok(theirs)
    })
}
