//! A server without authentication: handlers by path, such as admission webhooks, whose callers are known by the network.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    Listening, Peer, ServingError, ServingOptions,
    answer::{self, Answer},
    listener::{Respond, listen},
};

/// An admission review has an object twice, and the API server accepts objects of three megabytes.
const MAX_BODY: usize = 16 << 20;
const BODY_WITHIN: Duration = Duration::from_secs(32);

/// A request with its whole body.
#[derive(Debug, Clone)]
pub struct Posted {
    /// Empty if there is none.
    pub content_type: String,
    pub body: Bytes,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status code of HTTP and a line of text.
    Text(u16, String),
    /// Success, with a JSON document.
    Json(Vec<u8>),
}

/// Answers requests for one path.
pub type Handler = Arc<dyn Fn(Posted) -> BoxFuture<'static, Reply> + Send + Sync>;

/// Handlers by their exact path.
pub struct OpenServer {
    handlers: BTreeMap<String, Handler>,
}

impl OpenServer {
    pub fn new(handlers: BTreeMap<String, Handler>) -> Self {
        Self { handlers }
    }

    /// Starts to listen and serve; `None` if the port is 0.
    pub fn listen(self, options: &ServingOptions) -> Result<Option<Listening>, ServingError> {
        listen(self, options)
    }
}

impl Reply {
    fn answer(self) -> Answer {
        match self {
            Self::Text(code, text) => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                answer::text(code, format!("{text}\n"))
            }
            Self::Json(document) => answer::answer(StatusCode::OK, "application/json", document),
        }
    }
}

impl Respond for OpenServer {
    async fn respond(&self, request: Request<Incoming>, _: &Peer) -> Answer {
        let (head, body) = request.into_parts();
        let Some(handler) = self.handlers.get(head.uri.path()) else { return answer::not_found() };
        let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let reply = match timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => handler(Posted { content_type, body: body.to_bytes() }).await,
            Ok(Err(_)) => Reply::Text(413, "the body is too large or broken off".to_owned()),
            Err(_) => Reply::Text(408, "the body took too long".to_owned()),
        };
        reply.answer()
    }
}
