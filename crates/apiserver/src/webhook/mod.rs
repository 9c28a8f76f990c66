//! Calls to webhooks: where they are, over TLS, and what is said when they cannot be called. Admission and the conversion of
//! custom resources use it.

mod dial;
mod service;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::server::Inner;
use crate::standstill::Standstill;
pub(crate) use dial::dial;
pub(crate) use service::resolve;
pub(crate) use tls::Tls;

/// No answer is longer; upstream's limit of a request.
const LONGEST_ANSWER: usize = 3 * 1024 * 1024;
const PORT: u16 = 443;

/// Where a webhook is.
#[derive(Debug)]
pub(crate) struct Client {
    target: Target,
    tls: Tls,
}

#[derive(Debug)]
enum Target {
    Url(String),
    Service { name: String, namespace: String, path: String, port: u16 },
}

/// An address to connect to, and the name that the server must have.
struct Place {
    host: String,
    port: u16,
    name: String,
}

impl Client {
    /// Reads a `clientConfig`.
    pub(crate) fn read(config: &Value) -> Self {
        use base64::Engine as _;
        let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let target = match config.get("service").filter(|service| service.is_object()) {
            Some(service) => Target::Service {
                name: text(service, "name"),
                namespace: text(service, "namespace"),
                path: text(service, "path"),
                port: service["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(PORT),
            },
            None => Target::Url(text(config, "url")),
        };
        let bundle = text(config, "caBundle");
        let authorities = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
        Self { target, tls: Tls::new(authorities) }
    }

    /// The URL as errors show it.
    fn url(&self, timeout: Option<Duration>) -> String {
        let base = match &self.target {
            Target::Url(url) => {
                let url = url.trim_end_matches('?');
                let start = url.find("://").map_or(0, |at| at + 3);
                let (host, path) = url[start..].split_once('/').unwrap_or((&url[start..], ""));
                format!("{}{host}{}", &url[..start], cleaned(path))
            }
            Target::Service { name, namespace, path, port } => {
                format!("https://{name}.{namespace}.svc:{port}{}", cleaned(path))
            }
        };
        match timeout {
            Some(timeout) => format!("{base}?timeout={}s", timeout.as_secs()),
            None => base,
        }
    }

    /// Posts an object and gives the one that is answered, or why there is none, in the words of the real server.
    pub(crate) async fn post(
        &self,
        server: &Inner,
        body: &Value,
        timeout: Option<Duration>,
    ) -> Result<Value, String> {
        let url = self.url(timeout);
        let _standstill = server.options.virtual_time.then(|| Standstill::begin(timeout));
        let exchange = self.exchange(server, &url, body);
        let outcome = match timeout {
            Some(timeout) => match tokio::time::timeout(timeout, exchange).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::Transport("context deadline exceeded".to_owned())),
            },
            None => exchange.await,
        };
        outcome.map_err(|failure| match failure {
            Failure::Transport(why) => format!("Post {url:?}: {why}"),
            Failure::Answer(why) => why,
        })
    }

    fn place(&self, server: &Inner, uri: &Uri) -> Result<Place, Failure> {
        match &self.target {
            Target::Url(_) => {
                let host = uri.host().unwrap_or_default();
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Ok(Place { name: host.clone(), host, port: uri.port_u16().unwrap_or(PORT) })
            }
            Target::Service { name, namespace, port, .. } => {
                let found = service::resolve(server, namespace, name, *port).map_err(Failure::Transport)?;
                Ok(Place { host: found.0, port: found.1, name: format!("{name}.{namespace}.svc") })
            }
        }
    }

    async fn exchange(&self, server: &Inner, url: &str, body: &Value) -> Result<Value, Failure> {
        let uri: Uri = url.parse().map_err(|error| Failure::Transport(format!("{error}")))?;
        let place = self.place(server, &uri)?;
        let stream = dial(&place.host, place.port).await.map_err(Failure::Transport)?;
        let peer = stream.peer_addr().ok();
        let stream = self.tls.handshake(stream, &place.name).await;
        let stream = stream.map_err(Failure::Transport)?;
        let closed = |_| Failure::Transport("EOF".to_owned());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(closed)?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.authority().map_or(place.name.as_str(), |authority| authority.as_str());
        let request = Request::post(path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| Failure::Transport(error.to_string()))?;
        // The connection makes progress only while someone polls it.
        let mut connection = std::pin::pin!(connection);
        let answered = async {
            let response = sender.send_request(request).await.map_err(closed)?;
            let status = response.status().as_u16();
            let is_text = response
                .headers()
                .get(header::CONTENT_TYPE)
                .is_none_or(|media| media.to_str().is_ok_and(|media| media.starts_with("text/")));
            let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
            let body = body.map_err(|error| Failure::Transport(error.to_string()))?;
            Ok((status, is_text, body.to_bytes()))
        };
        let mut answered = std::pin::pin!(answered);
        let answer: Result<(u16, bool, Bytes), Failure> = tokio::select! {
            biased;
            answer = &mut answered => answer,
            // It may end right after the answer; then the answer is there.
            _ = &mut connection => answered.await,
        };
        tracing::debug!(url, ?peer, "called a webhook");
        let (status, is_text, body) = answer?;
        understood(status, is_text, &body)
    }
}

