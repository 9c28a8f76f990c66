//! `flyball up`: starts the cluster, prints how to use it and what is decided, and stops it in order.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use flyball_playground::cluster::{Cluster, Options, Port};
use flyball_playground::nodes;
use flyball_runtime::decisions::Decision;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::args::{LogFormat, Up};
use crate::lines::{Style, line};
use crate::place;

/// How often nodes renew their lease, unless the node monitor's grace period is too short for that.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Shorter than upstream's default, so that a user sees a lost node within seconds.
const NODE_GRACE: &str = "--node-monitor-grace-period=";
const SHORT_GRACE: &str = "10s";

pub(crate) async fn run(args: Up) -> anyhow::Result<()> {
    log();
    let kubeconfig = place::kubeconfig(args.kubeconfig.as_deref())?;
    let draft = place::Draft::of(&kubeconfig)?;
    let begun = std::time::Instant::now();
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let manager_flags = with_short_grace(&args.manager_flags);
    let cluster = Cluster::start(Options {
        data_dir: args.data_dir.clone(),
        port: Some(args.port.map_or(Port::Usual, Port::Exactly)),
        controllers: args.controllers.clone(),
        nodes: nodes::Options { count: args.nodes, heartbeat: heartbeat(&manager_flags) },
        manager_flags,
        toleration: Duration::from_secs(args.pods_move_after.into()),
    })
    .await?;
    let text = cluster.kubeconfig()?.context("the cluster does not serve")?;
    draft.write(&text)?;
    let style = Style { format: args.log_format, colour: std::io::stdout().is_terminal() };
    match style.format {
        LogFormat::Text => greet(&args, &cluster, &kubeconfig, begun.elapsed()),
        LogFormat::Json => greet_json(&args, &cluster, &kubeconfig, begun.elapsed()),
    }
    let printer = (!args.quiet).then(|| tokio::spawn(print_decisions(cluster.decisions().listen(), style)));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    if style.format == LogFormat::Text {
        println!("\nStopping…");
    }
    cluster.stop().await;
    if let Some(printer) = printer {
        printer.abort();
    }
    Ok(())
}

/// Logs errors to stderr; `RUST_LOG` shows more.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

/// The flags, with a short `--node-monitor-grace-period` unless one is given.
fn with_short_grace(manager_flags: &[String]) -> Vec<String> {
    let given = manager_flags.iter().any(|flag| flag.starts_with(NODE_GRACE));
    let short = (!given).then(|| format!("{NODE_GRACE}{SHORT_GRACE}"));
    short.into_iter().chain(manager_flags.iter().cloned()).collect()
}

/// The interval of heartbeats: a quarter of the grace period at most.
fn heartbeat(manager_flags: &[String]) -> Duration {
    let grace = manager_flags.iter().rev().find_map(|flag| {
        let text = flag.strip_prefix(NODE_GRACE)?;
        Duration::try_from(flyball_api::time::parse_duration(text).ok()?).ok()
    });
    grace.map_or(HEARTBEAT, |grace| (grace / 4).clamp(Duration::from_millis(250), HEARTBEAT))
}

fn greet(args: &Up, cluster: &Cluster, kubeconfig: &Path, took: Duration) {
    let address = cluster.address().map(|address| address.to_string()).unwrap_or_default();
    let running = cluster.controllers().running.len();
    let nodes = if args.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", args.nodes) };
    let shown = kubeconfig.display();
    // Other commands find the default kubeconfig by themselves.
    let there = args.kubeconfig.as_ref().map(|_| format!(" --kubeconfig {shown}")).unwrap_or_default();
    let mut out = format!(
        "A cluster is up after {:.1} s: {nodes} (simulated), {running} controllers, https://{address}\n",
        took.as_secs_f64()
    );
    if let Some(dir) = &args.data_dir {
        out.push_str(&format!("It is kept in {}.\n", dir.display()));
    }
    for notice in &cluster.controllers().notices {
        out.push_str(&format!("Note: {notice}\n"));
    }
    out.push_str(&format!(
        "\nTry:\n  export KUBECONFIG={shown}\n  kubectl create deployment web --image=nginx --replicas=3\n  \
         kubectl get pods -o wide --watch\n  flyball why deploy/web{there}\n  flyball node stop node-1{there}\n\n\
         Ctrl-C ends it.\n\n"
    ));
    print!("{out}");
    let _ = std::io::stdout().flush();
}

fn greet_json(args: &Up, cluster: &Cluster, kubeconfig: &Path, took: Duration) {
    let up = serde_json::json!({
        "up": {
            "server": cluster.address().map(|address| format!("https://{address}")),
            "kubeconfig": kubeconfig, "nodes": args.nodes, "dataDir": args.data_dir,
            "controllers": cluster.controllers().running, "notices": cluster.controllers().notices,
            "seconds": took.as_secs_f64(),
        }
    });
    println!("{up}");
    let _ = std::io::stdout().flush();
}

/// Prints every decision as it is made.
pub(crate) async fn print_decisions(mut decisions: Receiver<std::sync::Arc<Decision>>, style: Style) {
    loop {
        match decisions.recv().await {
            Ok(decision) => {
                let mut out = std::io::stdout().lock();
                // A closed stdout does not end the cluster.
                let _ = writeln!(out, "{}", line(&decision, style));
                let _ = out.flush();
            }
            Err(RecvError::Lagged(missed)) => eprintln!("({missed} decisions not shown)"),
            Err(RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beat_often_enough_for_the_grace_period() {
        let beat =
            |flags: &[&str]| heartbeat(&flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>());
        assert_eq!(beat(&[]), HEARTBEAT);
        assert_eq!(beat(&["--node-monitor-grace-period=8s"]), Duration::from_secs(2));
        assert_eq!(beat(&["--node-monitor-grace-period=1h"]), HEARTBEAT);
        assert_eq!(beat(&["--node-monitor-grace-period=soon"]), HEARTBEAT);
        assert_eq!(with_short_grace(&[]), ["--node-monitor-grace-period=10s"]);
        let own = ["--v=2".to_owned(), "--node-monitor-grace-period=50s".to_owned()];
        assert_eq!(with_short_grace(&own), own);
    }
}
