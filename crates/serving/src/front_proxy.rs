//! Front proxies: which are trusted, and the headers with which they identify the user.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::{
    Peer, User,
    authn::Rejected,
    percent,
    subject::{self, Authority},
};

/// Which proxies are trusted, and their headers.
#[derive(Debug, Clone)]
pub(super) struct Proxies {
    pub(super) authority: Authority,
    pub(super) headers: ProxyHeaders,
}

/// The allowed common names of proxies, and their headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProxyHeaders {
    pub(super) allowed_names: Vec<String>,
    pub(super) username: Vec<String>,
    pub(super) uid: Vec<String>,
    pub(super) group: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl Proxies {
    /// The user in the headers, if the peer is a trusted proxy.
    pub(super) fn user(&self, headers: &HeaderMap, peer: &Peer) -> Result<Option<User>, Rejected> {
        let Some(proxy) = subject::verified(&self.authority, peer)? else { return Ok(None) };
        let allowed = &self.headers.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&proxy.name) {
            return Err(Rejected(format!("front proxy {:?} is not among the allowed names", proxy.name)));
        }
        self.headers.user(headers)
    }
}

impl ProxyHeaders {
    fn user(&self, headers: &HeaderMap) -> Result<Option<User>, Rejected> {
        let values = |names: &[String]| -> Result<Vec<String>, Rejected> {
            let found = names.iter().flat_map(|name| headers.get_all(name.trim()));
            found.filter(|value| !value.is_empty()).map(|value| text(value.as_bytes())).collect()
        };
        let Some(name) = values(&self.username)?.into_iter().next() else { return Ok(None) };
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            for prefix in &self.extra_prefixes {
                // Names of headers are in lower case here.
                let prefix = prefix.trim().to_ascii_lowercase();
                let Some(key) = header.as_str().strip_prefix(&prefix) else { continue };
                // Upstream: requestheader.go, unescapeExtraKey: an invalid encoding is kept as it is.
                let key = percent::decoded(key).unwrap_or(key.into()).into_owned();
                extra.entry(key).or_default().push(text(value.as_bytes())?);
            }
        }
        let uid = values(&self.uid)?.into_iter().next().unwrap_or_default();
        Ok(Some(User { name, uid, groups: values(&self.group)?, extra }))
    }
}

/// Fails if one header value is not text: without it, the rest would be another user.
fn text(value: &[u8]) -> Result<String, Rejected> {
    let read = std::str::from_utf8(value).map(str::to_owned);
    read.map_err(|_| Rejected("a front proxy's header is not text".to_owned()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn extra_keys_are_decoded_and_lower_case() {
        let proxy = ProxyHeaders {
            username: names(&["X-Remote-User"]),
            group: names(&["X-Remote-Group"]),
            extra_prefixes: names(&["X-Remote-Extra-"]),
            ..ProxyHeaders::default()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("X-Remote-User", "bob"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", "b"),
            ("X-Remote-Extra-Example.com%2fScopes", "one"),
            ("X-Remote-Extra-example.com%2Fscopes", "two"),
            ("X-Remote-Extra-100%zz", "kept"),
        ] {
            headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let user = proxy.user(&headers).unwrap().unwrap();
        assert_eq!((user.name.as_str(), &user.groups), ("bob", &names(&["a", "b"])));
        let extra = [("100%zz", names(&["kept"])), ("example.com/scopes", names(&["one", "two"]))];
        assert_eq!(user.extra, extra.map(|(key, values)| (key.to_owned(), values)).into());
        // A group that is not text might be the important one.
        headers.append("x-remote-group", HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(proxy.user(&headers).is_err());
    }
}
