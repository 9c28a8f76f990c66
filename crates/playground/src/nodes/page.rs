//! What simulated pods and nodes answer: pods a small page that says who they are, nodes whether they are healthy.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::objects::Pod;

/// How long a client may take for the head of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers the requests of a connection. `None`: there is no pod, and the page says why.
pub(crate) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin,
    who: Result<Arc<Pod>, String>,
    port: u16,
) {
    let answer = |path: &str| match &who {
        Ok(pod) => (StatusCode::OK, page(pod, port, path)),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    converse(connection, answer).await;
}

/// Answers the requests of a connection to the kubelet of a node.
pub(crate) async fn serve_node(connection: impl AsyncRead + AsyncWrite + Unpin) {
    let answer = |path: &str| match path {
        "/healthz" | "/healthz/ping" => (StatusCode::OK, "ok".to_owned()),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    converse(connection, answer).await;
}

async fn converse(
    connection: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(&str) -> (StatusCode, String),
) {
    let answer = |request: Request<Incoming>| {
        let (status, text) = answer(request.uri().path());
        let mut response = Response::new(text);
        *response.status_mut() = status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        std::future::ready(Ok::<_, Infallible>(response))
    };
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(connection), service_fn(answer));
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to a simulated pod or node broke");
    }
}

fn page(pod: &Pod, port: u16, path: &str) -> String {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let mut text = format!(
        "pod {} in namespace {}\nnode {}, address {}\nport {port}, path {path}\n",
        metadata.name, metadata.namespace, spec.node_name, pod.status.pod_ip
    );
    for container in &spec.containers {
        text.push_str(&format!("container {}: {} (simulated)\n", container.name, container.image));
    }
    text
}
