//! What a browser says about where a request comes from. Other sites get neither data nor buttons.

use http::{HeaderMap, Method, header};

use crate::PATH;

/// The header that the page sends with the press of a button. A form of another site cannot send it, and a script of another
/// site only with a permission that is never given.
pub(crate) const PRESSED: &str = "x-flyball-button";

/// Refuses requests that another site has caused: only a link to the page itself may be there. Programs other than browsers do
/// not send `Sec-Fetch-Site`.
pub(crate) fn check(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => {
            let is_page = path == PATH || path.strip_prefix(PATH) == Some("/");
            let is_visit =
                text("sec-fetch-mode") == Some("navigate") && text("sec-fetch-dest") == Some("document");
            match is_page && is_visit && *method == Method::GET {
                true => Ok(()),
                false => Err("this request comes from another site"),
            }
        }
    }
}

/// Whether the press of a button comes from the page itself.
pub(crate) fn may_act(headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text(PRESSED) != Some("1") {
        return Err("this is not a button of the page");
    }
    if text(header::CONTENT_TYPE.as_str()) != Some("application/json") {
        return Err("a button sends application/json");
    }
    let own = text(header::HOST.as_str());
    let origin =
        text(header::ORIGIN.as_str()).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    match (own, origin, text("sec-fetch-site")) {
        (_, _, Some(site)) if site != "same-origin" => Err("this request comes from another site"),
        (Some(own), Some(origin), _) if own == origin => Ok(()),
        _ => Err("this request does not come from the page"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn another_site_may_link_to_the_page_and_do_nothing_else() {
        let visit =
            |site| [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let script =
            |site| [("sec-fetch-site", site), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];
        let frame =
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        #[rustfmt::skip]
        let table: [(&str, Method, &[_], bool); 10] = [
            ("/ui/",       Method::GET,  &[],                      true),
            ("/ui/stream", Method::GET,  &script("same-origin"),   true),
            ("/ui/",       Method::GET,  &visit("none"),           true),
            ("/ui/",       Method::GET,  &visit("cross-site"),     true),
            ("/ui",        Method::GET,  &visit("cross-site"),     true),
            ("/ui/why",    Method::GET,  &visit("cross-site"),     false),
            ("/ui/",       Method::POST, &visit("cross-site"),     false),
            ("/ui/",       Method::GET,  &frame,                   false),
            ("/ui/stream", Method::GET,  &script("cross-site"),    false),
            ("/ui/stream", Method::GET,  &script("same-site"),     false),
        ];
        for (path, method, pairs, want) in table {
            assert_eq!(check(&method, path, &headers(pairs)).is_ok(), want, "{method} {path} {pairs:?}");
        }
    }

    #[test]
    fn only_the_page_itself_presses_buttons() {
        let all = [
            ("host", "127.0.0.1:6443"),
            ("origin", "http://127.0.0.1:6443"),
            ("content-type", "application/json"),
            (PRESSED, "1"),
        ];
        assert!(may_act(&headers(&all)).is_ok());
        for (at, (name, _)) in all.iter().enumerate() {
            let mut without = all.to_vec();
            without.remove(at);
            assert!(may_act(&headers(&without)).is_err(), "without {name}");
        }
        for (name, wrong) in [
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:8080"),
            ("origin", "null"),
            ("content-type", "text/plain"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let mut changed = headers(&all);
            changed.insert(name, wrong.parse().unwrap());
            assert!(may_act(&changed).is_err(), "{name}: {wrong}");
        }
    }
}
