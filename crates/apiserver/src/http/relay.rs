//! Passes a request on to another server, and its response back, as upstream's proxies do. Connections that change their
//! protocol (WebSockets) are passed on as well.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::respond::{Body, BoxError};

/// Headers about one connection, which are not passed on (RFC 9110 §7.6.1).
const OF_CONNECTIONS: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// Credentials of users of this server, which are not passed on.
const OF_USERS: [&str; 2] = ["authorization", "impersonate-"];

/// A request that goes on to another server.
pub(crate) struct Onward<'a> {
    pub(crate) parts: &'a request::Parts,
    pub(crate) body: Bytes,
    /// The path and the query there.
    pub(crate) target: String,
    /// Where the root of the other server is on this one: redirections lead through here, too.
    pub(crate) root: String,
    /// Headers that the other server gets instead of those of the client.
    pub(crate) replaced: HeaderMap,
    /// Beginnings of the names of further headers of the client that the other server does not get.
    pub(crate) withheld: &'static [&'static str],
}

/// A connection to another server.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection for T {}

impl Onward<'_> {
    /// Sends the request over a connection. The response is passed on while it arrives; the error says why there is none.
    pub(crate) async fn send(self, connection: Box<dyn Connection>) -> Result<Response<Body>, String> {
        let broken =
            |error: hyper::Error| if error.is_canceled() { "EOF".to_owned() } else { error.to_string() };
        let (mut sender, driver) =
            hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(broken)?;
        // It ends with the response, or with the connection that it became.
        tokio::spawn(driver.with_upgrades());
        let client = self.parts.extensions.get::<OnUpgrade>().cloned();
        let request = self.request().map_err(|error| error.to_string())?;
        let mut response = sender.send_request(request).await.map_err(broken)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(client) = client
        {
            let server = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                if let Err(error) = join(client, server).await {
                    tracing::debug!(%error, "a proxied connection failed");
                }
            });
        }
        Ok(passed_back(response, &self.root))
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut headers = kept(&self.parts.headers);
        let names: Vec<HeaderName> = headers.keys().cloned().collect();
        for name in names {
            if OF_USERS.iter().chain(self.withheld).any(|theirs| name.as_str().starts_with(theirs)) {
                headers.remove(&name);
            }
        }
        if !headers.contains_key(header::HOST) {
            // Over HTTP/2 it is a part of the URI.
            let host = self.parts.uri.authority().map_or("localhost", |authority| authority.as_str());
            headers.insert(header::HOST, HeaderValue::from_str(host)?);
        }
        for name in self.replaced.keys() {
            headers.remove(name);
        }
        for (name, value) in &self.replaced {
            headers.append(name, value.clone());
        }
        let mut request = Request::builder()
            .method(&self.parts.method)
            .uri(&self.target)
            .body(Full::new(self.body.clone()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Headers without those about the connection, unless it changes its protocol.
fn kept(headers: &HeaderMap) -> HeaderMap {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed: Vec<String> =
        listed.flat_map(|list| list.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    let upgrades =
        listed.iter().any(|name| name == "upgrade").then(|| headers.get(header::UPGRADE)).flatten();
    let mut kept = headers.clone();
    for name in &OF_CONNECTIONS {
        kept.remove(name);
    }
    for name in &listed {
        kept.remove(name.as_str());
    }
    if let Some(protocol) = upgrades {
        kept.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        kept.insert(header::UPGRADE, protocol.clone());
    }
    kept
}

fn passed_back(response: Response<Incoming>, root: &str) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let mut headers = kept(&parts.headers);
    if let Some(location) = headers.get(header::LOCATION).and_then(|value| value.to_str().ok())
        && let Some(here) = seen_from_here(location, root)
        && let Ok(here) = HeaderValue::from_str(&here)
    {
        headers.insert(header::LOCATION, here);
    }
    let mut response = Response::new(body.map_err(BoxError::from).boxed_unsync());
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    response
}

/// A redirection to a path of the other server leads to that path below `root`.
fn seen_from_here(location: &str, root: &str) -> Option<String> {
    let is_path = location.starts_with('/') && !location.starts_with("//");
    (is_path && !location.starts_with(root)).then(|| format!("{root}{location}"))
}

/// Passes bytes on in both directions.
async fn join(client: OnUpgrade, server: OnUpgrade) -> Result<(), BoxError> {
    let (mut client, mut server) = (TokioIo::new(client.await?), TokioIo::new(server.await?));
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_lead_through_here() {
        let root = "/api/v1/namespaces/a/pods/b/proxy";
        #[rustfmt::skip]
        let table = [
            ("/x",                                   Some("/api/v1/namespaces/a/pods/b/proxy/x")),
            ("x",                                    None),
            ("//elsewhere/x",                        None),
            ("https://elsewhere/x",                  None),
            ("/api/v1/namespaces/a/pods/b/proxy/x",  None),
        ];
        for (location, want) in table {
            assert_eq!(seen_from_here(location, root).as_deref(), want, "{location}");
        }
    }

    #[test]
    fn headers_of_the_connection_stay_unless_it_changes() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            pairs.iter().map(pair).collect()
        };
        #[rustfmt::skip]
        let table = [
            (headers(&[("connection", "close, x-mine"), ("x-mine", "1"), ("accept", "a")]), headers(&[("accept", "a")])),
            (headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]),
             headers(&[("connection", "Upgrade"), ("upgrade", "websocket")])),
            (headers(&[("upgrade", "websocket"), ("te", "trailers")]),                      headers(&[])),
        ];
        for (given, want) in table {
            assert_eq!(kept(&given), want, "{given:?}");
        }
    }
}
