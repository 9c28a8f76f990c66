//! A transport on which responses are delayed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use futures::future::BoxFuture;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Delays every part of a response by `lag`, in order.
pub(crate) struct Lagging {
    pub(crate) inner: Arc<dyn Transport>,
    pub(crate) lag: Duration,
}

impl Transport for Lagging {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (inner, lag) = (self.inner.clone(), self.lag);
        Box::pin(async move {
            let (head, mut body) = inner.send(request).await?.into_parts();
            let (sender, arrivals) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                while let Some(frame) = body.frame().await {
                    if sender.send((Instant::now(), frame)).is_err() {
                        return;
                    }
                }
            });
            let late = stream::unfold(arrivals, move |mut arrivals| async move {
                let (arrived, frame) = arrivals.recv().await?;
                tokio::time::sleep_until(arrived + lag).await;
                Some((frame, arrivals))
            });
            Ok(http::Response::from_parts(head, StreamBody::new(late).boxed_unsync()))
        })
    }
}
