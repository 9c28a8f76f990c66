//! Sends requests to either server.

use bytes::Bytes;
use flyball_apiserver::{ApiServer, Options, StaticToken};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

use crate::real::Real;

/// How many nodes have tokens.
pub(crate) const NODES: usize = 4;

pub(crate) enum Backend {
    Embedded(ApiServer),
    Real(Real),
}

/// An answer: status, one header worth looking at, body.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warning: String,
    pub(crate) body: Bytes,
}

impl Backend {
    pub(crate) fn embedded() -> Self {
        let mut tokens = vec![
            StaticToken::new("admin-token", "admin", &["system:masters"]),
            StaticToken::new("user-token", "jane", &["developers"]),
        ];
        tokens.extend((1..=NODES).map(|node| {
            let (token, user) = (format!("node-{node}-token"), format!("system:node:n{node}"));
            StaticToken::new(&token, &user, &["system:nodes"])
        }));
        let disabled_admission = ["ServiceAccount".to_owned()].into();
        let options = Options { tokens, disabled_admission, ..Options::default() };
        Self::Embedded(ApiServer::new(options).unwrap())
    }

    pub(crate) async fn send(&self, request: Request<Bytes>) -> Answer {
        let (parts, body) = match self {
            Backend::Embedded(server) => {
                let response = server.clone().oneshot(request.map(Full::new)).await.unwrap();
                let (parts, body) = response.into_parts();
                (parts, body.collect().await.unwrap().to_bytes())
            }
            Backend::Real(real) => real.send(request).await,
        };
        let warning = parts.headers.get("warning").and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
        Answer { code: parts.status.as_u16(), warning, body }
    }
}
