//! `portforward`: a pair of streams for each connection that is forwarded, one for its bytes and one for an error.

use std::collections::HashMap;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, WriteHalf};
use tokio::sync::mpsc;

use super::frames::{self, Frame, Writer};
use super::{Connect, opened, value};
use crate::http::respond::BoxError;

/// Streams of one connection that are open at once.
const MOST_STREAMS: usize = 256;
/// How much of an answer is sent at a time.
const CHUNK: usize = 16 << 10;

/// A connection: one task writes, this one reads, and one for each forwarded connection waits for answers.
pub(crate) async fn session(
    client: impl AsyncRead + AsyncWrite + Send + 'static,
    connect: Connect,
) -> Result<(), BoxError> {
    let (mut from, frames, mut tasks) = opened(client);
    let mut session = Session {
        connect,
        frames,
        writer: Writer::new(),
        streams: HashMap::new(),
        errors: HashMap::new(),
        answering: 0,
    };
    while let Some(frame) = from.next().await? {
        // Those that have ended.
        while tasks.try_join_next().is_some() {}
        session.answering = tasks.len();
        if let Some(answers) = session.take(frame).await? {
            tasks.spawn(answers);
        }
    }
    Ok(())
}

struct Session {
    connect: Connect,
    frames: mpsc::Sender<Vec<u8>>,
    writer: Writer,
    /// The ends of forwarded connections that the client's bytes go to.
    streams: HashMap<u32, WriteHalf<DuplexStream>>,
    /// The streams for errors that wait for the stream with the bytes, by the id of their request.
    errors: HashMap<String, u32>,
    /// How many connections have not answered completely.
    answering: usize,
}

impl Session {
    /// Acts on a frame. A new connection has a task that sends its answers.
    async fn take(&mut self, frame: Frame) -> Result<Option<BoxFuture<'static, ()>>, BoxError> {
        match frame {
            Frame::Open { stream, headers, .. } => return self.open(stream, &headers).await,
            Frame::Data { stream, bytes, is_last } => {
                // Of a stream that has ended: the client does not know yet.
                let Some(pod) = self.streams.get_mut(&stream) else { return Ok(None) };
                let is_broken = pod.write_all(&bytes).await.is_err();
                if is_last || is_broken {
                    let _ = pod.shutdown().await;
                    self.streams.remove(&stream);
                }
            }
            Frame::Reset { stream } => {
                self.streams.remove(&stream);
                self.errors.retain(|_, error| *error != stream);
            }
            Frame::Ping { id } => self.frames.send(frames::pong(id)).await?,
            Frame::GoAway | Frame::Other => {}
        }
        Ok(None)
    }

    async fn open(
        &mut self,
        stream: u32,
        headers: &[(String, String)],
    ) -> Result<Option<BoxFuture<'static, ()>>, BoxError> {
        let value = |wanted: &str| value(headers, wanted);
        if self.answering.max(self.streams.len()) + self.errors.len() >= MOST_STREAMS {
            self.frames.send(frames::reset(stream)).await?;
            return Ok(None);
        }
        self.frames.send(self.writer.reply(stream)).await?;
        let request = value("requestID").to_owned();
        if value("streamType") == "error" {
            self.errors.insert(request, stream);
            return Ok(None);
        }
        let errors = self.errors.remove(&request);
        let connected = match value("port").parse() {
            Ok(port) => (self.connect)(port),
            Err(_) => Err(format!("{:?} is not a port", value("port"))),
        };
        let frames = self.frames.clone();
        match connected {
            Ok(pod) => {
                let (answers, requests) = tokio::io::split(pod);
                self.streams.insert(stream, requests);
                Ok(Some(Box::pin(send(answers, stream, errors, frames))))
            }
            Err(why) => {
                if let Some(errors) = errors {
                    frames.send(frames::data(errors, why.as_bytes(), true)).await?;
                }
                frames.send(frames::data(stream, &[], true)).await?;
                Ok(None)
            }
        }
    }
}

/// Sends what the pod answers, then ends both streams of the connection.
async fn send(
    mut answers: impl AsyncRead + Unpin,
    stream: u32,
    errors: Option<u32>,
    frames: mpsc::Sender<Vec<u8>>,
) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = answers.read(&mut chunk).await {
        if frames.send(frames::data(stream, &chunk[..length], false)).await.is_err() {
            return;
        }
    }
    for ended in [Some(stream), errors].into_iter().flatten() {
        let _ = frames.send(frames::data(ended, &[], true)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::HEADER;
    use super::super::frames::client::Client;
    use super::super::pod;
    use super::*;

    /// Answers with what it was told, once it has been told everything.
    async fn repeat(mut client: DuplexStream) -> std::io::Result<()> {
        let mut said = String::new();
        client.read_to_string(&mut said).await?;
        client.write_all(format!("you said {said}").as_bytes()).await
    }

    /// The data frames that arrive until both streams have ended: what they say, by stream.
    async fn said(client: &mut DuplexStream, wanted: [u32; 2]) -> [String; 2] {
        let (mut texts, mut ended) = (HashMap::<u32, Vec<u8>>::new(), vec![]);
        while !wanted.iter().all(|stream| ended.contains(stream)) {
            let mut header = [0; HEADER];
            client.read_exact(&mut header).await.unwrap();
            let mut body = vec![0; frames::length(&header)];
            client.read_exact(&mut body).await.unwrap();
            if header[0] == 0 {
                let stream = u32::from_be_bytes(header[..4].try_into().unwrap());
                texts.entry(stream).or_default().extend(body);
                ended.extend((header[4] == 1).then_some(stream));
            }
        }
        wanted.map(|stream| String::from_utf8(texts.remove(&stream).unwrap()).unwrap())
    }

    #[tokio::test]
    async fn connections_are_forwarded_side_by_side_and_errors_are_told() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(session(server, pod(repeat)));
        let mut frames = Client::new();
        for (request, port) in [(0, "80"), (1, "81"), (2, "80")] {
            let [id, error, data] = [request, 4 * request + 1, 4 * request + 3].map(|n: u32| n);
            for (stream, kind) in [(error, "error"), (data, "data")] {
                let headers = [("streamtype", kind), ("port", port), ("requestid", &id.to_string())];
                client.write_all(&frames.open(stream, &headers)).await.unwrap();
            }
        }
        client.write_all(&frames::data(3, b"one", true)).await.unwrap();
        client.write_all(&frames::data(11, b"three", true)).await.unwrap();
        assert_eq!(said(&mut client, [7, 5]).await, ["", "nothing listens on port 81"]);
        let both = [said(&mut client, [3, 1]).await, said(&mut client, [11, 9]).await];
        assert_eq!(both, [["you said one", ""], ["you said three", ""]]);
        drop(client);
        serving.await.unwrap().unwrap();
    }
}
