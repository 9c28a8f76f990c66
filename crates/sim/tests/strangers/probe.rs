//! The serving port of a controller manager, as probes and strangers see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use flyball_sim::cluster::Cluster;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Requests that are sent ahead of their answers.
const AT_ONCE: u64 = 50;

/// Flags for a manager that serves at this address, with a certificate of the cluster.
pub(crate) fn port_flags(cluster: &Cluster, address: SocketAddr) -> [String; 3] {
    let pki = cluster.dir().join("pki");
    [
        format!("--secure-port={}", address.port()),
        format!("--tls-cert-file={}", pki.join("apiserver.crt").display()),
        format!("--tls-private-key-file={}", pki.join("apiserver.key").display()),
    ]
}

pub(crate) struct Port {
    address: SocketAddr,
    connector: TlsConnector,
}

impl Port {
    pub(crate) fn of(cluster: &Cluster, address: SocketAddr) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(cluster.dir().join("pki/ca.crt"))? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, connector: TlsConnector::from(Arc::new(config)) })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("127.0.0.1")?;
        Ok(self.connector.connect(name, TcpStream::connect(self.address).await?).await?)
    }

    /// Waits until it answers.
    pub(crate) async fn serves(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while let Err(error) = self.probe().await {
            ensure!(begin.elapsed() < Duration::from_secs(60), "it does not serve: {error:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Asks for `/healthz` as a kubelet does: on a new connection each time. Returns how long that took.
    pub(crate) async fn probe(&self) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut stream = self.connect().await?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        ensure!(answer == *b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&answer));
        Ok(begin.elapsed())
    }
}

/// Sends invalid tokens, some ahead of the answers, for a limited time; returns the number of answers.
pub(crate) async fn try_tokens(port: &Port, tokens: u64, limit: Duration) -> anyhow::Result<u64> {
    let (begin, mut stream) = (Instant::now(), port.connect().await?);
    let mut answered = 0;
    while answered < tokens && begin.elapsed() < limit {
        let request =
            |n| format!("GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer made-up-{n}\r\n\r\n");
        let requests: String = (answered..answered + AT_ONCE).map(request).collect();
        stream.write_all(requests.as_bytes()).await?;
        let (mut heard, mut buffer) = (String::new(), vec![0; 64 << 10]);
        while heard.matches("HTTP/1.1 401").count() < AT_ONCE as usize {
            let read = stream.read(&mut buffer).await.context("the connection broke")?;
            ensure!(read > 0, "the server closed the connection after {answered} tokens: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        answered += AT_ONCE;
    }
    Ok(answered)
}
