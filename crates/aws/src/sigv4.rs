//! Signatures of requests (AWS Signature Version 4). Pure.
//!
//! Only for what the query protocol sends: the path is `/`, and a query has no characters that need another encoding.

use std::fmt;

use flyball_api::Timestamp;
use flyball_cloud::kit::http::Unsigned;
use http::header::{AUTHORIZATION, HOST, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::{digest, hmac};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Who we are, for a time.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    pub id: String,
    pub secret: String,
    /// Of temporary keys.
    pub token: Option<String>,
    /// `None`: never.
    pub expires: Option<Timestamp>,
}

/// Without what is secret.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("id", &self.id).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// What a signature is valid for.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
    pub now: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("the access key or its token has characters that a header cannot have")]
    Header(#[from] InvalidHeaderValue),
    #[error("the request has no host")]
    NoHost,
}

/// Signs the request with all the headers that it has.
pub fn sign(request: &mut Unsigned, keys: &Keys, scope: &Scope<'_>) -> Result<(), SignError> {
    let time = scope.now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let host = request.uri().authority().ok_or(SignError::NoHost)?.as_str().to_owned();
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(&host)?);
    headers.insert(DATE, HeaderValue::from_str(&time)?);
    if let Some(token) = &keys.token {
        let mut token = HeaderValue::from_str(token)?;
        token.set_sensitive(true);
        headers.insert(TOKEN, token);
    }
    let (headers, names) = canonical_headers(request.headers());
    let query = canonical_query(request.uri().query().unwrap_or_default());
    let (method, path, body) = (request.method(), request.uri().path(), hash(request.body()));
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body}");
    let (date, Scope { region, service, .. }) = (&time[..8], scope);
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
    let key = [region, service, "aws4_request"]
        .into_iter()
        .fold(mac(format!("AWS4{}", keys.secret).as_bytes(), date), |key, part| mac(key.as_ref(), part));
    let signature = hex(mac(key.as_ref(), &text).as_ref());
    let value =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id);
    let mut value = HeaderValue::from_str(&value)?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}

/// The headers, a line each, by name; and their names.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let spaced = |value: &HeaderValue| {
        let text = String::from_utf8_lossy(value.as_bytes());
        text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    };
    let signed = headers.iter().filter(|(name, _)| *name != AUTHORIZATION);
    let mut all: Vec<(&str, String)> = signed.map(|(name, value)| (name.as_str(), spaced(value))).collect();
    all.sort();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    (all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect(), names.join(";"))
}

fn canonical_query(query: &str) -> String {
    let mut parts: Vec<&str> = query.split('&').collect();
    parts.sort_unstable();
    parts.join("&")
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;

    use super::*;

    const TEMPORARY: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

    /// From AWS's published test suite (`aws4_testsuite`, as in botocore).
    #[test]
    fn signatures_are_those_of_the_published_test_vectors() {
        let form = "content-type: application/x-www-form-urlencoded";
        #[rustfmt::skip]
        let table = [
            // vector                          request                            headers                                         body             token      signature
            ("get-vanilla",                    "GET /",                           "",                                             "",              "",        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("get-vanilla-query-order-key-case", "GET /?Param2=value2&Param1=value1", "",                                         "",              "",        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
            ("get-vanilla-query-order-value",  "GET /?Param1=value2&Param1=value1", "",                                           "",              "",        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"),
            ("get-header-value-trim",          "GET /",                           "my-header1:  value1|my-header2: \"a   b   c\"", "",              "",        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
            ("post-vanilla-query",             "POST /?Param1=value1",            "",                                             "",              "",        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"),
            ("post-x-www-form-urlencoded",     "POST /",                          form,                                           "Param1=value1", "",        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
            ("post-sts-header-before",         "POST /",                          "",                                             "",              TEMPORARY, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"),
        ];
        for (vector, request, headers, body, token, want) in table {
            let (method, path) = request.split_once(' ').unwrap();
            let mut builder =
                Request::builder().method(method).uri(format!("https://example.amazonaws.com{path}"));
            for (name, value) in headers.split('|').filter_map(|header| header.split_once(": ")) {
                builder = builder.header(name, value);
            }
            let mut request = builder.body(Bytes::from_static(body.as_bytes())).unwrap();
            let keys = Keys {
                id: "AKIDEXAMPLE".to_owned(),
                secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
                token: (!token.is_empty()).then(|| token.to_owned()),
                expires: None,
            };
            let now = "2015-08-30T12:36:00Z".parse().unwrap();
            // Signing again, as a second attempt does, gives the same.
            for _ in 0..2 {
                sign(&mut request, &keys, &Scope { region: "us-east-1", service: "service", now }).unwrap();
                let value = request.headers()[AUTHORIZATION].to_str().unwrap();
                let start =
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ";
                assert!(value.starts_with(start), "{vector}: {value}");
                assert!(value.ends_with(&format!(", Signature={want}")), "{vector}: {value}");
            }
            assert!(!format!("{keys:?}").contains("wJal"));
        }
    }
}
