//! Which port to serve on.

use std::net::{Ipv4Addr, SocketAddr};

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

/// Listens on the loopback address.
pub(super) async fn bind(port: Port) -> Result<(TcpListener, SocketAddr), StartError> {
    match port {
        Port::Exactly(port) => open(port).await,
        Port::Usual => match open(USUAL).await {
            Err(StartError::PortTaken { .. }) => open(0).await,
            other => other,
        },
    }
}

async fn open(port: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => StartError::PortTaken { port },
        _ => StartError::Listen { address, source },
    })?;
    let address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
    Ok((listener, address))
}
