//! A blackholed connection: requests get no response, watches no events, and there is no error. Or a connection so slow that
//! watches fall behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Body, Transport, TransportError};
use flyball_latest as latest;
use futures::future::BoxFuture;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Holds lists and watches of some resources back while it is open; what was held back arrives when it closes.
pub struct Blackhole {
    plurals: &'static [&'static str],
    open: latest::Sender<bool>,
    /// Watches get one frame each time this has passed, and when the next is due.
    pace: Mutex<(Duration, Option<Instant>)>,
}

impl Blackhole {
    /// A closed blackhole for these resources.
    pub fn new(plurals: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { plurals, open: latest::Sender::new(false), pace: Mutex::default() })
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Lets one frame of all watches pass each time `pause` has passed, from now on.
    pub fn trickle(&self, pause: Duration) {
        *self.pace.lock() = (pause, None);
    }

    /// Waits until a frame of a watch may pass.
    async fn turn(&self) {
        let turn = {
            let (pause, next) = &mut *self.pace.lock();
            let turn = next.unwrap_or_else(Instant::now).max(Instant::now());
            *next = Some(turn + *pause);
            turn
        };
        tokio::time::sleep_until(turn).await;
    }

    /// The transport with the blackhole.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Blackholed { blackhole: self.clone(), inner })
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

struct Blackholed {
    blackhole: Arc<Blackhole>,
    inner: Arc<dyn Transport>,
}

impl Transport for Blackholed {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (blackhole, inner) = (self.blackhole.clone(), self.inner.clone());
        if !blackhole.swallows(&request) {
            return inner.send(request);
        }
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        Box::pin(async move {
            blackhole.closed().await;
            let (head, body) = inner.send(request).await?.into_parts();
            let frames = stream::unfold((body, blackhole), move |(mut body, blackhole)| async move {
                let frame = body.frame().await?;
                blackhole.closed().await;
                if watches {
                    blackhole.turn().await;
                }
                Some((frame, (body, blackhole)))
            });
            Ok(http::Response::from_parts(head, StreamBody::new(frames).boxed_unsync()))
        })
    }
}
