//! One request for the page. Its caller has found out that the visitor may look.

use std::sync::Arc;
use std::time::Duration;

use flyball_client::BoxError;
use futures::StreamExt as _;
use http::request::Parts;
use http::{Method, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::acts::Act;
use crate::answer::{Answer, JSON, answer, json, problem, redirect, text, with_body};
use crate::assets::asset;
use crate::feed::Feed;
use crate::why::{Asked, Unexplained, Why};
use crate::{PATH, Sources, origin};

const MAX_BODY: usize = 4 << 10;
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The page of one process. Cheap to clone.
#[derive(Clone)]
pub struct Ui {
    inner: Arc<Inner>,
}

struct Inner {
    sources: Sources,
    feed: Arc<Feed>,
    why: Why,
}

impl Ui {
    /// The feed runs on `runtime`, whoever asks for it.
    pub fn new(sources: Sources, runtime: Handle) -> Self {
        let feed = Feed::new(sources.clone(), runtime);
        Self { inner: Arc::new(Inner { sources, feed, why: Why::default() }) }
    }

    /// Answers a request for a path for which [`is_page`](crate::is_page) holds, by a visitor who may look.
    pub async fn respond(&self, head: &Parts) -> Answer {
        if let Err(why) = origin::check(&head.method, head.uri.path(), &head.headers) {
            return text(StatusCode::FORBIDDEN, why);
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return not_allowed();
        }
        match rest(head) {
            // So that relative names are found.
            None => redirect(StatusCode::PERMANENT_REDIRECT, "/ui/"),
            Some("stream") if head.method == Method::GET => self.stream(),
            Some("why") => self.why(head.uri.query().unwrap_or_default()).await,
            Some(name) => asset(name, &head.headers)
                .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found")),
        }
    }

    /// The same for a visitor who may also press buttons.
    pub async fn respond_to_owner<B>(&self, head: &Parts, body: B) -> Answer
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        match (rest(head), &head.method) {
            (Some("act"), &Method::POST) => self.act(head, body).await,
            _ => self.respond(head).await,
        }
    }

    fn stream(&self) -> Answer {
        let messages = self.inner.feed.join().messages();
        let frames = StreamBody::new(messages.map(|message| Ok(Frame::data(message))));
        with_body(StatusCode::OK, "text/event-stream", frames.boxed_unsync())
    }

    async fn why(&self, query: &str) -> Answer {
        let mut asked = Asked::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "group" => asked.group = Some(value.into_owned()),
                "kind" => asked.kind = value.into_owned(),
                "namespace" => asked.namespace = value.into_owned(),
                "name" => asked.name = value.into_owned(),
                _ => {}
            }
        }
        if asked.kind.is_empty() || asked.name.is_empty() {
            return problem(StatusCode::BAD_REQUEST, "kind and name are needed");
        }
        match self.inner.why.explain(&self.inner.sources, &asked).await {
            Ok(explanation) => answer(StatusCode::OK, JSON, explanation),
            Err(Unexplained::Absent(why)) => problem(StatusCode::NOT_FOUND, &why),
            Err(Unexplained::Failed(why)) => problem(StatusCode::BAD_GATEWAY, &why),
        }
    }

    async fn act<B>(&self, head: &Parts, body: B) -> Answer
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let Some(acts) = &self.inner.sources.acts else {
            return problem(StatusCode::NOT_FOUND, "there are no buttons here");
        };
        if let Err(why) = origin::may_act(&head.headers) {
            return problem(StatusCode::FORBIDDEN, why);
        }
        let bytes = match timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return problem(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large or broken off");
            }
            Err(_) => return problem(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        };
        let act: Act = match serde_json::from_slice(&bytes) {
            Ok(act) => act,
            Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        tracing::info!(?act, "an action requested on the live page");
        match acts.act(act).await {
            Ok(done) => json(StatusCode::OK, &serde_json::json!({ "done": done })),
            Err(why) => problem(StatusCode::CONFLICT, &why),
        }
    }
}

impl std::fmt::Debug for Ui {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ui").field("component", &self.inner.sources.component).finish_non_exhaustive()
    }
}

/// What follows `/ui/`; nothing for `/ui` itself.
fn rest(head: &Parts) -> Option<&str> {
    head.uri.path().strip_prefix(PATH)?.strip_prefix('/')
}

fn not_allowed() -> Answer {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed");
    refused.headers_mut().insert(header::ALLOW, http::HeaderValue::from_static("GET, HEAD"));
    refused
}
