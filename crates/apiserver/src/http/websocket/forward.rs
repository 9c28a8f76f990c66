//! `portforward` over a WebSocket, in both protocols: a tunnel for SPDY, which kubectl uses, and two channels for each port, which
//! libraries of other languages use.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::frames::{Reader, Writer, binary};
use crate::http::respond::BoxError;
use crate::http::spdy::{self, Connect};

/// The messages are the bytes of a SPDY connection.
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The first byte of each message is its channel: two for each port, one for its bytes and one for an error.
pub(super) const CHANNELS: &str = "v4.channel.k8s.io";

/// How much of a connection is under way.
const BUFFER: usize = 64 << 10;
/// How much of an answer is sent at a time.
const CHUNK: usize = 16 << 10;

/// Forwards until the client ends the connection.
pub(crate) async fn tunnel(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    connect: Connect,
) -> Result<(), BoxError> {
    let (from, to) = tokio::io::split(client);
    let (mut from, to) = (Reader::new(from), Writer::new(to));
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (mut answers, mut requests) = tokio::io::split(ours);
    let asks = async {
        while let Some(message) = from.message(&to.frames).await? {
            requests.write_all(&message).await?;
        }
        requests.shutdown().await?;
        Ok::<_, BoxError>(())
    };
    let says = async {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = answers.read(&mut chunk).await {
            to.frames.send(binary(&chunk[..length])).await?;
        }
        Ok::<_, BoxError>(())
    };
    let session = spdy::session(theirs, connect);
    let ended = tokio::select! {
        biased;
        ended = session => ended,
        ended = asks => ended,
        ended = says => ended,
    };
    ended.and(to.close(from).await)
}

/// Forwards one connection to each of the ports.
pub(crate) async fn channels(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    connect: Connect,
    ports: Vec<u16>,
) -> Result<(), BoxError> {
    let (from, to) = tokio::io::split(client);
    let (mut from, to) = (Reader::new(from), Writer::new(to));
    let mut pods: Vec<Option<WriteHalf<DuplexStream>>> = Vec::new();
    let mut answering = JoinSet::new();
    for (at, port) in (0_u8..).zip(ports.iter().take(usize::from(u8::MAX / 2))) {
        let (data, error) = (2 * at, 2 * at + 1);
        for channel in [data, error] {
            to.frames.send(message(channel, &port.to_le_bytes())).await?;
        }
        pods.push(match connect(*port) {
            Ok(pod) => {
                let (answers, requests) = tokio::io::split(pod);
                answering.spawn(send(answers, data, to.frames.clone()));
                Some(requests)
            }
            Err(why) => {
                to.frames.send(message(error, why.as_bytes())).await?;
                None
            }
        });
    }
    let asks = async {
        while let Some(message) = from.message(&to.frames).await? {
            let Some((channel, bytes)) = message.split_first() else { continue };
            // Channels of errors are only read by clients.
            let pod = pods.get_mut(usize::from(channel / 2)).filter(|_| channel % 2 == 0);
            if let Some(Some(pod)) = pod {
                // A pod that has hung up reads no more.
                let _ = pod.write_all(bytes).await;
            }
        }
        Ok::<_, BoxError>(())
    };
    let all_said = async { while answering.join_next().await.is_some() {} };
    let ended = tokio::select! {
        biased;
        () = all_said => Ok(()),
        ended = asks => ended,
    };
    // They have the way to the client, too.
    drop(answering);
    ended.and(to.close(from).await)
}

fn message(channel: u8, bytes: &[u8]) -> Vec<u8> {
    binary(&[&[channel], bytes].concat())
}

/// Sends what a pod answers.
async fn send(mut answers: impl AsyncRead + Unpin, channel: u8, frames: mpsc::Sender<Vec<u8>>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = answers.read(&mut chunk).await {
        if frames.send(message(channel, &chunk[..length])).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::client;
    use super::*;

    /// Repeats one message.
    async fn repeat(mut client: DuplexStream) -> std::io::Result<()> {
        let mut heard = [0; 64];
        let length = client.read(&mut heard).await?;
        client.write_all(&heard[..length]).await
    }

    #[tokio::test]
    async fn ports_have_two_channels_each() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(channels(server, spdy::pod(repeat), vec![80, 81]));
        let mut said = async || client::next(&mut client).await.unwrap();
        for (channel, port) in [(0, 80), (1, 80), (2, 81), (3, 81)] {
            assert_eq!(said().await, [channel, port, 0]);
        }
        assert_eq!(said().await, b"\x03nothing listens on port 81");
        client.write_all(&client::message(b"\0hello")).await.unwrap();
        assert_eq!(client::next(&mut client).await.unwrap(), b"\0hello");
        assert_eq!(client::next(&mut client).await, None);
        drop(client);
        serving.await.unwrap().unwrap();
    }
}
