//! Requests that are passed on to aggregated servers, with the user in headers, and those that this server makes itself.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, header, request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;

use super::remote::Remote;
use crate::http::relay::Onward;
use crate::http::respond::{self, Body};
use crate::registry::User;
use crate::server::Inner;
use crate::standstill::Standstill;
use crate::verbs::Answer;

const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA: &str = "x-remote-extra-";
/// By these, a client would be whoever it likes.
const IDENTITY: [&str; 4] = [USER, UID, GROUP, EXTRA];
/// No discovery document is longer.
const LONGEST: usize = 16 * 1024 * 1024;

/// Passes a request on.
pub(crate) async fn answer(
    server: &Arc<Inner>,
    remote: &Remote,
    parts: &request::Parts,
    user: &User,
    body: Bytes,
) -> Answer {
    let unavailable = || Answer::from(respond::text(503, "service unavailable\n"));
    if !remote.is_available {
        return unavailable();
    }
    let Ok(place) = remote.place(server) else { return unavailable() };
    // Until the response begins: a watch goes on while time does.
    let _standstill = server.options.virtual_time.then(|| Standstill::begin(None));
    let onward = Onward {
        parts,
        body,
        target: parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        root: String::new(),
        replaced: identity(user),
        withheld: &IDENTITY,
    };
    let answered = match remote.connect(server, &place).await {
        Ok(connection) => onward.send(Box::new(connection)).await,
        Err(why) => Err(why),
    };
    match answered {
        Ok(response) if is_redirect(&response) => {
            respond::text(502, "the backend attempted to redirect this request, which is not permitted")
                .into()
        }
        Ok(response) => response.into(),
        Err(why) => respond::text(503, format!("error trying to reach service: {why}\n")).into(),
    }
}

fn is_redirect(response: &Response<Body>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(header::LOCATION)
}

/// The user in the headers that aggregated servers read.
fn identity(user: &User) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::try_from(name);
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    };
    add(USER, &user.name);
    if !user.uid.is_empty() {
        add(UID, &user.uid);
    }
    for group in &user.groups {
        add(GROUP, group);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped(key));
        for value in values {
            add(&name, value);
        }
    }
    headers
}

/// A key as a part of a header's name: what cannot be in one is encoded with `%`, as is `%` itself.
fn escaped(key: &str) -> String {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    key.bytes().fold(String::new(), |mut out, byte| {
        match is_legal(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// A request of this server to an aggregated one.
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) accept: Option<&'a str>,
}

/// What an aggregated server answered.
pub(super) struct Answered {
    pub(super) code: u16,
    pub(super) media: String,
    pub(super) body: Bytes,
}

/// Asks an aggregated server as `system:kube-aggregator`. The error says why there is no answer, in Go's words.
pub(super) async fn ask(
    server: &Inner,
    remote: &Remote,
    place: &(String, u16),
    asked: &Asked<'_>,
) -> Result<Answered, String> {
    let stream = remote.connect(server, place).await?;
    let broken = |error: hyper::Error| if error.is_canceled() { "EOF".to_owned() } else { error.to_string() };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut request = Request::get(asked.path)
        .header(header::HOST, format!("{}:{}", place.0, place.1))
        .header(header::USER_AGENT, "Go-http-client/1.1")
        .body(Full::new(Bytes::new()))
        .map_err(|error| error.to_string())?;
    let aggregator = User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    };
    request.headers_mut().extend(identity(&aggregator));
    if let Some(accept) = asked.accept.and_then(|accept| HeaderValue::from_str(accept).ok()) {
        request.headers_mut().insert(header::ACCEPT, accept);
    }
    let answered = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let code = response.status().as_u16();
        let media = response.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.unwrap_or_default().to_owned();
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        Ok(Answered { code, media, body: body.map_err(|error| error.to_string())?.to_bytes() })
    };
    // The connection makes progress only while someone polls it.
    let (mut answered, mut connection) = (std::pin::pin!(answered), std::pin::pin!(connection));
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        // It may end right after the answer; then the answer is there.
        _ = &mut connection => answered.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_in_headers() {
        let user = User {
            name: "jane".to_owned(),
            uid: "1".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: [("example.com/key%".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
        };
        let headers = identity(&user);
        let lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
        assert_eq!(
            lines.join(" "),
            "x-remote-user=jane x-remote-uid=1 x-remote-group=a x-remote-group=b \
             x-remote-extra-example.com%2fkey%25=x x-remote-extra-example.com%2fkey%25=y"
        );
    }
}
