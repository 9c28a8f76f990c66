//! `exec` and `attach` over a WebSocket: the first byte of each message is its channel.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::frames::{Reader, Writer, binary};
use crate::http::command::{Command, Output};
use crate::http::respond::BoxError;

pub(super) const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// How the command ended, as a `Status`.
const ERROR: u8 = 3;
/// The client closes the channel that follows; since version 5.
const CLOSED: u8 = 255;

/// Runs a command until it ends or the client goes, which ends it.
pub(super) async fn run(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    command: Command,
) -> Result<(), BoxError> {
    let (from, to) = tokio::io::split(client);
    let (mut from, to) = (Reader::new(from), Writer::new(to));
    let message = |channel: u8, bytes: &[u8]| binary(&[&[channel], bytes].concat());
    let wants_input = command.wanted.stdin;
    let (mut stdin, ended) = command.start(to.frames.clone(), move |output, bytes| match output {
        Output::Stdout => message(STDOUT, bytes),
        Output::Stderr => message(STDERR, bytes),
    });
    if !wants_input {
        let _ = stdin.shutdown().await;
    }
    let goes = async {
        while let Ok(Some(message)) = from.message(&to.frames).await {
            match message[..] {
                // The process may have closed it.
                [STDIN, ref bytes @ ..] => drop(stdin.write_all(bytes).await),
                [CLOSED, STDIN, ..] => drop(stdin.shutdown().await),
                // The size of a terminal, or an empty message.
                _ => {}
            }
        }
    };
    let status = tokio::select! {
        biased;
        status = ended => Some(status),
        () = goes => None,
    };
    if let Some(status) = status {
        // The client may just have gone.
        let _ = to.frames.send(message(ERROR, status.to_string().as_bytes())).await;
    }
    to.close(from).await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::super::frames::client::{message, next};
    use super::*;
    use crate::http::command::Wanted;
    use crate::options::{Process, Streams};

    /// Repeats its input in capitals, and fails.
    fn shout() -> Process {
        Box::new(|mut streams: Streams| {
            Box::pin(async move {
                let mut heard = vec![0; 64];
                while let Ok(length @ 1..) = streams.stdin.read(&mut heard).await {
                    streams.stdout.write_all(&heard[..length].to_ascii_uppercase()).await.unwrap();
                }
                streams.stderr.write_all(b"bye").await.unwrap();
                3
            })
        })
    }

    #[tokio::test]
    async fn input_reaches_the_process_and_output_the_client() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };
        let running = tokio::spawn(run(server, Command { process: shout(), wanted }));
        for word in ["one", "two"] {
            client.write_all(&message(format!("\0{word}").as_bytes())).await.unwrap();
            assert_eq!(next(&mut client).await.unwrap(), format!("\u{1}{}", word.to_uppercase()).as_bytes());
        }
        client.write_all(&message(&[CLOSED, STDIN])).await.unwrap();
        assert_eq!(next(&mut client).await.unwrap(), b"\x02bye");
        let status = next(&mut client).await.unwrap();
        assert_eq!(status[0], ERROR);
        let status: serde_json::Value = serde_json::from_slice(&status[1..]).unwrap();
        assert_eq!(status["details"]["causes"][0]["message"], "3");
        assert_eq!(next(&mut client).await, None);
        drop(client);
        running.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_command_ends_when_its_client_goes() {
        let (client, server) = tokio::io::duplex(64 << 10);
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let process: Process = Box::new(move |_| {
            Box::pin(async move {
                let _held = held;
                std::future::pending().await
            })
        });
        let running = tokio::spawn(run(server, Command { process, wanted: Wanted::default() }));
        drop(client);
        running.await.unwrap().unwrap();
        assert!(dropped.await.is_err());
    }
}
