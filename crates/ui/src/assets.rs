//! The files of the page, compiled into the program.

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::answer::{Answer, answer};

struct Asset {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal: $content_type:expr,)*) => {
        &[$(Asset { name: $name, content_type: $content_type, text: include_str!(concat!("../page/", $name)) }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const ASSETS: &[Asset] = assets! {
    "index.html": HTML,
    "style.css": CSS,
    "icon.svg": SVG,
    "main.js": SCRIPT,
    "dom.js": SCRIPT,
    "words.js": SCRIPT,
    "model.js": SCRIPT,
    "problems.js": SCRIPT,
    "live.js": SCRIPT,
    "list.js": SCRIPT,
    "time.js": SCRIPT,
    "acts.js": SCRIPT,
    "overview.js": SCRIPT,
    "controllers.js": SCRIPT,
    "activity.js": SCRIPT,
    "nodes.js": SCRIPT,
    "object.js": SCRIPT,
};

/// The file of that name; the empty name is the page itself.
pub(crate) fn asset(name: &str, headers: &HeaderMap) -> Option<Answer> {
    let name = if name.is_empty() { "index.html" } else { name };
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let tag = format!("\"{:08x}\"", flyball_api::hash::fnv32a(asset.text.as_bytes()));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut found = match is_known {
        true => answer(StatusCode::NOT_MODIFIED, asset.content_type, ""),
        false => answer(StatusCode::OK, asset.content_type, asset.text),
    };
    found.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        found.headers_mut().insert(header::ETAG, tag);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let all: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(all < 200_000, "{all} bytes");
        for asset in ASSETS {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{} names another server",
                asset.name
            );
            for never in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "style=",
                "onclick=",
            ] {
                assert!(!text.contains(never), "{} contains {never}", asset.name);
            }
        }
    }

    #[test]
    fn every_import_is_served_and_every_file_is_used() {
        let all: String = ASSETS.iter().map(|asset| asset.text).collect();
        for asset in ASSETS {
            let imports =
                asset.text.lines().filter_map(|line| line.split_once(" from \"./")?.1.split_once('"'));
            for (name, _) in imports {
                assert!(ASSETS.iter().any(|asset| asset.name == name), "{} imports {name}", asset.name);
            }
            let is_used = asset.name == "index.html"
                || all.contains(&format!("\"./{}\"", asset.name))
                || ASSETS[0].text.contains(&format!("\"{}\"", asset.name));
            assert!(is_used, "{} is not used", asset.name);
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        assert_eq!(
            std::fs::read_dir(folder).unwrap().count(),
            ASSETS.len(),
            "a file of {folder} is not served"
        );
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = asset("", &HeaderMap::new()).unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let mut known = HeaderMap::new();
        known.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(asset("index.html", &known).unwrap().status(), StatusCode::NOT_MODIFIED);
        assert!(asset("../Cargo.toml", &known).is_none());
    }
}
