//! A transport to the server in this process, without a socket or certificates.

use bytes::Bytes;
use flyball_apiserver::ApiServer;
use flyball_apiserver::registry::User;
use flyball_client::{Body, ServiceTransport, Transport, TransportError};
use futures::future::BoxFuture;

/// Sends every request as one user, unless it has a token.
pub(super) struct UserTransport {
    inner: ServiceTransport<ApiServer>,
    user: Option<User>,
}

impl UserTransport {
    pub(super) fn new(server: ApiServer, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User { name: user.to_owned(), groups, ..User::default() };
        Self { inner: ServiceTransport::new(server), user: Some(user) }
    }

    /// For requests that have a token.
    pub(super) fn by_token(server: ApiServer) -> Self {
        Self { inner: ServiceTransport::new(server), user: None }
    }
}

impl Transport for UserTransport {
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
