//! The way into a server in this process: no socket, no certificate; the door says who comes in.

use bytes::Bytes;
use flyball_apiserver::ApiServer;
use flyball_apiserver::registry::User;
use flyball_client::{Body, ServiceTransport, Transport, TransportError};
use futures::future::BoxFuture;

/// A transport on which every request comes from one user, unless it brings a token.
pub(super) struct Door {
    inner: ServiceTransport<ApiServer>,
    user: Option<User>,
}

impl Door {
    pub(super) fn new(server: ApiServer, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User { name: user.to_owned(), groups, ..User::default() };
        Self { inner: ServiceTransport::new(server), user: Some(user) }
    }

    /// For requests that bring their own token.
    pub(super) fn open(server: ApiServer) -> Self {
        Self { inner: ServiceTransport::new(server), user: None }
    }
}

impl Transport for Door {
    fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        if let Some(user) = &self.user {
            request.extensions_mut().insert(user.clone());
        }
        self.inner.send(request)
    }

    fn host(&self) -> &str {
        self.inner.host()
    }
}
