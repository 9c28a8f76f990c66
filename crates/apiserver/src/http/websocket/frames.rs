//! Frames of WebSockets (RFC 6455): messages of clients, put together from their frames, and frames of ours.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::http::respond::BoxError;

/// Frames that wait for the client to read them.
const BACKLOG: usize = 16;
/// The longest message that is accepted.
const LONGEST: usize = 1 << 20;
/// How long a client may take to close the connection after our close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Status 1000: normal closure.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// The frames that go to the client. A task writes them.
pub(super) struct Writer {
    pub(super) frames: mpsc::Sender<Vec<u8>>,
    writing: JoinHandle<()>,
}

impl Writer {
    pub(super) fn new(mut to: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (frames, mut waiting) = mpsc::channel::<Vec<u8>>(BACKLOG);
        let writing = tokio::spawn(async move {
            while let Some(frame) = waiting.recv().await {
                if to.write_all(&frame).await.and(to.flush().await).is_err() {
                    return;
                }
            }
            let _ = to.shutdown().await;
        });
        Self { frames, writing }
    }

    /// Ends the connection: what is waiting is sent, then a close frame; then the client has some time to close it.
    pub(super) async fn close(self, mut client: Reader<impl AsyncRead + Unpin>) -> Result<(), BoxError> {
        let Self { frames, mut writing } = self;
        let farewell = async {
            // The client may be gone already.
            let _ = frames.send(frame(CLOSE, &NORMAL)).await;
            while let Ok(Some(_)) = client.message(&frames).await {}
            drop(frames);
            (&mut writing).await
        };
        match tokio::time::timeout(CLOSE_TIMEOUT, farewell).await {
            Ok(ended) => Ok(ended?),
            Err(_) => {
                // It reads nothing, or does not hang up.
                writing.abort();
                Ok(())
            }
        }
    }
}

/// A binary message.
pub(super) fn binary(payload: &[u8]) -> Vec<u8> {
    frame(BINARY, payload)
}

/// One frame, unmasked, as frames of servers are.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![FIN | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..=125), _) => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

/// What the client sends.
pub(super) struct Reader<R> {
    from: R,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from }
    }

    /// The next message; `None` when the client has closed the connection. Pings are answered.
    pub(super) async fn message(
        &mut self,
        answers: &mpsc::Sender<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        let mut message = Vec::new();
        loop {
            let Some((head, payload)) = self.frame(LONGEST - message.len()).await? else { return Ok(None) };
            match head & 0x0f {
                CONTINUED | TEXT | BINARY => {
                    message.extend(payload);
                    if head & FIN != 0 {
                        return Ok(Some(message));
                    }
                }
                PING => answers.send(frame(PONG, &payload)).await?,
                CLOSE => return Ok(None),
                _ => {}
            }
        }
    }

    /// The first byte of a frame, and its payload.
    async fn frame(&mut self, longest: usize) -> Result<Option<(u8, Vec<u8>)>, BoxError> {
        let mut head = [0; 2];
        if self.from.read_exact(&mut head).await.is_err() {
            return Ok(None);
        }
        let [first, second] = head;
        let length = match second & !MASKED {
            126 => u64::from(self.from.read_u16().await?),
            127 => self.from.read_u64().await?,
            short => u64::from(short),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= longest);
        let length = length.ok_or_else(|| format!("a message of more than {LONGEST} bytes is too long"))?;
        if second & MASKED == 0 {
            return Err("a frame of a client is not masked".into());
        }
        let mut mask = [0; 4];
        self.from.read_exact(&mut mask).await?;
        let mut payload = vec![0; length];
        self.from.read_exact(&mut payload).await?;
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        Ok(Some((first, payload)))
    }
}

/// The other side, for tests.
#[cfg(test)]
pub(super) mod client {
    use super::*;

    /// A masked frame with a message.
    pub(in super::super) fn message(payload: &[u8]) -> Vec<u8> {
        masked(FIN | BINARY, payload)
    }

    pub(super) fn masked(head: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [7, 11, 13, 17];
        let mut frame = frame(0, payload);
        let start = frame.len() - payload.len();
        frame[0] = head;
        frame[1] |= MASKED;
        for (at, byte) in frame[start..].iter_mut().enumerate() {
            *byte ^= mask[at % 4];
        }
        frame.splice(start..start, mask);
        frame
    }

    /// The payload of the next message of a server; `None` if it closes the connection.
    pub(in super::super) async fn next(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
        let mut head = [0; 2];
        from.read_exact(&mut head).await.ok()?;
        let length = match head[1] {
            126 => usize::from(from.read_u16().await.ok()?),
            127 => usize::try_from(from.read_u64().await.ok()?).ok()?,
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await.ok()?;
        (head[0] & 0x0f != CLOSE).then_some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_their_length() {
        #[rustfmt::skip]
        let table: [(usize, &[u8]); 5] = [
            (0,      &[0x82, 0]),
            (125,    &[0x82, 125]),
            (126,    &[0x82, 126, 0, 126]),
            (65_535, &[0x82, 126, 255, 255]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ];
        for (length, head) in table {
            let frame = binary(&vec![7; length]);
            assert_eq!((&frame[..head.len()], frame.len()), (head, head.len() + length), "{length} bytes");
        }
    }

    #[tokio::test]
    async fn messages_are_put_together_and_pings_answered() {
        let mut sent = client::masked(BINARY, b"he");
        sent.extend(client::masked(FIN | PING, b"?"));
        sent.extend(client::masked(FIN | CONTINUED, b"llo"));
        sent.extend(client::masked(FIN | BINARY, &vec![9; 70_000]));
        sent.extend(client::masked(FIN | CLOSE, &NORMAL));
        let (answers, mut answered) = mpsc::channel(4);
        let mut reader = Reader::new(sent.as_slice());
        assert_eq!(reader.message(&answers).await.unwrap().unwrap(), b"hello");
        assert_eq!(answered.try_recv().unwrap(), [FIN | PONG, 1, b'?']);
        assert_eq!(reader.message(&answers).await.unwrap().unwrap().len(), 70_000);
        assert!(reader.message(&answers).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_too_long_or_not_masked_is_refused() {
        let (answers, _answered) = mpsc::channel(4);
        let long = [0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0];
        for sent in [&long[..], &[0x82, 1, 0]] {
            assert!(Reader::new(sent).message(&answers).await.is_err(), "{sent:?}");
        }
    }
}
