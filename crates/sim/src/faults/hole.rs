//! A connection that leads nowhere: what is sent on it gets no answer, what was watched falls silent, and nobody is
//! told of a failure.

use std::sync::Arc;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use futures::future::BoxFuture;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::watch;

/// Swallows lists and watches of some resources while it is open; what it held back arrives when it closes.
pub struct Hole {
    plurals: &'static [&'static str],
    open: watch::Sender<bool>,
}

impl Hole {
    /// A closed hole in the way of these resources.
    pub fn new(plurals: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { plurals, open: watch::Sender::new(false) })
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// The same transport with the hole in it.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Leaky { hole: self.clone(), inner })
    }

    async fn closed(&self) {
        // The sender lives as long as this.
        let _ = self.open.subscribe().wait_for(|open| !open).await;
    }

    fn swallows(&self, request: &http::Request<Bytes>) -> bool {
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default();
        request.method() == http::Method::GET && self.plurals.contains(&plural)
    }
}

struct Leaky {
    hole: Arc<Hole>,
    inner: Arc<dyn Transport>,
}

impl Transport for Leaky {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (hole, inner) = (self.hole.clone(), self.inner.clone());
        if !hole.swallows(&request) {
            return inner.send(request);
        }
        Box::pin(async move {
            hole.closed().await;
            let (head, body) = inner.send(request).await?.into_parts();
            let frames = stream::unfold((body, hole), |(mut body, hole)| async move {
                let frame = body.frame().await?;
                hole.closed().await;
                Some((frame, (body, hole)))
            });
            Ok(http::Response::from_parts(head, StreamBody::new(frames).boxed_unsync()))
        })
    }
}
