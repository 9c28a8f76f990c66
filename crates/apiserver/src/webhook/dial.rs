//! Connections over TCP, with the words of Go for failures.

use tokio::net::TcpStream;

/// Connects to the first address of a host that answers. The error is the one that Go reports.
pub(crate) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let missing = || format!("dial tcp: lookup {host}: no such host");
    let addresses: Vec<_> = found.map_err(|_| missing())?.collect();
    let Some(first) = addresses.first().copied() else { return Err(missing()) };
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = last.or(Some(error)),
        }
    }
    let why = match last.map(|error| error.kind()) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused",
        Some(std::io::ErrorKind::NetworkUnreachable) => "network is unreachable",
        Some(std::io::ErrorKind::HostUnreachable) => "no route to host",
        _ => "connection timed out",
    };
    Err(format!("dial tcp {first}: connect: {why}"))
}