/// Why a webhook gave no answer.
enum Failure {
    /// It could not be reached; the error names the URL.
    Transport(String),
    /// What it answered is no answer.
    Answer(String),
}

/// The object in an answer. A client of the real server has these words for the others.
fn understood(status: u16, is_text: bool, body: &[u8]) -> Result<Value, Failure> {
    let failed = |why: &str| Err(Failure::Answer(why.to_owned()));
    let given: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(given) = &given
        && given["kind"] == "Status"
        && given["status"] == "Failure"
    {
        return failed(given["message"].as_str().unwrap_or("unknown"));
    }
    let text = String::from_utf8_lossy(body);
    let text = if is_text { text.trim() } else { "unknown" };
    match status {
        200..=206 => match given {
            Some(object) if object.is_object() => Ok(object),
            _ => failed("couldn't get version/kind; json parse error: the answer is no JSON object"),
        },
        400 => failed("the server rejected our request for an unknown reason"),
        401 => failed("the server has asked for the client to provide credentials"),
        403 => failed(&format!("the server does not allow access to the requested resource: {text}")),
        404 => failed("the server could not find the requested resource"),
        405 => failed("the server does not allow this method on the requested resource"),
        503 => failed("the server is currently unable to handle the request"),
        500.. => {
            failed(&format!("an error on the server ({text:?}) has prevented the request from succeeding"))
        }
        _ => failed(&format!(
            "the server responded with the status code {status} but did not return more information"
        )),
    }
}

/// A path without empty segments and dots, as client-go sends it. The URLs that controller-runtime's envtest makes have two
/// slashes, which many servers answer with a redirection.
fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_shown_with_the_timeout() {
        #[rustfmt::skip]
        let table = [
            (json!({"url": "https://a:1"}),                                               "https://a:1/?timeout=5s"),
            (json!({"url": "https://a/b"}),                                               "https://a/b?timeout=5s"),
            (json!({"url": "https://127.0.0.1:9//b/./c/"}),                               "https://127.0.0.1:9/b/c?timeout=5s"),
            (json!({"service": {"name": "s", "namespace": "n", "path": "/p", "port": 8}}), "https://s.n.svc:8/p?timeout=5s"),
            (json!({"service": {"name": "s", "namespace": "n"}}),                         "https://s.n.svc:443/?timeout=5s"),
        ];
        for (config, want) in table {
            assert_eq!(Client::read(&config).url(Some(Duration::from_secs(5))), want);
        }
    }

    #[test]
    fn answers_that_are_none_have_the_words_of_a_client() {
        let why = |status, body: &str| match understood(status, true, body.as_bytes()) {
            Err(Failure::Answer(why) | Failure::Transport(why)) => why,
            Ok(object) => object.to_string(),
        };
        assert_eq!(why(200, "{}"), "{}");
        assert_eq!(why(404, "gone"), "the server could not find the requested resource");
        assert_eq!(
            why(500, "oh\n"),
            "an error on the server (\"oh\") has prevented the request from succeeding"
        );
    }
}
