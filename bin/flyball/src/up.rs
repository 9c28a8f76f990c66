//! `flyball up`: starts the cluster, prints how to use it and what is decided, and stops it in order.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_playground::cluster::{Cluster, Options, Port, Snapshot};
use flyball_playground::nodes;
use flyball_playground::timeline::Timeline;
use flyball_runtime::decisions::Decision;
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::args::{LogFormat, Up};
use crate::lines::{self, Style, line};
use crate::named::detach::{Log, Parent};
use crate::named::host::{Command, Host};
use crate::named::{self, claim};
use crate::signals::Stop;
use crate::snapshot;

/// How often nodes renew their lease, unless the node monitor's grace period is too short for that.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Shorter than upstream's default, so that a user sees a lost node within seconds.
const NODE_GRACE: &str = "--node-monitor-grace-period=";
const SHORT_GRACE: &str = "10s";

pub(crate) async fn run(args: Up) -> anyhow::Result<()> {
    log();
    let mut parent = args.detached.then(Parent::leave).transpose()?;
    let outcome = live(args, parent.as_mut()).await;
    if let (Err(error), Some(parent)) = (&outcome, &mut parent) {
        parent.failed(error);
    }
    outcome
}

/// A cluster from its start to its end. `parent` waits for the start.
async fn live(args: Up, parent: Option<&mut Parent>) -> anyhow::Result<()> {
    check_controllers(&args.controllers)?;
    let snapshot = args.snapshot.as_deref().map(snapshot::read).transpose()?;
    if let (Some(_), Some(dir)) =
        (&snapshot, args.data_dir.as_ref().filter(|dir| dir.join("objects").exists()))
    {
        let dir = dir.display();
        bail!(
            "{dir} holds a cluster already: name another --data-dir, or leave out --snapshot and use `flyball snapshot restore` then"
        );
    }
    let mut host = Host::take(&args)?;
    let begun = std::time::Instant::now();
    let mut stop = Stop::listen()?;
    let least = snapshot.as_ref().map(|snapshot| snapshot.time);
    let timeline = Timeline::start(args.data_dir.as_deref(), least).await?;
    host.turns(timeline.dial());
    let mut cluster = start(&timeline, options(&args, &timeline, snapshot)).await?;
    let style = Style { format: args.log_format, colour: std::io::stdout().is_terminal() };
    let greeting = host.publish(&cluster).and_then(|()| {
        let greeting = match style.format {
            LogFormat::Text => greeting(&args, &cluster, &host, begun.elapsed()),
            LogFormat::Json => greeting_json(&args, &cluster, &host, begun.elapsed()),
        };
        parent.map_or(Ok(()), |parent| parent.ready(&greeting)).map(|()| greeting)
    });
    let outcome = match greeting {
        Ok(greeting) => {
            lines::print(&greeting);
            if args.detached {
                tokio::spawn(Log::of(host.place()).keep_bounded());
            }
            loop {
                let printer = Printer::start(&args, &cluster, style);
                let command = tokio::select! {
                    () = stop.requested() => Command::Stop,
                    command = host.next_command() => command,
                };
                match command {
                    Command::Stop => break Ok(()),
                    Command::Restore { snapshot, done } => {
                        drop(printer);
                        match restore(&args, &timeline, &mut host, cluster, *snapshot, done).await {
                            Ok(restored) => cluster = restored,
                            Err(error) => {
                                host.withdraw();
                                return host.leave().and(Err(error));
                            }
                        }
                    }
                }
            }
        }
        Err(error) => Err(error),
    };
    if outcome.is_ok() && style.format == LogFormat::Text {
        lines::print("\nStopping…\n");
    }
    host.withdraw();
    cluster.stop().await;
    timeline.end().await;
    outcome.and(host.leave())
}

/// Starts the cluster on the thread whose time can be moved; connections stay here, in real time.
async fn start(timeline: &Timeline, options: Options) -> anyhow::Result<Cluster> {
    Ok(timeline.run(Cluster::start(options)).await??)
}

fn options(args: &Up, timeline: &Timeline, snapshot: Option<Snapshot>) -> Options {
    let manager_flags = with_short_grace(&args.manager_flags);
    Options {
        data_dir: args.data_dir.clone(),
        snapshot,
        port: Some(args.port.map_or(Port::Usual, Port::Exactly)),
        bind: args.bind_address,
        names: args.certificate_names.clone(),
        controllers: args.controllers.clone(),
        nodes: nodes::Options { count: args.nodes, heartbeat: heartbeat(&manager_flags) },
        manager_flags,
        toleration: Duration::from_secs(args.pods_move_after.into()),
        page: true,
        clock: timeline.dial().clock(),
        dial: Some(timeline.dial()),
        outside: Some(Handle::current()),
        cloud: args.cloud.clone(),
        expose: args.expose,
        ..Options::default()
    }
}

