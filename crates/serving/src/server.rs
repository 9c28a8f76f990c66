//! One request: authentication, authorization and the page. Independent of sockets.

use std::{io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use flyball_client::BoxError;
use flyball_listen::{Seldom, SeldomEach};
use http::{HeaderValue, Method, Request, StatusCode, Version, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use crate::{
    Authenticator, Authorizer, Listening, Pages, Peer, ServingOptions,
    answer::{self, Answer},
    authn::Rejected,
    authz::Verdict,
    listener::{Respond, listen},
    percent, routes,
};

const MAX_BODY: usize = 64 << 10;
const BODY_WITHIN: Duration = Duration::from_secs(32);

#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// Files or options cannot be used; the text names them.
    #[error("{0}")]
    Options(String),
    #[error("cannot listen on {address} ({flags})")]
    Listen {
        address: SocketAddr,
        /// The flags that say where.
        flags: String,
        source: io::Error,
    },
}

#[derive(Debug)]
pub struct Server {
    pages: Pages,
    authenticator: Authenticator,
    authorizer: Authorizer,
    /// The feature gate UnauthenticatedHTTP2DOSMitigation.
    closes_on_strangers: bool,
    rejections: Seldom,
    failures: Seldom,
    failed_checks: SeldomEach,
}

impl Server {
    pub fn new(pages: Pages, authenticator: Authenticator, authorizer: Authorizer) -> Self {
        Self {
            pages,
            authenticator,
            authorizer,
            closes_on_strangers: true,
            rejections: Seldom::default(),
            failures: Seldom::default(),
            failed_checks: SeldomEach::default(),
        }
    }

    /// Whether an HTTP/2 connection ends with the first response to an unauthenticated request (feature gate
    /// UnauthenticatedHTTP2DOSMitigation).
    pub fn closing_on_strangers(self, closes_on_strangers: bool) -> Self {
        Self { closes_on_strangers, ..self }
    }

    /// Starts to listen and serve; `None` if the port is 0.
    pub fn listen(self, options: &ServingOptions) -> Result<Option<Listening>, ServingError> {
        listen(self, options)
    }

    /// Handles one request. Its body is read only if the page needs it and the request is authorized.
    pub(super) async fn answer<B>(&self, request: Request<B>, peer: &Peer) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let mut answer = self.decide(&head, body, peer).await;
        if head.method == Method::HEAD {
            answer::behead(&mut answer);
        }
        let headers = answer.headers_mut();
        let private = HeaderValue::from_static("no-cache, private");
        headers.entry(header::CACHE_CONTROL).or_insert(private);
        answer
    }

    async fn decide<B>(&self, head: &Parts, body: B, peer: &Peer) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        // Decoded once, so that authorization and routing use the same path.
        let Some(path) = percent::decoded(head.uri.path()) else {
            return answer::text(StatusCode::BAD_REQUEST, "400 Bad Request: invalid URL escape\n");
        };
        let user = match self.authenticator.authenticate(&head.headers, peer).await {
            Ok(user) => user,
            Err(Rejected(reason)) => {
                self.rejections.say(|unsaid| {
                    tracing::info!(reason, unsaid, "a request's credentials were rejected");
                });
                return self.to_stranger(head, answer::unauthorized());
            }
        };
        let verb = head.method.as_str().to_ascii_lowercase();
        let answer = match self.authorizer.authorize(&user, &verb, &path).await {
            Ok(Verdict::Allowed) => self.page(head, &path, body).await,
            Ok(Verdict::Denied(reason)) => {
                let refusal = format!("User {:?} cannot {verb} path {path:?}", user.name);
                answer::forbidden(&if reason.is_empty() { refusal } else { format!("{refusal}: {reason}") })
            }
            Err(error) => {
                self.failures.say(|unsaid| {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        unsaid,
                        "an access review failed"
                    );
                });
                answer::text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("Internal Server Error: {path:?}: {error}\n"),
                )
            }
        };
        if user.is_anonymous() { self.to_stranger(head, answer) } else { answer }
    }

    async fn page<B>(&self, head: &Parts, path: &str, body: B) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mounted = self.pages.mounted.as_ref().filter(|mounted| self.pages.debug && mounted.has(path));
        if let Some(mounted) = mounted {
            return (mounted.answer)(head.clone()).await;
        }
        if !routes::reads_body(&head.method, path) {
            return routes::route(&self.pages, &self.failed_checks, head, path, &Bytes::new());
        }
        match timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => routes::route(&self.pages, &self.failed_checks, head, path, &body.to_bytes()),
            Ok(Err(_)) => {
                answer::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or broken off\n")
            }
            Err(_) => answer::text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
        }
    }

    /// An unauthenticated client does not keep an HTTP/2 connection, since streams are cheap to open for an attacker.
    fn to_stranger(&self, head: &Parts, mut answer: Answer) -> Answer {
        if self.closes_on_strangers && head.version == Version::HTTP_2 {
            answer.extensions_mut().insert(CloseAfter);
        }
        answer
    }
}

impl Respond for Server {
    fn respond(&self, request: Request<Incoming>, peer: &Peer) -> impl Future<Output = Answer> + Send {
        self.answer(request, peer)
    }
}

#[derive(Debug, Clone)]
struct CloseAfter;

/// Whether the connection ends with this response.
pub(super) fn closes(answer: &Answer) -> bool {
    answer.extensions().get::<CloseAfter>().is_some()
}
