//! The way into a cluster from other threads: requests are handled on the cluster's own runtime, so that its time and the order
//! in which its tasks run do not depend on who asks.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use flyball_apiserver::registry::User;
use flyball_apiserver::{ApiServer, Body, BoxError};
use futures::future::BoxFuture;
use futures::stream;
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tower::Service;

/// Pieces of a response that wait for a slow reader.
const PIECES: usize = 16;

/// The cluster has stopped.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the cluster has stopped")]
pub struct Gone;

/// A tower service in front of the API server. Cheap to clone.
#[derive(Clone)]
pub struct ClusterService {
    server: ApiServer,
    runtime: Handle,
    user: Option<User>,
    /// Changes when a request that may write begins, and when it has ended.
    writes: Arc<watch::Sender<Writes>>,
}

/// Requests that may write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Writes {
    /// How many have begun.
    pub begun: u64,
    /// How many of them have not ended.
    pub open: u64,
}

/// One of them, from its begin to its end.
struct Writing(Arc<watch::Sender<Writes>>);

impl Writing {
    fn begin(writes: &Arc<watch::Sender<Writes>>) -> Self {
        writes.send_modify(|writes| {
            writes.begun += 1;
            writes.open += 1;
        });
        Self(Arc::clone(writes))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.send_modify(|writes| writes.open -= 1);
    }
}

impl ClusterService {
    /// For requests that say themselves who sends them: by a token, or by a `User` among their extensions.
    pub(super) fn new(server: ApiServer, runtime: Handle) -> Self {
        Self { server, runtime, user: None, writes: Arc::default() }
    }

    /// The same for requests of one user. Requests that have a token are those of its user.
    #[must_use]
    pub fn for_user(&self, user: User) -> Self {
        Self { user: Some(user), ..self.clone() }
    }

    /// Changes whenever a request that may write begins or has ended.
    pub fn writes(&self) -> watch::Receiver<Writes> {
        self.writes.subscribe()
    }
}

impl std::fmt::Debug for ClusterService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterService").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for ClusterService
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Gone;
    type Future = BoxFuture<'static, Result<Response<Body>, Gone>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let has_token = request.headers().contains_key(http::header::AUTHORIZATION);
        if let Some(user) = self.user.as_ref().filter(|_| !has_token) {
            request.extensions_mut().insert(user.clone());
        }
        let may_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        let writing = may_write.then(|| Writing::begin(&self.writes));
        let mut server = self.server.clone();
        let answer = self.runtime.spawn(async move {
            let Ok(response): Result<_, Infallible> = server.call(request).await;
            drop(writing);
            response.map(carried)
        });
        Box::pin(async move { answer.await.map_err(|_| Gone) })
    }
}

/// A body that can be read on any runtime. One that goes on, such as that of a watch, has timers, so it is read here.
fn carried(mut body: Body) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let (pieces, read) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        loop {
            let piece = tokio::select! {
                piece = body.frame() => piece,
                () = pieces.closed() => return,
            };
            let Some(piece) = piece else { return };
            if pieces.send(piece).await.is_err() {
                return;
            }
        }
    });
    let pieces = stream::unfold(read, async |mut read| read.recv().await.map(|piece| (piece, read)));
    StreamBody::new(pieces).boxed_unsync()
}
