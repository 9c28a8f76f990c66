//! Machines as network namespaces: a hub with two networks and the API server, a client, two gateways and two nodes.
//!
//!     client ── lan (192.0.2.0/24, 2001:db8::/64) ── g1, g2 ── inner (10.0.0.0/24, fd00::/64) ── n1, n2, API server

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sched::{CloneFlags, setns};

/// How long a packet may take on a machine that has other things to do.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct World {
    prefix: String,
    /// Whether the pods of a node are ready, as its health-check node port says.
    pub(crate) ready: [Arc<AtomicBool>; 2],
}

/// The node ports for TCP.
pub(crate) const NODE_PORTS: [u16; 4] = [30080, 30081, 30082, 30083];

/// A network, and the machine's addresses in it.
type Link = (&'static str, &'static str, &'static str);

const MACHINES: &[(&str, &[Link])] = &[
    ("client", &[("lan", "192.0.2.100/24", "2001:db8::100/64")]),
    ("g1", &[("lan", "192.0.2.2/24", "2001:db8::2/64"), ("inner", "10.0.0.2/24", "fd00::2/64")]),
    ("g2", &[("lan", "192.0.2.3/24", "2001:db8::3/64"), ("inner", "10.0.0.3/24", "fd00::3/64")]),
    ("n1", &[("inner", "10.0.0.11/24", "fd00::11/64")]),
    ("n2", &[("inner", "10.0.0.12/24", "fd00::12/64")]),
];

impl World {
    /// Makes the namespaces; an error says what this machine lacks.
    pub(crate) fn new() -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let world = Self {
            prefix: format!("flyball-{}-{number}-", std::process::id()),
            ready: [true, true].map(|ready| Arc::new(AtomicBool::new(ready))),
        };
        world.add("hub")?;
        for network in ["lan", "inner"] {
            world.ip("hub", &format!("link add {network} type bridge"))?;
            world.ip("hub", &format!("link set {network} up"))?;
        }
        world.ip("hub", "addr add 10.0.0.1/24 dev inner")?;
        for (machine, links) in MACHINES {
            world.add(machine)?;
            for (network, v4, v6) in *links {
                let (hub, name) = (world.name("hub"), world.name(machine));
                let port = format!("{machine}-{network}");
                ip(&format!("-n {hub} link add {port} type veth peer name {network} netns {name}"))?;
                world.ip("hub", &format!("link set {port} master {network} up"))?;
                world.ip(machine, &format!("addr add {v4} dev {network}"))?;
                world.ip(machine, &format!("addr add {v6} dev {network} nodad"))?;
                world.ip(machine, &format!("link set {network} up"))?;
            }
        }
        for gateway in ["g1", "g2"] {
            world.inside(gateway, || {
                fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
            })??;
        }
        for (node, ready) in ["n1", "n2"].into_iter().zip(&world.ready) {
            let ready = ready.clone();
            world.inside(node, move || serve(node, &ready))??;
        }
        Ok(world)
    }

    fn add(&self, machine: &str) -> anyhow::Result<()> {
        ip(&format!("netns add {}", self.name(machine)))?;
        self.ip(machine, "link set lo up").map(drop)
    }

    pub(crate) fn name(&self, machine: &str) -> String {
        format!("{}{machine}", self.prefix)
    }

    pub(crate) fn ip(&self, machine: &str, arguments: &str) -> anyhow::Result<String> {
        ip(&format!("-n {} {arguments}", self.name(machine)))
    }

    /// Runs something on a thread in a machine's namespace. Threads that it starts stay there.
    pub(crate) fn inside<T: Send + 'static>(
        &self,
        machine: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let namespace =
            File::open(format!("/run/netns/{}", self.name(machine))).context("open the namespace")?;
        let thread = thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            anyhow::Ok(work())
        });
        thread.join().map_err(|_| anyhow::anyhow!("a thread in {machine} panicked"))?
    }

    /// What answers a connection of the client: the node, and the address of the client as it sees it.
    pub(crate) fn connect(&self, to: &str) -> io::Result<String> {
        let to: SocketAddr = to.parse().map_err(io::Error::other)?;
        let connect = move || {
            let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        self.inside("client", connect).map_err(io::Error::other)?
    }

    /// A socket of the client for datagrams.
    pub(crate) fn datagrams(&self) -> anyhow::Result<UdpSocket> {
        self.inside("client", || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            anyhow::Ok(socket)
        })?
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for machine in MACHINES.iter().map(|(machine, _)| *machine).chain(["hub"]) {
            let _ = ip(&format!("netns del {}", self.name(machine)));
        }
    }
}

fn ip(arguments: &str) -> anyhow::Result<String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().context("there is no ip")?;
    ensure!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The node ports of a node. Each answer has the node's name and the sender's address.
fn serve(node: &'static str, ready: &Arc<AtomicBool>) -> io::Result<()> {
    for port in NODE_PORTS {
        let streams = TcpListener::bind(("::", port))?;
        thread::spawn(move || {
            for mut stream in streams.incoming().flatten() {
                let peer =
                    stream.peer_addr().map(|peer| peer.ip().to_canonical().to_string()).unwrap_or_default();
                let _ = write!(stream, "{node} {peer}");
            }
        });
    }
    let datagrams = UdpSocket::bind("[::]:30053")?;
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((_, peer)) = datagrams.recv_from(&mut buffer) {
            let _ = datagrams.send_to(node.as_bytes(), peer);
        }
    });
    let (health, ready) = (TcpListener::bind("[::]:31000")?, ready.clone());
    thread::spawn(move || {
        for mut stream in health.incoming().flatten() {
            let mut request = [0; 1000];
            let _ = stream.read(&mut request);
            let status = if ready.load(Ordering::Relaxed) { "200 OK" } else { "503 Service Unavailable" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        }
    });
    Ok(())
}

/// Asks with a datagram. Nothing within the patience is `None`.
pub(crate) fn ask(socket: &UdpSocket, to: &str) -> Option<String> {
    let mut buffer = [0; 100];
    socket.send_to(b"who are you?", to).ok()?;
    let length = socket.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}
