//! The live page beside the API: `/ui` on the same port, for whoever has its link. On this machine it is served without TLS, too,
//! as no browser trusts the certificate of a playground.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use flyball_apiserver::{Body, BoxError, Plain, refuse};
use flyball_cache::Informers;
use flyball_client::Client;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::{Clock, Health, Insight};
use flyball_ui::{Local, Sources, Wire, is_page};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::Service;
use tower::util::BoxCloneService;

use super::acts::Buttons;

/// A viewer whose stream ends gets a new one at once; there are no permissions that could have changed.
const STREAM_LASTS: Duration = Duration::from_secs(600);

/// What the page shows of the controllers.
pub(super) struct Shown {
    pub(super) informers: Informers,
    pub(super) insight: Insight,
    pub(super) health: Health,
}

pub(super) fn sources(
    shown: Shown,
    decisions: &DecisionLog,
    client: Client,
    clock: Clock,
    buttons: Buttons,
) -> Sources {
    Sources {
        component: "playground",
        clock,
        informers: shown.informers,
        insight: shown.insight,
        health: shown.health,
        decisions: decisions.clone(),
        leads: Arc::new(|| None),
        acts: Some(Arc::new(buttons)),
        client,
        stream_lasts: STREAM_LASTS,
    }
}

/// The page, which is there once the controllers are. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Page {
    local: Arc<OnceLock<Local>>,
}

impl Page {
    pub(super) fn open(&self, local: Local) {
        let _ = self.local.set(local);
    }

    pub(super) fn link(&self) -> Option<String> {
        self.local.get()?.link()
    }

    /// The page, if there is one and the request is for it.
    fn wanted<B>(&self, request: &Request<B>) -> Option<Local> {
        self.local.get().filter(|_| is_page(request.uri().path())).cloned()
    }

    /// The service for requests without TLS: only the page.
    pub(super) fn plain(&self) -> Plain {
        let page = self.clone();
        BoxCloneService::new(tower::service_fn(move |request| {
            let local = page.wanted(&request);
            async move {
                match local {
                    Some(local) => Ok(answer(local, request, Wire::Plain).await),
                    None => refuse(request).await,
                }
            }
        }))
    }

    /// The page in front of a service.
    pub(super) fn before<S>(&self, behind: S) -> Front<S> {
        Front { page: self.clone(), behind }
    }
}

async fn answer<B>(local: Local, request: Request<B>, wire: Wire) -> Response<Body>
where
    B: http_body::Body<Data: Buf + Send, Error: Into<BoxError>> + Send + 'static,
{
    let (head, body) = request.into_parts();
    let is_head = head.method == http::Method::HEAD;
    let answer = local.respond(head, body, wire).await;
    answer.map(|body| match is_head {
        // Over HTTP/2 a body would be a protocol error.
        true => Full::default().map_err(|never: Infallible| match never {}).boxed_unsync(),
        false => body.map_err(|never: Infallible| match never {}).boxed_unsync(),
    })
}

/// See [`Page::before`].
#[derive(Clone)]
pub(super) struct Front<S> {
    page: Page,
    behind: S,
}

impl<S, B> Service<Request<B>> for Front<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error: 'static, Future: Send + 'static>,
    B: http_body::Body<Data: Buf + Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.behind.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.page.wanted(&request) {
            Some(local) => answer(local, request, Wire::Tls).map(Ok).boxed(),
            None => self.behind.call(request).boxed(),
        }
    }
}
