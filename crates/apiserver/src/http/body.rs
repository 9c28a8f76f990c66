//! Reads request bodies: bounded; JSON, YAML or protocol buffers.

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use super::respond::BoxError;
use super::{json, protobuf};
use crate::error::ApiError;

/// The largest body that is accepted; upstream's limit.
pub(crate) const MAX_BYTES: usize = 3 * 1024 * 1024;

pub(crate) async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Data: Buf,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(ApiError::too_large(format!("limit is {MAX_BYTES}")))
        }
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// The media type of a request, without parameters; JSON when none is named.
pub(crate) fn media_type(headers: &http::HeaderMap) -> &str {
    let text = headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    match text.split(';').next().unwrap_or("").trim() {
        "" => "application/json",
        media => media,
    }
}

/// Parses an object that should be of `kind`. Also returns the paths of its duplicate keys.
pub(crate) fn object(media: &str, bytes: &Bytes, kind: &str) -> Result<(Value, Vec<String>), ApiError> {
    let unrecognised = |error: String| {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: \
             {error} ({shown})"
        ))
    };
    match media {
        "application/json" => json::parse(bytes).map_err(|error| unrecognised(error.to_string())),
        "application/yaml" => serde_yaml::from_slice(bytes)
            .map(|object| (object, Vec::new()))
            .map_err(|error| unrecognised(error.to_string())),
        protobuf::MEDIA_TYPE => protobuf::decode(bytes).map(|object| (object, Vec::new())).map_err(|error| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {error}"
            ))
        }),
        _ => Err(ApiError::unsupported_media_type(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}
