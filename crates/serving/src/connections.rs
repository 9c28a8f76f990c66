//! The open connections: timeouts, and which one is closed when there are too many.
//!
//! A new connection is always accepted. At the limit, it replaces the connection that has been idle for longest, of the
//! address that has the most: clients that hold connections open displace each other, not the kubelet's probe.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::{sync::Notify, task::AbortHandle, time::Instant};

/// The maximum number of connections. Few legitimate clients exist, and each connection may take some 100 kB.
const MOST: usize = 500;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Upstream: apiserver/pkg/server/secure_serving.go, ReadHeaderTimeout.
const HEADERS_WITHIN: Duration = Duration::from_secs(32);
/// Upstream: the same, IdleTimeout.
const IDLE_AT_MOST: Duration = Duration::from_secs(90);
/// How long running requests may take when a connection begins to close.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    /// Between requests, or while requests are processed.
    Open,
    /// The head of an HTTP/1.1 request has begun to arrive.
    Header,
    /// No more requests are accepted.
    Closing,
}

/// What to do with a connection that took too long.
#[derive(Debug, PartialEq, Eq)]
enum Overdue {
    /// Notify the client, and let running requests finish.
    Retire,
    Abort,
}

fn overdue(phase: Phase, quiet: Duration) -> Option<Overdue> {
    let (limit, then) = match phase {
        Phase::Handshake => (HANDSHAKE_WITHIN, Overdue::Abort),
        Phase::Open => (IDLE_AT_MOST, Overdue::Retire),
        Phase::Header => (HEADERS_WITHIN, Overdue::Abort),
        Phase::Closing => (CLOSED_WITHIN, Overdue::Abort),
    };
    (quiet > limit).then_some(then)
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    phase: Phase,
    /// When the phase, or a request in it, began or ended.
    since: Instant,
    task: Option<AbortHandle>,
    retire: Arc<Notify>,
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    open: Mutex<FxHashMap<u64, Connection>>,
    next: AtomicU64,
    most: usize,
}

impl Connections {
    pub(super) fn new() -> Arc<Self> {
        Self::at_most(MOST.min(open_files().unwrap_or(usize::MAX) / 2).max(1))
    }

    pub(super) fn at_most(most: usize) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), next: AtomicU64::new(0), most })
    }

    /// Adds a connection, closing another one at the limit.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Arc<ConnectionGuard> {
        let retire = Arc::new(Notify::new());
        let (address, since) = (origin(address), Instant::now());
        let connection =
            Connection { address, phase: Phase::Handshake, since, task: None, retire: retire.clone() };
        let mut open = self.open.lock();
        while open.len() >= self.most && evict(&mut open) {}
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(id, connection);
        Arc::new(ConnectionGuard { connections: self.clone(), id, retire })
    }

    /// Sets the task that serves a connection, so that it can be aborted.
    pub(super) fn served_by(&self, id: u64, task: AbortHandle) {
        match self.open.lock().get_mut(&id) {
            Some(connection) => connection.task = Some(task),
            None => task.abort(),
        }
    }

    /// Closes one connection, to free its descriptor.
    pub(super) fn evict_one(&self) {
        evict(&mut self.open.lock());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.lock().is_empty()
    }

    /// Ends connections that take too long.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.open.lock().retain(|_, connection| {
            match overdue(connection.phase, now.duration_since(connection.since)) {
                None => true,
                Some(Overdue::Retire) => {
                    (connection.phase, connection.since) = (Phase::Closing, now);
                    connection.retire.notify_one();
                    true
                }
                Some(Overdue::Abort) => {
                    abort(connection);
                    false
                }
            }
        });
    }
}

fn abort(connection: &Connection) {
    if let Some(task) = &connection.task {
        task.abort();
    }
}

fn evict(open: &mut FxHashMap<u64, Connection>) -> bool {
    let mut held: HashMap<IpAddr, usize> = HashMap::new();
    for connection in open.values() {
        *held.entry(connection.address).or_default() += 1;
    }
    let expendable =
        |connection: &Connection| (Reverse(held.get(&connection.address).copied()), connection.since);
    let victim = open.iter().min_by_key(|(_, connection)| expendable(connection)).map(|(id, _)| *id);
    let Some(connection) = victim.and_then(|id| open.remove(&id)) else { return false };
    abort(&connection);
    true
}

/// The client: its address; for IPv6 its /64 network, since one host may have all addresses of it.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// How many files this process may open. Half of them are reserved for its own use, such as connections to the API server.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// One connection; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    id: u64,
    retire: Arc<Notify>,
}

impl ConnectionGuard {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The handshake is complete. The first HTTP/1.1 request is expected at once, as in upstream.
    pub(super) fn open(&self, speaks_http2: bool) {
        self.change(|connection| {
            connection.phase = if speaks_http2 { Phase::Open } else { Phase::Header };
            true
        });
    }

