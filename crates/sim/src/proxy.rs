//! A bad network for tests: a TCP proxy whose connections can be delayed, closed, reset or blackholed, each by itself and in
//! each direction.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens to the bytes of one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Pass,
    Delay(Duration),
    /// Passes nothing, without an error. Bytes are held until it passes again.
    Blackhole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Cut,
    Reset,
}

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug, Clone, Copy)]
struct State {
    to_server: Flow,
    to_client: Flow,
    end: Option<End>,
}

impl State {
    fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }
}

/// One connection through the proxy.
pub struct Link {
    state: watch::Sender<State>,
    carried: AtomicU64,
    open: AtomicBool,
}

impl Link {
    /// Sets the flow of one direction.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.state.send_modify(|state| match direction {
            Direction::ToServer => state.to_server = flow,
            Direction::ToClient => state.to_client = flow,
        });
    }

    /// Blackholes both directions.
    pub fn blackhole(&self) {
        self.set(Direction::ToServer, Flow::Blackhole);
        self.set(Direction::ToClient, Flow::Blackhole);
    }

    pub fn cut(&self) {
        self.state.send_modify(|state| state.end = Some(End::Cut));
    }

    pub fn reset(&self) {
        self.state.send_modify(|state| state.end = Some(End::Reset));
    }

    /// Bytes passed so far, both ways.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

/// A listener on loopback that forwards to one server; gone when dropped, with all its connections.
pub struct Proxy {
    address: SocketAddr,
    links: Arc<Mutex<Vec<Arc<Link>>>>,
    is_blackhole: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts to forward connections to `server`.
    pub async fn start(server: SocketAddr) -> std::io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), server).await
    }

    /// The same at another address of this machine.
    pub async fn start_at(own: SocketAddr, server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(own).await?;
        let address = listener.local_addr()?;
        let links = Arc::new(Mutex::new(vec![]));
        let is_blackhole = Arc::new(AtomicBool::new(false));
        let (known, swallows) = (Arc::clone(&links), Arc::clone(&is_blackhole));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut running = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let flow = if swallows.load(Ordering::Relaxed) { Flow::Blackhole } else { Flow::Pass };
                let state = State { to_server: flow, to_client: flow, end: None };
                let link = Arc::new(Link {
                    state: watch::Sender::new(state),
                    carried: AtomicU64::new(0),
                    open: AtomicBool::new(true),
                });
                known.lock().push(Arc::clone(&link));
                running.spawn(async move {
                    // If the server cannot be reached, the connection is closed, as without the proxy.
                    let _ = carry(client, server, &link).await;
                    link.open.store(false, Ordering::Relaxed);
                });
            }
        });
        Ok(Self { address, links, is_blackhole, _tasks: tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Blackholes all connections, those to come included.
    pub fn blackhole(&self) {
        self.is_blackhole.store(true, Ordering::Relaxed);
        self.links().iter().for_each(|link| link.blackhole());
    }

    /// The open connections, oldest first. A blackholed one counts as open.
    pub fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().iter().filter(|link| link.open.load(Ordering::Relaxed)).cloned().collect()
    }

    /// The open connection that has passed the most bytes.
    pub fn busiest(&self) -> Option<Arc<Link>> {
        self.links().into_iter().max_by_key(|link| link.carried())
    }

    /// The number of connections so far.
    pub fn accepted(&self) -> usize {
        self.links.lock().len()
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, link: &Link) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut state = link.state.subscribe();
    {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::join!(
                one_way(from_client, to_server, Direction::ToServer, link),
                one_way(from_server, to_client, Direction::ToClient, link),
            )
        };
        tokio::select! {
            _ = both => {}
            _ = state.wait_for(|state| state.end.is_some()) => {}
        }
    }
    if link.state.borrow().end == Some(End::Reset) {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    Ok(())
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    link: &Link,
) {
    let mut state = link.state.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let flow = state.borrow().flow(direction);
        if let Flow::Delay(time) = flow {
            tokio::time::sleep(time).await;
        }
        // The end of a blackholed connection is not passed on either.
        if state.wait_for(|state| state.flow(direction) != Flow::Blackhole).await.is_err() {
            return;
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(buffer.get(..read).unwrap_or_default()).await.is_err() {
            return;
        }
        link.carried.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = tcp.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        address
    }

    async fn says(tcp: &mut TcpStream, word: &[u8]) -> std::io::Result<Vec<u8>> {
        tcp.write_all(word).await?;
        let mut answer = vec![0; word.len()];
        tcp.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_blackholed_connection_holds_everything_and_others_go_on() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut first = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(says(&mut first, b"hello").await.unwrap(), b"hello");
        let link = proxy.busiest().unwrap();
        for direction in [Direction::ToServer, Direction::ToClient] {
            link.set(direction, Flow::Blackhole);
            let waiting = says(&mut first, b"anybody");
            assert!(tokio::time::timeout(Duration::from_millis(200), waiting).await.is_err());
            let mut second = TcpStream::connect(proxy.address()).await.unwrap();
            assert_eq!(says(&mut second, b"me").await.unwrap(), b"me");
            link.set(direction, Flow::Pass);
            let mut held = [0; 7];
            first.read_exact(&mut held).await.unwrap();
            assert_eq!(&held, b"anybody");
        }
        link.set(Direction::ToClient, Flow::Delay(Duration::from_millis(1)));
        assert_eq!(says(&mut first, b"later").await.unwrap(), b"later");
    }

    #[tokio::test]
    async fn connections_end_in_both_ways() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        for reset in [false, true] {
            let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
            says(&mut tcp, b"hello").await.unwrap();
            let link = proxy.links().pop().unwrap();
            if reset {
                link.reset()
            } else {
                link.cut()
            }
            let ended = tcp.read(&mut [0; 1]).await;
            match reset {
                false => assert_eq!(ended.unwrap(), 0),
                true => assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset),
            }
        }
        assert_eq!(proxy.accepted(), 2);
    }
}
