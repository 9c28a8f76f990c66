//! `flyball ui --manager-kubeconfig FILE`: the live page of a manager in a real cluster.
//!
//! A browser has no credentials for the manager. This process has: it serves the page on this machine, to whoever has the link
//! that it prints, and asks the manager with the credentials of the kubeconfig. Nothing but the page is passed on.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use flyball_client::{ConnectOptions, Transport, connect};
use flyball_ui::{Answer, Local, PATH, Wire, is_page};
use futures::{FutureExt as _, StreamExt as _, future, stream};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::lines::say;
use crate::place;
use crate::signals::Stop;

/// Headers of the browser that concern the manager.
const PASSED_ON: [header::HeaderName; 2] = [header::ACCEPT, header::IF_NONE_MATCH];

pub(crate) async fn run(kubeconfig: &Path) -> anyhow::Result<()> {
    let path = place::kubeconfig(kubeconfig)?;
    let options = ConnectOptions { kubeconfig: Some(path.clone()), ..ConnectOptions::default() };
    let connection = connect(&options).await.with_context(|| path.display().to_string())?;
    // Streams last, so they go where watches go.
    let transport = connection.watch_transport();
    check(&*transport).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen on this machine")?;
    let behind = move |head: Parts, _| forward(transport.clone(), head).boxed();
    let local = Local::before(Arc::new(behind), listener.local_addr()?, &[]);
    say!("{}", local.link().context("the system has no random numbers")?);
    say!("The link works once. Ctrl-C ends this.");
    let mut stop = Stop::listen()?;
    tokio::select! {
        () = stop.requested() => Ok(()),
        never = flyball_listen::each(listener, |stream, _| converse(stream, local.clone())) => match never {},
    }
}

/// Whether a manager with the page answers, and lets us look.
async fn check(transport: &dyn Transport) -> anyhow::Result<()> {
    let request = Request::get(format!("{PATH}/icon.svg")).body(Bytes::new())?;
    let server = transport.host().to_owned();
    let response = transport.send(request).await.with_context(|| format!("reach the manager at {server}"))?;
    match response.status() {
        StatusCode::OK => Ok(()),
        StatusCode::UNAUTHORIZED => bail!("the manager at {server} does not accept these credentials"),
        StatusCode::FORBIDDEN => bail!(
            "these credentials may not read {PATH} of the manager at {server}; the role flyball-observer may (deploy/rbac.yaml)"
        ),
        status => bail!(
            "there is no live page at {server} ({status}): its kubeconfig must name the port of a Flyball manager \
             (https://HOST:10257) that runs without --profiling=false"
        ),
    }
}

/// The manager's answer to a request of the browser.
async fn forward(transport: Arc<dyn Transport>, head: Parts) -> Answer {
    let plain = |code: StatusCode, text: &'static str| {
        let mut response = Response::new(Full::from(text).boxed_unsync());
        *response.status_mut() = code;
        response
    };
    if !matches!(head.method, Method::GET | Method::HEAD) || !is_page(head.uri.path()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
    }
    let wanted = head.uri.path_and_query().map_or(PATH, |wanted| wanted.as_str());
    let mut request = Request::builder().method(head.method.clone()).uri(wanted);
    for name in PASSED_ON {
        if let Some(value) = head.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(Bytes::new()) else {
        return plain(StatusCode::BAD_REQUEST, "400 bad request\n");
    };
    match transport.send(request).await {
        Ok(response) => response.map(|body| {
            // A stream that breaks off ends; the page asks for another one.
            let frames = stream::unfold(body, async |mut body| body.frame().await.map(|frame| (frame, body)));
            let whole =
                frames.take_while(|frame| future::ready(frame.is_ok())).filter_map(async |frame| frame.ok());
            StreamBody::new(whole.map(Ok)).boxed_unsync()
        }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the manager did not answer");
            plain(StatusCode::BAD_GATEWAY, "the manager does not answer\n")
        }
    }
}

async fn converse(stream: TcpStream, local: Local) {
    let service = service_fn(move |request: Request<Incoming>| {
        let local = local.clone();
        async move {
            let (head, body) = request.into_parts();
            Ok::<_, std::convert::Infallible>(local.respond(head, body, Wire::Plain).await)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let served = http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}
