//! The representation that a client accepts: the object, only its metadata, or a table of it; as JSON, YAML or protocol buffers.

use super::protobuf;
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

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// In the order in which a wildcard chooses.
const FORMATS: [(&str, Format); 3] = [
    ("application/json", Format::Json),
    ("application/yaml", Format::Yaml),
    (protobuf::MEDIA_TYPE, Format::Protobuf),
];

/// The form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub view: View,
    pub format: Format,
    /// Whether long responses are compressed.
    pub gzip: bool,
}

/// What a resource can be sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// A built-in kind.
    Builtin { has_message: bool },
    /// Whole custom resources have no message, their metadata has.
    Custom,
    /// An error, which has neither a table nor metadata.
    Error,
}

impl Accept {
    pub(crate) const JSON: Accept = Accept { view: View::Whole, format: Format::Json, gzip: false };

    /// Reads the `Accept` and `Accept-Encoding` headers. Of the types that can be served, the one that the client likes best wins.
    pub(crate) fn read(headers: &http::HeaderMap, offered: Offered) -> Result<Self, ApiError> {
        let text = |name: http::HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        let gzip =
            text(http::header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim().starts_with("gzip"));
        let accept = text(http::header::ACCEPT);
        if accept.is_empty() {
            return Ok(Self { gzip, ..Self::JSON });
        }
        if matches!(offered, Offered::Builtin { .. }) && !accept.split(',').any(is_routed) {
            return Err(ApiError::no_representation());
        }
        let wanted = preferred(accept).iter().find_map(|clause| clause.choose(offered));
        let (view, format) = wanted.ok_or_else(ApiError::not_acceptable)?;
        Ok(Self { view, format, gzip })
    }

    /// The form of an error for the same client; JSON if it accepts no other.
    pub(crate) fn of_errors(headers: &http::HeaderMap) -> Self {
        Self::read(headers, Offered::Error).unwrap_or(Self::JSON)
    }
}

/// Upstream's router takes no `application/*`.
fn is_routed(clause: &str) -> bool {
    let media = clause.split(';').next().unwrap_or_default().trim_matches(' ');
    media == "*/*" || FORMATS.iter().any(|(known, _)| media == *known)
}

/// One type of an `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(|part| part.trim_matches(' '));
        let media = parts.next()?;
        let (kind, subtype) = match media.split_once('/') {
            Some(both) => both,
            None if media == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Clause { kind, subtype, quality: 1.0, parameters: Vec::new() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                _ => clause.parameters.push((name, value)),
            }
        }
        Some(clause)
    }

    /// Whether it comes before another one. As upstream's parser has it, a type comes before a wildcard whatever their qualities.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    /// The form that it asks for, if that can be served.
    fn choose(&self, offered: Offered) -> Option<(View, Format)> {
        let view = self.view()?;
        let is_named = |media: &str| {
            let (kind, subtype) = media.split_once('/').unwrap_or_default();
            (self.kind == kind && (self.subtype == subtype || self.subtype == "*"))
                || (self.kind == "*" && self.subtype == "*")
        };
        let is_served = |format: Format| match (view, format) {
            (View::Table, format) => format != Format::Protobuf && offered != Offered::Error,
            (View::Metadata, _) => offered != Offered::Error,
            (View::Whole, Format::Protobuf) => {
                !matches!(offered, Offered::Custom | Offered::Builtin { has_message: false })
            }
            (View::Whole, _) => true,
        };
        let mut served = FORMATS.iter().filter(|(media, format)| is_named(media) && is_served(*format));
        Some((view, served.next()?.1))
    }

    fn view(&self) -> Option<View> {
        let (mut kind, mut group, mut version) = (None, "", "");
        for (name, value) in &self.parameters {
            match *name {
                "as" => kind = Some(*value),
                "g" => group = value,
                "v" => version = value,
                "stream" if !value.is_empty() && *value != "watch" => return None,
                _ => {}
            }
        }
        let is_meta = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
        match kind {
            None if group.is_empty() && version.is_empty() => Some(View::Whole),
            Some("Table") if is_meta => Some(View::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if is_meta => Some(View::Metadata),
            _ => None,
        }
    }
}

