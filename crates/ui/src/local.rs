//! The page of a process that has no users of its own, as the playground: whoever has the link that it prints may look and
//! press buttons.
//!
//! The link works once. It is exchanged for a cookie that scripts cannot read and that no other site can send. Requests have
//! to name this process by an address that is its own, so that a foreign name which resolves to it (DNS rebinding) is refused.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use flyball_client::BoxError;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use crate::PATH;
use crate::answer::{Answer, redirect, text};
use crate::origin;
use crate::respond::Ui;
use crate::sessions::Sessions;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Tls,
    /// Only from this machine.
    Plain,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Local {
    inner: Arc<Inner>,
}

/// What answers a visitor who may do everything.
pub type Behind = Arc<dyn Fn(Parts, RequestBody) -> BoxFuture<'static, Answer> + Send + Sync>;
pub type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// Why the body of a request cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the body cannot be read")]
pub struct BodyError(#[source] BoxError);

struct Inner {
    behind: Behind,
    sessions: Sessions,
    address: SocketAddr,
    /// The names in `Host` that are ours. The port is that of whoever forwards to us, as `ssh -L` does.
    hosts: Vec<String>,
    /// Cookies do not tell ports apart, so the name does: there may be several clusters on one machine.
    cookie: String,
}

impl Local {
    /// The page of this process. `address` is where it is reached, `names` are others by which it is.
    pub fn new(ui: Ui, address: SocketAddr, names: &[String]) -> Self {
        let behind = move |head: Parts, body| {
            let ui = ui.clone();
            async move { ui.respond_to_owner(&head, body).await }.boxed()
        };
        Self::before(Arc::new(behind), address, names)
    }

    /// The same for a page that something else answers.
    pub fn before(behind: Behind, address: SocketAddr, names: &[String]) -> Self {
        let port = address.port();
        let own =
            [address.ip().to_string(), "127.0.0.1".to_owned(), "localhost".to_owned(), "::1".to_owned()];
        let hosts = own.iter().chain(names).map(|name| match name.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => name.to_ascii_lowercase(),
        });
        let hosts = hosts.collect();
        let cookie = format!("flyball-ui-{port}");
        Self { inner: Arc::new(Inner { behind, sessions: Sessions::default(), address, hosts, cookie }) }
    }

    /// A link that works once. `None` if the system has no randomness.
    pub fn link(&self) -> Option<String> {
        let (address, secret) = (self.inner.address, self.inner.sessions.link()?);
        // No browser trusts the certificate of a playground; to this machine itself it is not needed.
        let scheme = if address.ip().is_loopback() { "http" } else { "https" };
        Some(format!("{scheme}://{address}{PATH}/enter?link={secret}"))
    }

    /// Answers a request for the page, if its sender may look.
    pub async fn respond<B>(&self, mut head: Parts, body: B, wire: Wire) -> Answer
    where
        B: http_body::Body<Data: Buf + Send, Error: Into<BoxError>> + Send + 'static,
    {
        let Some(host) = self.own_host(&head) else {
            return text(StatusCode::MISDIRECTED_REQUEST, "This page is not at this address.");
        };
        // HTTP/2 has it in the address only.
        head.headers.insert(header::HOST, host);
        if head.uri.path() == "/ui/enter" && head.method == Method::GET {
            return self.enter(&head, wire);
        }
        if !self.inner.sessions.knows(&head.headers, &self.inner.cookie) {
            return text(
                StatusCode::UNAUTHORIZED,
                "Not logged in. `flyball ui` prints a link to this page; each link works once.",
            );
        }
        // Checked here, since requests may be forwarded to a remote manager without the browser's headers.
        if let Err(why) = origin::check(&head.method, head.uri.path(), &head.headers) {
            return text(StatusCode::FORBIDDEN, why);
        }
        let body = body.map_frame(whole).map_err(|error| BodyError(error.into())).boxed_unsync();
        (self.inner.behind)(head, body).await
    }

    fn own_host(&self, head: &Parts) -> Option<HeaderValue> {
        let named = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let named = named.or_else(|| head.uri.authority().map(|authority| authority.as_str()))?;
        let authority: Authority = named.to_ascii_lowercase().parse().ok()?;
        let is_own = self.inner.hosts.iter().any(|host| host == authority.host());
        is_own.then(|| HeaderValue::from_str(authority.as_str()).ok()).flatten()
    }

    fn enter(&self, head: &Parts, wire: Wire) -> Answer {
        let query = head.uri.query().unwrap_or_default();
        let link = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "link");
        let session = link.and_then(|(_, link)| self.inner.sessions.enter(&link));
        let cookie = session.and_then(|session| {
            let secure = if wire == Wire::Tls { "; Secure" } else { "" };
            let name = &self.inner.cookie;
            HeaderValue::from_str(&format!(
                "{name}={session}; Path={PATH}; HttpOnly; SameSite=Strict{secure}"
            ))
            .ok()
        });
        match cookie {
            Some(cookie) => {
                let mut answer = redirect(StatusCode::SEE_OTHER, "/ui/");
                answer.headers_mut().insert(header::SET_COOKIE, cookie);
                answer
            }
            // Whoever reloads the link is in already.
            None if self.inner.sessions.knows(&head.headers, &self.inner.cookie) => {
                redirect(StatusCode::SEE_OTHER, "/ui/")
            }
            None => text(
                StatusCode::FORBIDDEN,
                "This link has been used, or is not from this run. `flyball ui` prints another one.",
            ),
        }
    }
}

/// The same frame in one piece of memory.
fn whole<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::Empty;

    use super::*;

    /// Other ports of this machine are the same site: their pages can cause requests, with the cookie.
    #[tokio::test]
    async fn only_requests_of_the_page_itself_reach_what_is_behind() {
        let address: SocketAddr = "127.0.0.1:6443".parse().unwrap();
        let behind: Behind = Arc::new(|_, _| async { text(StatusCode::OK, "a secret") }.boxed());
        let local = Local::before(behind, address, &[]);
        let get = async |path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::get(path).header("host", "127.0.0.1:6443");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            local.respond(head, Empty::<Bytes>::new(), Wire::Plain).await
        };
        let link = local.link().unwrap();
        let entered = get(link.strip_prefix("http://127.0.0.1:6443").unwrap(), &[]).await;
        let cookie =
            entered.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        #[rustfmt::skip]
        let table = [
            // sec-fetch-site  cookie   answer
            ("same-origin",    true,    StatusCode::OK),
            ("same-site",      true,    StatusCode::FORBIDDEN),
            ("cross-site",     true,    StatusCode::FORBIDDEN),
            ("same-origin",    false,   StatusCode::UNAUTHORIZED),
        ];
        for (site, has_cookie, want) in table {
            let cookie = if has_cookie { cookie.as_str() } else { "" };
            let answer = get("/ui/stream", &[("sec-fetch-site", site), ("cookie", cookie)]).await;
            assert_eq!(answer.status(), want, "{site}, with the cookie: {has_cookie}");
        }
    }
}
