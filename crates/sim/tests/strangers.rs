//! The serving port while an unauthenticated client tries invalid tokens on one connection: how fast `/healthz` answers, and
//! how many reviews the API server gets, for our program and for upstream's. A measurement, so it is run by name:
//! `cargo test -p flyball-sim --test strangers -- --ignored --nocapture`. What must hold on any machine is tested in
//! `crates/serving/src/tests/reviewing.rs`, in virtual time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use flyball_sim::cluster::{Assets, Cluster, Manager};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

const TOKENS: u64 = 100_000;
const AT_ONCE: u64 = 50;
/// Tokens that are left after this are not tried: at 200 reviews a second 100,000 take more than eight minutes.
const LONGEST: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_millis(50);

#[tokio::test]
#[ignore = "a measurement"]
async fn made_up_tokens_on_one_connection() -> anyhow::Result<()> {
    Cluster::play("made_up_tokens_on_one_connection", async |cluster| {
        let ours = attack(cluster, "ours", &ours::binary(Profile::Debug)?).await?;
        let theirs = attack(cluster, "upstream", &Assets::find()?.upstream_manager()?).await?;
        println!("ours:     {ours:?}\nupstream: {theirs:?}");
        ensure!(ours.reviews_in_a_second <= 200, "more than 200 TokenReviews in a second");
        Ok(())
    })
    .await
}

/// The measurements during an attack.
#[derive(Debug)]
#[allow(dead_code)] // printed
struct Seen {
    tokens: u64,
    seconds: f64,
    reviews: usize,
    reviews_in_a_second: usize,
    probes: usize,
    slowest_probe: Duration,
    usual_probe: Duration,
}

async fn attack(cluster: &Cluster, name: &str, program: &Path) -> anyhow::Result<Seen> {
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let pki = cluster.dir().join("pki");
    let flags = [
        format!("--secure-port={}", address.port()),
        format!("--tls-cert-file={}", pki.join("apiserver.crt").display()),
        format!("--tls-private-key-file={}", pki.join("apiserver.key").display()),
    ];
    let controllers = ["replicaset-controller".to_owned()];
    let manager = Manager { binary: program, controllers: &controllers, leader_elect: false, flags: &flags };
    let mut log = cluster.audit_log();
    let mut process = cluster.start_manager(name, &manager)?;
    let connector = connector(&pki.join("ca.crt"))?;
    let begin = Instant::now();
    while probe(&connector, address).await.is_err() {
        ensure!(begin.elapsed() < Duration::from_secs(60), "{name} does not serve");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    log.read()?;

    let begin = Instant::now();
    let mut probes = vec![];
    let probing = async {
        loop {
            probes.push(probe(&connector, address).await.unwrap_or(Duration::MAX));
            tokio::time::sleep(PROBE_EVERY).await;
        }
    };
    let tokens = tokio::select! {
        tokens = try_tokens(&connector, address) => tokens?,
        () = probing => 0,
    };
    let seconds = begin.elapsed().as_secs_f64();
    // The audit log is written a little later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let entries = log.read()?;
    let reviews = entries.iter().filter(|entry| entry.resource == "tokenreviews" && entry.is_write());
    let times: Vec<Timestamp> = reviews.filter_map(|entry| entry.received).collect();
    probes.sort_unstable();
    process.stop(Duration::from_secs(20)).await?;
    Ok(Seen {
        tokens,
        seconds,
        reviews: times.len(),
        reviews_in_a_second: busiest_second(times),
        probes: probes.len(),
        slowest_probe: probes.last().copied().unwrap_or_default(),
        usual_probe: probes.get(probes.len() / 2).copied().unwrap_or_default(),
    })
}

/// The largest number of these times within one second.
fn busiest_second(mut times: Vec<Timestamp>) -> usize {
    times.sort_unstable();
    let within = |at: usize| {
        let end = times[at] + Duration::from_secs(1);
        times[at..].partition_point(|time| *time < end)
    };
    (0..times.len()).map(within).max().unwrap_or_default()
}

fn connector(ca: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn connect(connector: &TlsConnector, address: SocketAddr) -> anyhow::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("127.0.0.1")?;
    Ok(connector.connect(name, TcpStream::connect(address).await?).await?)
}

/// Like a kubelet: a new connection each time.
async fn probe(connector: &TlsConnector, address: SocketAddr) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let mut stream = connect(connector, address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    ensure!(answer == *b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&answer));
    Ok(begin.elapsed())
}

/// Sends tokens, some requests ahead of the answers; returns the number of answers.
async fn try_tokens(connector: &TlsConnector, address: SocketAddr) -> anyhow::Result<u64> {
    let (begin, mut stream) = (Instant::now(), connect(connector, address).await?);
    let mut answered = 0;
    while answered < TOKENS && begin.elapsed() < LONGEST {
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
