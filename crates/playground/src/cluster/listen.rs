//! Which port to serve on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::runtime::Handle;

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

/// Listens on an address of this machine, on a certain runtime if one is given.
pub(super) async fn on(
    runtime: Option<&Handle>,
    address: IpAddr,
    port: Port,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let Some(runtime) = runtime else { return bind(address, port).await };
    let bound = runtime.spawn(bind(address, port)).await;
    bound.unwrap_or_else(|ended| {
        let source = std::io::Error::other(ended);
        Err(StartError::Listen { address: SocketAddr::from((address, 0)), source })
    })
}

async fn bind(on: IpAddr, port: Port) -> Result<(TcpListener, SocketAddr), StartError> {
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
