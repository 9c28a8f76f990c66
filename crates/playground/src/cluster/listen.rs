//! Which port to serve on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use super::StartError;

/// The API server's default port.
const USUAL: u16 = 6443;

/// A port to serve on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// 6443 if it is free, otherwise any free port.
    Usual,
    /// This port; 0 for any free port.
    Exactly(u16),
}

/// Listens on an address of this machine.
pub(super) async fn bind(on: IpAddr, port: Port) -> Result<(TcpListener, SocketAddr), StartError> {
    match port {
        Port::Exactly(port) => open(on, port).await,
        Port::Usual => match open(on, USUAL).await {
            Err(StartError::PortTaken { .. }) => open(on, 0).await,
            other => other,
        },
    }
}

async fn open(on: IpAddr, port: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = SocketAddr::from((on, port));
    let listener = TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => StartError::PortTaken { port },
        _ => StartError::Listen { address, source },
    })?;
    let address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
    Ok((listener, address))
}

/// The address by which this machine reaches a server that listens on `address`.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}
