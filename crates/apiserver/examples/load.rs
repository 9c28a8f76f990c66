//! How much the server carries on this machine: pods listed and followed by watchers while they are written.
//! `cargo run --profile dist -p flyball-apiserver --example load -- [pods] [watchers] [writes]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flyball_apiserver::{ApiServer, Authorization, Options};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    media: &str,
    body: Value,
) -> Result<Bytes, Failure> {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let response = server.clone().oneshot(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
    let code = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    if !code.is_success() {
        return Err(format!("{method} {path}: {code} {}", String::from_utf8_lossy(&bytes)).into());
    }
    Ok(bytes)
}

fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        / 1024
}

/// Seconds of processor time that this process has used: what counts where others use the machine, too.
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // User and system time, in hundredths.
    after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn pod(n: usize) -> Value {
    json!({"metadata": {"name": format!("pod-{n}"), "labels": {"app": format!("app-{}", n % 100)}},
        "spec": {"nodeName": format!("node-{}", n % 200), "containers": [{"name": "c", "image": "nginx:1",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}})
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let pods = numbers.next().unwrap_or(20_000);
    let watchers = numbers.next().unwrap_or(20);
    let writes = numbers.next().unwrap_or(20_000);
    let server = ApiServer::new(Options { authorization: Authorization::AlwaysAllow, ..Options::default() })?;

    let account = json!({"metadata": {"name": "default"}});
    send(&server, "POST", "/api/v1/namespaces/default/serviceaccounts", "application/json", account).await?;
    let (started, before) = (Instant::now(), used());
    for n in 0..pods {
        send(&server, "POST", "/api/v1/namespaces/default/pods", "application/json", pod(n)).await?;
    }
    let rate = pods as f64 / started.elapsed().as_secs_f64();
    let each = (used() - before) / pods as f64 * 1e6;
    println!("{pods} pods created, {rate:.0}/s, {each:.0} µs of processor time each; {} MiB", memory_mib());

    let started = Instant::now();
    let list = send(&server, "GET", "/api/v1/pods", "application/json", Value::Null).await?;
    println!("listed in {:?}, {} MiB of JSON", started.elapsed(), list.len() >> 20);

    let seen = Arc::new(AtomicU64::new(0));
    for _ in 0..watchers {
        let request =
            Request::get("/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        let response = server.clone().oneshot(request.body(Full::new(Bytes::new()))?).await?;
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|b| **b == b'\n').count());
                seen.fetch_add(lines as u64, Ordering::Relaxed);
            }
        });
    }
    let initial = (watchers * (pods + 1)) as u64;
    let (started, before) = (Instant::now(), used());
    while seen.load(Ordering::Relaxed) < initial {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(
        "{watchers} watchers have the initial state after {:?}, {:.1} s of processor time; {} MiB",
        started.elapsed(),
        used() - before,
        memory_mib()
    );

    let (started, before) = (Instant::now(), used());
    let lanes = 4;
    let mut running = tokio::task::JoinSet::new();
    for lane in 0..lanes {
        let server = server.clone();
        running.spawn(async move {
            for n in (lane..writes).step_by(lanes) {
                let path = format!("/api/v1/namespaces/default/pods/pod-{}/status", n % pods);
                let status = json!({"status": {"phase": "Running", "podIP": format!("10.0.{}.{}", n / 250 % 250, n % 250)}});
                send(&server, "PATCH", &path, "application/merge-patch+json", status).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    for outcome in running.join_all().await {
        outcome?;
    }
    let rate = writes as f64 / started.elapsed().as_secs_f64();
    let all = initial + (watchers * writes) as u64;
    while seen.load(Ordering::Relaxed) < all && started.elapsed() < Duration::from_secs(120) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let delivered = seen.load(Ordering::Relaxed) - initial;
    println!(
        "{writes} status patches, {rate:.0}/s; {delivered} of {} events delivered after {:?}, {:.0} µs of processor \
         time for each patch and its {watchers} deliveries; {} MiB",
        watchers * writes,
        started.elapsed(),
        (used() - before) / writes as f64 * 1e6,
        memory_mib()
    );
    match delivered == (watchers * writes) as u64 {
        true => Ok(()),
        false => Err("not every watcher has received every write".into()),
    }
}
