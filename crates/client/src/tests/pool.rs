use hyper_util::rt::TokioIo;

use super::*;

/// An idle connection that was opened with credentials of this generation. The other end stays open as long as the second is held.
async fn idle(tls_generation: u64) -> (Http1, tokio::io::DuplexStream) {
    let (near, far) = tokio::io::duplex(1024);
    let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap();
    (Http1 { sender, tls_generation }, far)
}

#[tokio::test]
async fn a_request_takes_an_idle_connection_of_its_own_credentials_and_drops_only_older_ones() {
    let mut open = Open::default();
    let mut servers = vec![];
    for generation in [1, 2, 3] {
        let (connection, server) = idle(generation).await;
        open.idle.push(connection);
        servers.push(server);
    }
    let generations = |open: &Open| open.idle.iter().map(|c| c.tls_generation).collect::<Vec<_>>();
    assert_eq!(open.idle(2).map(|c| c.tls_generation), Some(2));
    assert_eq!(generations(&open), [3], "the older one is of no use to anybody");
    // Its credentials were replaced while it waited for a slot.
    assert!(open.idle(2).is_none());
    assert_eq!(generations(&open), [3]);
    drop(servers);
    tokio::task::yield_now().await;
    assert!(open.idle(3).is_none(), "the server has closed it");
}