/// The types of a header, the best first. They are inserted one after the other, since `precedes` is no order.
fn preferred(header: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in header.split(',').filter_map(|text| Clause::parse(text.trim_matches(' '))) {
        let after = sorted.iter().rposition(|earlier| !clause.precedes(earlier)).map_or(0, |at| at + 1);
        sorted.insert(after, clause);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(accept: &str, offered: Offered) -> Option<(View, Format)> {
        let mut headers = http::HeaderMap::new();
        headers.insert("accept", accept.parse().unwrap());
        Accept::read(&headers, offered).ok().map(|accept| (accept.view, accept.format))
    }

    #[test]
    fn the_first_servable_type_wins() {
        use Format::{Json, Protobuf, Yaml};
        use View::{Metadata, Table, Whole};
        let meta = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        #[rustfmt::skip]
        let table = [
            // header                                                             built-in                   custom
            ("".to_owned(),                                                       Some((Whole, Json)),       Some((Whole, Json))),
            ("*/*".to_owned(),                                                    Some((Whole, Json)),       Some((Whole, Json))),
            ("application/*".to_owned(),                                          None,                      Some((Whole, Json))),
            ("application/*,application/yaml;q=0.1".to_owned(),                   Some((Whole, Yaml)),       Some((Whole, Yaml))),
            ("application/yaml".to_owned(),                                       Some((Whole, Yaml)),       Some((Whole, Yaml))),
            ("application/vnd.kubernetes.protobuf".to_owned(),                    Some((Whole, Protobuf)),   None),
            ("application/vnd.kubernetes.protobuf;stream=watch".to_owned(),       Some((Whole, Protobuf)),   None),
            ("application/vnd.kubernetes.protobuf;stream=other,application/json".to_owned(), Some((Whole, Json)), Some((Whole, Json))),
            ("application/vnd.kubernetes.protobuf,application/json".to_owned(),   Some((Whole, Protobuf)),   Some((Whole, Json))),
            ("application/vnd.kubernetes.protobuf, */*".to_owned(),               Some((Whole, Protobuf)),   Some((Whole, Json))),
            ("application/json, application/vnd.kubernetes.protobuf".to_owned(),  Some((Whole, Json)),       Some((Whole, Json))),
            ("application/json;q=0.5,application/vnd.kubernetes.protobuf".to_owned(), Some((Whole, Protobuf)), Some((Whole, Json))),
            ("application/yaml;q=0.1,application/json;q=0.2".to_owned(),          Some((Whole, Json)),       Some((Whole, Json))),
            ("*/*;q=0.9,application/yaml;q=0.1".to_owned(),                       Some((Whole, Yaml)),       Some((Whole, Yaml))),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json".to_owned(), Some((Table, Json)), Some((Table, Json))),
            ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json".to_owned(), Some((Whole, Json)), Some((Whole, Json))),
            (format!("application/vnd.kubernetes.protobuf;{meta},application/json;{meta}"), Some((Metadata, Protobuf)), Some((Metadata, Protobuf))),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json".to_owned(), Some((Whole, Json)), Some((Whole, Json))),
            ("application/json;v=v1".to_owned(),                                  None,                      None),
            ("application/xml".to_owned(),                                        None,                      None),
        ];
        for (accept, builtin, custom) in table {
            assert_eq!(read(&accept, Offered::Builtin { has_message: true }), builtin, "{accept}");
            assert_eq!(read(&accept, Offered::Custom), custom, "{accept}, custom");
        }
    }

    #[test]
    fn errors_are_never_tables() {
        #[rustfmt::skip]
        let table = [
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", Format::Yaml),
            ("application/vnd.kubernetes.protobuf",                          Format::Protobuf),
            ("application/xml",                                              Format::Json),
        ];
        for (accept, want) in table {
            let mut headers = http::HeaderMap::new();
            headers.insert("accept", accept.parse().unwrap());
            assert_eq!(Accept::of_errors(&headers).format, want, "{accept}");
        }
    }
}
