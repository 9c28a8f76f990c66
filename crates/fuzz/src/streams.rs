//! Connections that become something else than HTTP: what a client sends over them goes through the whole session, without a socket.

use std::time::Duration;

use flyball_apiserver::fuzzing as server;
use tokio::runtime::Builder;

/// What a session takes at most, of a time that passes at once. A longer one waits for something that does not come.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

const CLOSE: u8 = 8;
const PONG: u8 = 10;

fn run<T>(session: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let ended = runtime.block_on(async { tokio::time::timeout(ENDS_WITHIN, session).await });
    ended.expect("a session ends when the client hangs up")
}

/// A connection of `kubectl port-forward`. After an odd first byte come the headers of a stream, and the bytes of its connection;
/// they are compressed here, so that changes of them reach the parser.
pub(crate) fn spdy(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let sent = match kind % 2 {
        0 => rest.to_vec(),
        _ => {
            let (headers, bytes) = rest.split_at(rest.len() / 2);
            let Some(opening) = server::spdy_opening(headers) else { return };
            let [_, _, high, low] = u32::try_from(bytes.len()).unwrap_or_default().to_be_bytes();
            [&opening[..], &[0, 0, 0, 1, 1, 0, high, low], bytes].concat()
        }
    };
    run(server::spdy(&sent));
}

/// The same over a WebSocket. Whatever a client sends, it gets whole frames, one of which closes the connection. After that one there
/// are answers to pings at most.
pub(crate) fn websocket(data: &[u8]) {
    for answers in run(server::websocket(data)) {
        let mut rest = &answers[..];
        let mut is_closed = false;
        while let [first, second, tail @ ..] = rest {
            let (length, tail) = match second {
                126 => tail.split_at_checked(2).expect("a length"),
                127 => tail.split_at_checked(8).expect("a length"),
                _ => (&rest[1..2], tail),
            };
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            assert_eq!(first & 0x80, 0x80, "a server sends no message in parts");
            let kind = first & 0x0f;
            assert!(!is_closed || kind == PONG, "a frame of kind {kind} after the last one");
            (is_closed, rest) = (is_closed || kind == CLOSE, tail.get(length..).expect("a whole frame"));
        }
        assert!(is_closed && rest.is_empty(), "closed: {is_closed}, and {} bytes more", rest.len());
    }
}
