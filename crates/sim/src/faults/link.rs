//! The connection of one process to the server. It can be cut while the process continues: then nothing arrives in either direction, and
//! there is no error. What the process wants to send meanwhile is sent when the connection is back, unless its lease has ended by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use flyball_client::{Body, Fence, FenceClock, Transport, TransportError};
use flyball_latest as latest;
use futures::future::BoxFuture;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

pub struct Link {
    is_cut: latest::Sender<bool>,
    /// Until when the process may write.
    fence: Fence,
    /// Whether the process leads, as far as nobody else does.
    leads: AtomicBool,
    /// Whether another process leads by now.
    is_deposed: AtomicBool,
}

impl Link {
    /// An intact connection, of a process that may write without a limit.
    pub fn intact() -> Arc<Self> {
        let fence = Fence::new(FenceClock::Tokio(Instant::now()));
        let (leads, is_deposed) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { is_cut: latest::Sender::new(false), fence, leads, is_deposed })
    }

    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }

    pub fn is_cut(&self) -> bool {
        *self.is_cut.borrow()
    }

    /// The process leads from now on.
    pub fn lead(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// Another process leads from now on.
    pub fn depose(&self) {
        self.leads.store(false, Ordering::Relaxed);
        self.is_deposed.store(true, Ordering::Relaxed);
    }

    pub fn is_deposed(&self) -> bool {
        self.is_deposed.load(Ordering::Relaxed)
    }

    /// Waits until the connection is not cut.
    pub async fn up(&self) {
        // The sender lives as long as this.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| !is_cut).await;
    }

    /// The transport over this connection.
    pub(super) fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Linked { link: Arc::clone(self), inner })
    }
}

struct Linked {
    link: Arc<Link>,
    inner: Arc<dyn Transport>,
}

impl Transport for Linked {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let (link, inner) = (Arc::clone(&self.link), Arc::clone(&self.inner));
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        Box::pin(async move {
            link.up().await;
            // As the connection does right before the bytes are sent, reads included.
            if !link.fence.is_open() {
                return Err(TransportError::NotSent("the lease has expired".into()));
            }
            let answer = inner.send(request).await;
            link.up().await;
            if !is_watch {
                return answer;
            }
            let (head, body) = answer?.into_parts();
            let frames = stream::unfold((body, link), |(mut body, link)| async move {
                let frame = body.frame().await?;
                link.up().await;
                Some((frame, (body, link)))
            });
            Ok(http::Response::from_parts(head, StreamBody::new(frames).boxed_unsync()))
        })
    }
}
