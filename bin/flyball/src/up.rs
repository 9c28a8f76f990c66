//! `flyball up`: starts the cluster, prints how to use it and what is decided, and stops it in order.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_playground::cluster::{Cluster, Options, Port};
use flyball_playground::nodes;
use flyball_runtime::decisions::Decision;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::args::{LogFormat, Up};
use crate::lines::{self, Style, line};
use crate::place;

/// How often nodes renew their lease, unless the node monitor's grace period is too short for that.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long another cluster on this machine may take to accept a connection.
const OTHERS_ANSWER: Duration = Duration::from_secs(1);
/// Shorter than upstream's default, so that a user sees a lost node within seconds.
const NODE_GRACE: &str = "--node-monitor-grace-period=";
const SHORT_GRACE: &str = "10s";

pub(crate) async fn run(args: Up) -> anyhow::Result<()> {
    log();
    check_controllers(&args.controllers)?;
    let kubeconfig = place::kubeconfig(args.kubeconfig.as_deref())?;
    if args.kubeconfig.is_none() {
        refuse_to_hide(&kubeconfig).await?;
    }
    let draft = place::Draft::of(&kubeconfig)?;
    let begun = std::time::Instant::now();
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let manager_flags = with_short_grace(&args.manager_flags);
    let cluster = Cluster::start(Options {
        data_dir: args.data_dir.clone(),
        port: Some(args.port.map_or(Port::Usual, Port::Exactly)),
        bind: args.bind_address,
        names: args.certificate_names.clone(),
        controllers: args.controllers.clone(),
        nodes: nodes::Options { count: args.nodes, heartbeat: heartbeat(&manager_flags) },
        manager_flags,
        toleration: Duration::from_secs(args.pods_move_after.into()),
        ..Options::default()
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
        lines::print("\nStopping…\n");
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

/// A list that only excludes would start nothing: without `*`, controllers that are not named do not run.
pub(crate) fn check_controllers(controllers: &[String]) -> anyhow::Result<()> {
    if !controllers.is_empty() && controllers.iter().all(|name| name.starts_with('-')) {
        let list = controllers.join(",");
        bail!(
            "--controllers={list} starts no controller; to start all others, write --controllers='*,{list}'"
        );
    }
    Ok(())
}

/// Fails if the default kubeconfig is that of a cluster which is still running: commands for it would go to this one.
async fn refuse_to_hide(kubeconfig: &Path) -> anyhow::Result<()> {
    let Some(server) = place::server(kubeconfig) else { return Ok(()) };
    let answers = tokio::time::timeout(OTHERS_ANSWER, tokio::net::TcpStream::connect(&server)).await;
    if matches!(answers, Ok(Ok(_))) {
        bail!(
            "another cluster runs at https://{server}, and {} is its kubeconfig; give this one a file of its own with \
             --kubeconfig FILE, or stop the other one",
            kubeconfig.display()
        );
    }
    Ok(())
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
    lines::print(&out);
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
    lines::print(&format!("{up}\n"));
}

/// Prints every decision as it is made.
pub(crate) async fn print_decisions(mut decisions: Receiver<std::sync::Arc<Decision>>, style: Style) {
    loop {
        match decisions.recv().await {
            Ok(decision) => {
                lines::print(&format!("{}\n", line(&decision, style)));
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
    fn a_list_that_only_excludes_is_refused_with_the_list_that_was_meant() {
        let check =
            |list: &[&str]| check_controllers(&list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert!(
            check(&["*"]).is_ok()
                && check(&["*", "-job-controller"]).is_ok()
                && check(&["job-controller"]).is_ok()
        );
        let error = check(&["-deployment-controller", "-job-controller"]).unwrap_err().to_string();
        assert!(error.contains("--controllers='*,-deployment-controller,-job-controller'"), "{error}");
    }

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
