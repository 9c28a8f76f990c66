//! Query strings: percent-decoding and typed access to the options of the API.

use crate::error::ApiError;

/// The options of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URL after `?`.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
                })
                .collect(),
        )
    }

    /// The first value of an option; empty counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// All values of an option.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A switch: `1`, `t`, `true` and their like.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|v| matches!(v, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// A number, or an error that names the option.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax (query parameter {key})"
                ))
            }),
        }
    }
}

/// Undoes percent-encoding; broken sequences stay as they are.
pub(crate) fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|b| (*b as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=5&x=a+b&empty=");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.get("x"), Some("a b"));
        assert_eq!(query.get("empty"), None);
        assert!(Query::parse("limit=x").number("limit").is_err());
    }
}
