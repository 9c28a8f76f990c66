//! The `etcd` of the folder. The embedded API server keeps its objects itself; this one answers the health checks of
//! those who start an etcd first.

use std::convert::Infallible;

use anyhow::{Context as _, bail};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::flags;
use crate::lines::say;
use crate::signals::Stop;

/// The version of etcd that Kubernetes v1.36 is released with.
const VERSION: &str = "3.6.8";
const DEFAULT_URL: &str = "http://localhost:2379";

const HELP: &str = "\
Answers health checks in the place of etcd: the embedded API server keeps its objects itself.

  --listen-client-urls 'http://localhost:2379'
        URLs to answer on.
  --unsafe-no-fsync
        Without effect, as are all other flags of etcd: nothing is stored.
";

pub(super) async fn run(arguments: &[String]) -> anyhow::Result<()> {
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        say!("{HELP}");
        return Ok(());
    }
    if arguments.iter().any(|word| word == "--version") {
        say!("etcd Version: {VERSION}\nflyball {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let given = flags::pairs(arguments, &["unsafe-no-fsync", "force-new-cluster", "pre-vote"])?;
    let urls = flags::last(&given, "listen-client-urls").unwrap_or(DEFAULT_URL);
    let mut stop = Stop::listen()?;
    let mut tasks = JoinSet::new();
    for url in urls.split(',') {
        let Some(address) = url.trim().strip_prefix("http://") else {
            bail!("--listen-client-urls={url}: only http:// is answered here");
        };
        let address = address.trim_end_matches('/');
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
        tasks.spawn(flyball_listen::each(listener, |stream, _| converse(stream)));
    }
    tokio::select! {
        () = stop.requested() => {}
        _ = tasks.join_next() => {}
    }
    Ok(())
}

async fn converse(stream: TcpStream) {
    let http = hyper::server::conn::http1::Builder::new();
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let (status, text) = match request.uri().path() {
        "/health" | "/readyz" | "/livez" => (StatusCode::OK, r#"{"health":"true","reason":""}"#.to_owned()),
        "/version" => (
            StatusCode::OK,
            format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"3.6.0","storage":"3.6.0"}}"#),
        ),
        path => {
            let why = format!(
                "{path}: this stands in for etcd and stores nothing; flyball's API server keeps its objects itself\n"
            );
            (StatusCode::NOT_IMPLEMENTED, why)
        }
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    Ok(response)
}