/// Ends the cluster and starts it again on its address with a snapshot. If that fails, with what it was. Clients of the old one see
/// closed connections, and versions that are too old.
async fn restore(
    args: &Up,
    timeline: &Timeline,
    host: &mut Host,
    cluster: Cluster,
    mut snapshot: Snapshot,
    done: oneshot::Sender<anyhow::Result<()>>,
) -> anyhow::Result<Cluster> {
    let port = cluster.address().map(|address| Port::Exactly(address.port()));
    host.withdraw();
    let server = cluster.server().clone();
    let saved = cluster.stop_keeping().await;
    let seen = server.store().version();
    drop(server);
    snapshot.begin_after(seen);
    let again = |snapshot| start(timeline, Options { port, ..options(args, timeline, Some(snapshot)) });
    let (cluster, outcome) = match again(snapshot).await {
        Ok(cluster) => (cluster, Ok(())),
        Err(error) => {
            let mut saved = saved.context("the cluster as it was could not be kept")?;
            saved.begin_after(seen);
            let outcome = error.context("the cluster does not start with this snapshot, and is as it was");
            (again(saved).await?, Err(outcome))
        }
    };
    host.publish(&cluster)?;
    // Nobody may wait for it any more.
    let _ = done.send(outcome);
    Ok(cluster)
}

/// Prints decisions while it lives.
struct Printer(Option<JoinHandle<()>>);

impl Printer {
    fn start(args: &Up, cluster: &Cluster, style: Style) -> Self {
        let decisions = cluster.decisions().listen();
        Self((!args.quiet).then(|| tokio::spawn(print_decisions(decisions, style))))
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        if let Some(printer) = &self.0 {
            printer.abort();
        }
    }
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

fn greeting(args: &Up, cluster: &Cluster, host: &Host, took: Duration) -> String {
    let address = cluster.address().map(|address| address.to_string()).unwrap_or_default();
    let running = cluster.controllers().running.len();
    let nodes = if cluster.nodes() == 1 { "1 node".to_owned() } else { format!("{} nodes", cluster.nodes()) };
    let (name, context, shown) = (host.name(), host.name().context(), host.kubeconfig());
    let shown = shown.display();
    let mut out = format!(
        "The cluster {:?} is up after {:.1} s: {nodes} (simulated), {running} controllers, https://{address}\n",
        name.as_str(),
        took.as_secs_f64()
    );
    if let Some(dir) = &args.data_dir {
        out.push_str(&format!("It is kept in {}.\n", dir.display()));
    }
    for notice in &cluster.controllers().notices {
        out.push_str(&format!("Note: {notice}\n"));
    }
    // kubectl and we find the usual one by ourselves.
    let is_usual = args.kubeconfig.is_none() && !args.no_kubeconfig;
    let export = match is_usual {
        true => {
            out.push_str(&format!("kubectl uses it now: {context} is the current context of {shown}.\n"));
            String::new()
        }
        false => format!("  export KUBECONFIG={shown}\n"),
    };
    let option = named::option(name);
    if let Some(link) = cluster.page_link() {
        out.push_str(&format!("\nThe cluster in a browser (the link works once; `flyball ui{option}` prints another):\n  {link}\n"));
    }
    out.push_str(&format!(
        "\nTry:\n{export}  kubectl create deployment web --image=nginx --replicas=3\n  \
         kubectl get pods -o wide --watch\n  flyball why deploy/web{option}\n  flyball node stop node-1{option}\n"
    ));
    if args.expose {
        out.push_str(
            "  kubectl expose deployment web --port=8080 --target-port=80 --type=LoadBalancer\n  \
             curl $(kubectl get service web -o jsonpath='{.status.loadBalancer.ingress[0].ip}'):8080\n",
        );
    }
    out.push('\n');
    let down = claim::down(name);
    out.push_str(&match args.detached {
        true => format!("`{down}` ends it. Its log: {}\n", host.place().log().display()),
        false => format!("Ctrl-C ends it, or `{down}`.\n\n"),
    });
    out
}

fn greeting_json(args: &Up, cluster: &Cluster, host: &Host, took: Duration) -> String {
    let up = serde_json::json!({
        "up": {
            "name": host.name(), "context": host.name().context(),
            "server": cluster.address().map(|address| format!("https://{address}")),
            "kubeconfig": host.kubeconfig(), "nodes": cluster.nodes(), "dataDir": args.data_dir,
            "controllers": cluster.controllers().running, "notices": cluster.controllers().notices,
            "seconds": took.as_secs_f64(), "page": cluster.page_link(),
        }
    });
    format!("{up}\n")
}

/// Prints every decision as it is made.
pub(crate) async fn print_decisions(mut decisions: Receiver<std::sync::Arc<Decision>>, style: Style) {
    loop {
        match decisions.recv().await {
            Ok(decision) => lines::print(&format!("{}\n", line(&decision, style))),
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
