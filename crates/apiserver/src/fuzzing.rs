//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use std::sync::LazyLock;

use serde_json::Value;

use crate::authn::token::Keys;
use crate::http::{body, protobuf};

static KEYS: LazyLock<Option<Keys>> = LazyLock::new(|| Keys::new(None).ok());

/// Whether this is an object in Kubernetes' protobuf envelope.
pub fn decode_protobuf(bytes: &[u8]) -> bool {
    protobuf::decode(bytes).is_ok()
}

/// A body in JSON, and the paths of its duplicate keys.
pub fn decode_json(bytes: &[u8]) -> Option<(Value, Vec<String>)> {
    body::object("application/json", &bytes.to_vec().into(), "").ok()
}

/// Whether a new key accepts the signature of this token.
pub fn opens(token: &str) -> bool {
    KEYS.as_ref().is_some_and(|keys| keys.open(token).is_some())
}