    /// Bytes of an HTTP/1.1 request have arrived.
    pub(super) fn reading(&self) {
        self.change(|connection| {
            let begins = connection.phase == Phase::Open;
            if begins {
                connection.phase = Phase::Header;
            }
            begins
        });
    }

    /// The headers of a request are complete; `None` if the connection is closing. The request ends when the returned value is
    /// dropped.
    pub(super) fn serve(self: &Arc<Self>) -> Option<Served> {
        let mut is_taken = false;
        self.change(|connection| {
            is_taken = connection.phase != Phase::Closing;
            if is_taken {
                connection.phase = Phase::Open;
            }
            is_taken
        });
        is_taken.then(|| Served(self.clone()))
    }

    pub(super) fn close(&self) {
        self.change(|connection| {
            let begins = connection.phase != Phase::Closing;
            connection.phase = Phase::Closing;
            begins
        });
        self.retire.notify_one();
    }

    /// Completes when the connection has to close.
    pub(super) async fn retired(&self) {
        self.retire.notified().await;
    }

    /// `change` returns whether the timeout starts again.
    fn change(&self, change: impl FnOnce(&mut Connection) -> bool) {
        if let Some(connection) = self.connections.open.lock().get_mut(&self.id)
            && change(connection)
        {
            connection.since = Instant::now();
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.id);
    }
}

#[derive(Debug)]
pub(super) struct Served(Arc<ConnectionGuard>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.change(|connection| connection.phase != Phase::Closing);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn every_phase_has_a_timeout() {
        #[rustfmt::skip]
        let table = [
            // phase             quiet  then
            (Phase::Handshake,      10, None),
            (Phase::Handshake,      11, Some(Overdue::Abort)),
            (Phase::Header,         32, None),
            (Phase::Header,         33, Some(Overdue::Abort)),
            (Phase::Open,           90, None),
            (Phase::Open,           91, Some(Overdue::Retire)),
            (Phase::Closing,        30, None),
            (Phase::Closing,        31, Some(Overdue::Abort)),
        ];
        for (phase, quiet, want) in table {
            assert_eq!(overdue(phase, Duration::from_secs(quiet)), want, "{phase:?} for {quiet} s");
        }
    }

    /// Connections from these addresses, one a second, with the task of each.
    async fn connect(
        connections: &Arc<Connections>,
        addresses: &str,
    ) -> Vec<(Arc<ConnectionGuard>, tokio::task::JoinHandle<()>)> {
        let mut all = vec![];
        for address in addresses.split_whitespace() {
            let place = connections.admit(address.parse().unwrap());
            let task = tokio::spawn(std::future::pending());
            connections.served_by(place.id(), task.abort_handle());
            all.push((place, task));
            advance(Duration::from_secs(1)).await;
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_of_the_address_with_the_most_is_closed() {
        #[rustfmt::skip]
        let table = [
            // case                            connections, room for four                    closed
            ("there is room",                  "10.0.0.1 10.0.0.1 10.0.0.2 10.0.0.3",          ""),
            ("the oldest goes",                "10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1", "0 1"),
            ("others keep theirs",             "10.0.0.9 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.1", "1"),
            ("also against a third",           "10.0.0.9 10.0.0.1 10.0.0.1 10.0.0.1 10.0.0.8", "1"),
            ("an IPv6 network is one address", "::1 2001:db8::1 2001:db8::2 2001:db8::3 ::2",  "1"),
            ("IPv4 within IPv6 is IPv4",       "10.0.0.9 ::ffff:10.0.0.1 10.0.0.1 10.0.0.8 10.0.0.7", "1"),
        ];
        for (case, addresses, want) in table {
            let connections = Connections::at_most(4);
            let all = connect(&connections, addresses).await;
            tokio::task::yield_now().await;
            let closed: Vec<String> =
                (0..all.len()).filter(|at| all[*at].1.is_finished()).map(|at| at.to_string()).collect();
            assert_eq!(closed.join(" "), want, "{case}");
            assert!(connections.open.lock().len() <= 4, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replaced_connection_does_not_remove_its_replacement() {
        let connections = Connections::at_most(1);
        let all = connect(&connections, "10.0.0.1 10.0.0.1").await;
        let [(first, _), (second, _)] = <[_; 2]>::try_from(all).unwrap();
        drop(first);
        assert!(!connections.is_empty());
        drop(second);
        assert!(connections.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closing_connection_takes_no_requests_and_ends() {
        let connections = Connections::at_most(4);
        let all = connect(&connections, "10.0.0.1").await;
        let (place, task) = &all[0];
        place.open(true);
        let under_way = place.serve();
        assert!(under_way.is_some());
        place.close();
        place.retired().await;
        assert!(place.serve().is_none());
        // Neither the end of the request nor closing again extends its time.
        advance(Duration::from_secs(29)).await;
        drop(under_way);
        place.close();
        connections.sweep();
        assert!(!connections.is_empty());
        advance(Duration::from_secs(2)).await;
        connections.sweep();
        assert!(connections.is_empty());
        tokio::task::yield_now().await;
        assert!(task.is_finished());
    }
}
