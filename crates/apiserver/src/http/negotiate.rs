//! The representation that a client accepts: the object, only its metadata, or a table of it; as JSON or YAML.

use crate::error::ApiError;

/// Which part of an object a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A `Table` for `kubectl get`.
    Table,
}

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub view: View,
    /// As YAML instead of JSON.
    pub yaml: bool,
    /// Whether long responses are compressed.
    pub gzip: bool,
}

impl Accept {
    pub(crate) const JSON: Accept = Accept { view: View::Whole, yaml: false, gzip: false };

    /// Reads the `Accept` and `Accept-Encoding` headers. The first type that can be served wins, as upstream.
    pub(crate) fn read(headers: &http::HeaderMap) -> Result<Self, ApiError> {
        let text = |name: http::HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        let gzip =
            text(http::header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim().starts_with("gzip"));
        let accept = text(http::header::ACCEPT);
        if accept.trim().is_empty() {
            return Ok(Self { gzip, ..Self::JSON });
        }
        let wanted = accept.split(',').filter_map(clause).next();
        let (view, yaml) = wanted.ok_or_else(ApiError::not_acceptable)?;
        Ok(Self { view, yaml, gzip })
    }
}

fn clause(text: &str) -> Option<(View, bool)> {
    let mut parts = text.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    let meta = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
    match kind {
        "" => Some((View::Whole, yaml)),
        "Table" if meta => Some((View::Table, yaml)),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => Some((View::Metadata, yaml)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_servable_type_wins() {
        #[rustfmt::skip]
        let table = [
            ("", Some(View::Whole)),
            ("*/*", Some(View::Whole)),
            ("application/json", Some(View::Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(View::Whole)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(View::Table)),
            ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", Some(View::Metadata)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(View::Whole)),
            ("application/xml", None),
        ];
        for (accept, want) in table {
            let mut headers = http::HeaderMap::new();
            headers.insert("accept", accept.parse().unwrap());
            assert_eq!(Accept::read(&headers).ok().map(|a| a.view), want, "{accept}");
        }
    }
}
