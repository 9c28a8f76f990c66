//! Health-check node ports: whether a node has endpoints of a Service with `externalTrafficPolicy: Local`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::{StreamExt, stream};
use nix::errno::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// The timeout of one query; a node that does not respond in time counts as without endpoints.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout of all queries to one node: a node that is slow on purpose must not delay the others.
const TIMEOUT_OF_NODE: Duration = Duration::from_secs(5);
/// The number of nodes queried concurrently, one port at a time each: every query takes a file descriptor.
const CONCURRENCY: usize = 64;
/// As much of an answer as has its status.
const STATUS_LINE: usize = b"HTTP/1.1 200".len();

/// Which of the ports have endpoints. What could not be asked is left out.
pub(crate) async fn check(targets: BTreeSet<SocketAddr>) -> BTreeMap<SocketAddr, bool> {
    let mut nodes: BTreeMap<IpAddr, Vec<SocketAddr>> = BTreeMap::new();
    for target in targets {
        nodes.entry(target.ip()).or_default().push(target);
    }
    let answers = stream::iter(nodes.into_values()).map(check_node).buffer_unordered(CONCURRENCY);
    answers.collect::<Vec<_>>().await.into_iter().flatten().collect()
}

/// Queries the ports of one node in sequence. After a timeout, the rest is not queried.
async fn check_node(targets: Vec<SocketAddr>) -> Vec<(SocketAddr, bool)> {
    let end = Instant::now() + TIMEOUT_OF_NODE;
    let (mut answers, mut is_silent) = (vec![], false);
    for target in targets {
        if is_silent {
            answers.push((target, false));
            continue;
        }
        match timeout_at(end, timeout(TIMEOUT, has_endpoints(target))).await {
            Ok(Ok(Ok(yes))) => answers.push((target, yes)),
            Ok(Ok(Err(error))) if is_ours(&error) => {
                tracing::warn!(%error, %target, "cannot query the health-check node port of a node");
            }
            Ok(Ok(Err(_))) => answers.push((target, false)),
            Ok(Err(_)) | Err(_) => {
                is_silent = true;
                answers.push((target, false));
            }
        }
    }
    answers
}

/// Whether the error is local to this machine and says nothing about the node.
fn is_ours(error: &io::Error) -> bool {
    let lacks = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM, Errno::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| lacks.iter().any(|errno| *errno as i32 == code))
}

/// What kube-proxy answers with: 200 if the node has endpoints, otherwise 503.
async fn has_endpoints(target: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(target).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut status = [0; STATUS_LINE];
    stream.read_exact(&mut status).await?;
    Ok(status.starts_with(b"HTTP/1.") && status.ends_with(b" 200"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request.
    async fn answering(with: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\n"));
            stream.write_all(with.as_bytes()).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn only_a_node_that_says_so_has_endpoints() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let yes = answering("HTTP/1.1 200 OK\r\n\r\n{}").await;
        let others = [
            answering("HTTP/1.1 503 Service Unavailable\r\n\r\n").await,
            answering("SSH-2.0-OpenSSH").await,
            answering("HTTP/1.1").await,
            closed,
        ];
        let answers = check(others.into_iter().chain([yes]).collect()).await;
        let want: BTreeMap<SocketAddr, bool> =
            others.map(|other| (other, false)).into_iter().chain([(yes, true)]).collect();
        assert_eq!(answers, want);
    }

    /// On addresses of their own, machines that accept and say nothing; how many connections each has had.
    async fn silent(last: u8, ports: usize, seen: &Arc<AtomicUsize>) -> Vec<SocketAddr> {
        let mut targets = vec![];
        for _ in 0..ports {
            let listener = TcpListener::bind((IpAddr::from([127, 0, 7, last]), 0)).await.unwrap();
            targets.push(listener.local_addr().unwrap());
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut kept = vec![];
                while let Ok((stream, _)) = listener.accept().await {
                    seen.fetch_add(1, Ordering::Relaxed);
                    kept.push(stream);
                }
            });
        }
        targets
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_silent_is_asked_once_in_a_round() {
        let seen = Arc::new(AtomicUsize::new(0));
        let targets = silent(1, 20, &seen).await;
        let answers = check(targets.iter().copied().collect()).await;
        assert_eq!(answers, targets.iter().map(|target| (*target, false)).collect());
        // The clock may have moved on before the connection was accepted.
        assert!(seen.load(Ordering::Relaxed) <= 1, "{seen:?}");
    }

    #[test]
    fn a_lack_of_descriptors_is_not_a_lack_of_endpoints() {
        let errors = [Errno::EMFILE, Errno::ENFILE, Errno::ECONNREFUSED, Errno::EHOSTUNREACH];
        let ours = errors.map(|errno| is_ours(&io::Error::from_raw_os_error(errno as i32)));
        assert_eq!(ours, [true, true, false, false]);
    }
}
