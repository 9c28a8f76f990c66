//! Remote commands (`exec`, `attach`), whatever protocol carries them: connects the streams of a process with those of a client.

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;

use crate::options::{Process, Streams};

/// How much of a stream is under way.
const BUFFER: usize = 64 << 10;
/// How much output is sent at a time.
const CHUNK: usize = 16 << 10;

/// Which streams the client wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// A terminal: both outputs are one.
    pub(crate) tty: bool,
}

/// A process, and which of its streams the client wants.
pub(crate) struct Command {
    pub(crate) process: Process,
    pub(crate) wanted: Wanted,
}

/// A stream that the client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

impl Command {
    /// Starts the process. Its input is what is written to the first result; the second one sends its output, as `frame` makes
    /// frames of it, and then says how the process ended.
    pub(crate) fn start(
        self,
        frames: mpsc::Sender<Vec<u8>>,
        frame: impl Fn(Output, &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> (DuplexStream, impl Future<Output = Value> + Send) {
        let (input, stdin) = tokio::io::duplex(BUFFER);
        let (stdout, said) = tokio::io::duplex(BUFFER);
        let (stderr, complained) = tokio::io::duplex(BUFFER);
        let Self { process, wanted } = self;
        let running = process(Streams { stdin, stdout, stderr, tty: wanted.tty });
        let errors = if wanted.tty { Output::Stdout } else { Output::Stderr };
        let wants = |output| match output {
            Output::Stdout => wanted.stdout,
            Output::Stderr => wanted.stderr,
        };
        let (first, second) = (wants(Output::Stdout), wants(errors));
        let ended = async move {
            let send = async |from, output, is_wanted| {
                copy(from, is_wanted, &frames, |bytes| frame(output, bytes)).await
            };
            let (code, (), ()) =
                tokio::join!(running, send(said, Output::Stdout, first), send(complained, errors, second));
            ended(code)
        };
        (input, ended)
    }
}

/// Sends what a process writes until it closes the stream; what the client does not want is read all the same.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    is_wanted: bool,
    to: &mpsc::Sender<Vec<u8>>,
    frame: impl Fn(&[u8]) -> Vec<u8>,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        if is_wanted && to.send(frame(&chunk[..length])).await.is_err() {
            return;
        }
    }
}

/// How a command ended, in the words that clients look for.
fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}
