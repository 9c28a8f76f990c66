//! `exec` and `attach`: a stream for each of the streams of the command, and one that says how it ended.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::frames::{self, Frame, Writer};
use super::{Incoming, value};
use crate::http::command::{Command, Output, Wanted};
use crate::http::respond::BoxError;

/// How long a client may take to open its streams, and to close the connection in the end.
const PATIENCE: Duration = Duration::from_secs(30);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a command until it ends or the client goes, which ends it.
pub(super) async fn run(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    command: Command,
) -> Result<(), BoxError> {
    let (mut from, frames, _writing) = super::opened(client);
    let mut writer = Writer::new();
    let opened = opened(&mut from, &mut writer, &frames, command.wanted);
    let Some(streams) = tokio::time::timeout(PATIENCE, opened).await?? else { return Ok(()) };
    let stream = |kind: &str| streams.get(kind).copied().unwrap_or_default();
    let (input, stdout, stderr) = (stream("stdin"), stream("stdout"), stream("stderr"));
    let wants_input = command.wanted.stdin;
    let (mut stdin, ended) = command.start(frames.clone(), move |output, bytes| match output {
        Output::Stdout => frames::data(stdout, bytes, false),
        Output::Stderr => frames::data(stderr, bytes, false),
    });
    if !wants_input {
        let _ = stdin.shutdown().await;
    }
    let goes = async {
        while let Ok(Some(frame)) = from.next().await {
            match frame {
                Frame::Data { stream, bytes, is_last } if stream == input => {
                    // The process may have closed it.
                    let _ = stdin.write_all(&bytes).await;
                    if is_last {
                        let _ = stdin.shutdown().await;
                    }
                }
                Frame::Ping { id } => drop(frames.send(frames::pong(id)).await),
                // The size of a terminal, and streams that nobody asked for.
                _ => {}
            }
        }
    };
    let status = tokio::select! {
        biased;
        status = ended => status,
        () = goes => return Ok(()),
    };
    for (kind, stream) in &streams {
        let text = if kind == "error" { status.to_string() } else { String::new() };
        let _ = frames.send(frames::data(*stream, text.as_bytes(), true)).await;
    }
    drop(frames);
    // What is waiting is written; then the client closes the connection.
    let hangs_up = async { while let Ok(Some(_)) = from.next().await {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, hangs_up).await;
    Ok(())
}

/// The streams by their types, once the client has opened all that it wants; `None` if it goes before that.
async fn opened(
    from: &mut Incoming<impl AsyncRead + Unpin>,
    writer: &mut Writer,
    frames: &mpsc::Sender<Vec<u8>>,
    wanted: Wanted,
) -> Result<Option<HashMap<String, u32>>, BoxError> {
    let mut streams = HashMap::new();
    loop {
        let Some(frame) = from.next().await? else { return Ok(None) };
        match frame {
            Frame::Open { stream, headers, .. } => {
                frames.send(writer.reply(stream)).await?;
                streams.insert(value(&headers, "streamtype").to_owned(), stream);
            }
            Frame::Ping { id } => frames.send(frames::pong(id)).await?,
            _ => {}
        }
        let needed = [
            ("error", true),
            ("stdin", wanted.stdin),
            ("stdout", wanted.stdout),
            ("stderr", wanted.stderr && !wanted.tty),
            ("resize", wanted.tty),
        ];
        if needed.iter().all(|(kind, is_needed)| !is_needed || streams.contains_key(*kind)) {
            return Ok(Some(streams));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::super::frames::HEADER;
    use super::super::frames::client::Client;
    use super::*;
    use crate::options::Ran;

    #[tokio::test]
    async fn output_and_status_have_streams_of_their_own() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let process = Ran { stdout: "hello".to_owned(), stderr: "oh".to_owned(), code: 1 }.process();
        let wanted = Wanted { stdout: true, stderr: true, ..Wanted::default() };
        let running = tokio::spawn(run(server, Command { process, wanted }));
        let mut opening = Client::new();
        for (stream, kind) in [(1, "error"), (3, "stdout"), (5, "stderr")] {
            client.write_all(&opening.open(stream, &[("streamtype", kind)])).await.unwrap();
        }
        let mut said = HashMap::<u32, String>::new();
        let mut open = 3;
        while open > 0 {
            let mut header = [0; HEADER];
            client.read_exact(&mut header).await.unwrap();
            let mut body = vec![0; frames::length(&header)];
            client.read_exact(&mut body).await.unwrap();
            if header[0] == 0 {
                let stream = u32::from_be_bytes(header[..4].try_into().unwrap());
                said.entry(stream).or_default().push_str(std::str::from_utf8(&body).unwrap());
                open -= i32::from(header[4] == 1);
            }
        }
        assert_eq!((said[&3].as_str(), said[&5].as_str()), ("hello", "oh"));
        assert!(said[&1].contains("NonZeroExitCode"), "{said:?}");
        drop(client);
        running.await.unwrap().unwrap();
    }
}
