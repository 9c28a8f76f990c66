//! OpenID discovery, for clients that verify service account tokens themselves: the issuer and its public key.

use http::{HeaderValue, header};
use serde_json::json;

use crate::http::respond;
use crate::server::Inner;
use crate::verbs::Answer;

/// As upstream: clients may keep both documents for an hour.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=3600");

pub(crate) fn configuration(server: &Inner) -> Answer {
    let document = json!({
        "issuer": server.options.issuer,
        "jwks_uri": format!("https://{}/openid/v1/jwks", server.options.advertise),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [server.authn.keys.algorithm()],
    });
    cached(document.to_string(), "application/json")
}

pub(crate) fn keys(server: &Inner) -> Answer {
    let set = json!({"keys": [server.authn.keys.public_jwk()]});
    cached(set.to_string(), "application/jwk-set+json")
}

fn cached(text: String, content_type: &'static str) -> Answer {
    let mut response = respond::with_type(200, text.into(), content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE);
    response.into()
}
