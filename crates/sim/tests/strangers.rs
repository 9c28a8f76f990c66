//! The serving port while an unauthenticated client tries invalid tokens on one connection: how fast `/healthz` answers, and
//! how many reviews the API server gets, for our program and for upstream's. A measurement, so it is run by name:
//! `cargo test -p flyball-sim --test strangers -- --ignored --nocapture`. What must hold on any machine is tested in
//! `crates/serving/src/tests/reviewing.rs`, in virtual time.

#[path = "strangers/probe.rs"]
mod probe;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use flyball_sim::cluster::{Assets, Cluster, Manager};
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use probe::{Port, port_flags, try_tokens};
use tokio::net::TcpListener;

const TOKENS: u64 = 100_000;
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
    let flags = port_flags(cluster, address);
    let controllers = ["replicaset-controller".to_owned()];
    let manager = Manager { binary: program, controllers: &controllers, leader_elect: false, flags: &flags };
    let mut log = cluster.audit_log();
    let mut process = cluster.start_manager(name, &manager)?;
    let port = Port::of(cluster, address)?;
    port.serves().await?;
    log.read()?;

    let begin = Instant::now();
    let mut probes = vec![];
    let probing = async {
        loop {
            probes.push(port.probe().await.unwrap_or(Duration::MAX));
            tokio::time::sleep(PROBE_EVERY).await;
        }
    };
    let tokens = tokio::select! {
        tokens = try_tokens(&port, TOKENS, LONGEST) => tokens?,
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
