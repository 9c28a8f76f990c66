//! `/healthz`, `/livez` and `/readyz`, each with its single checks below it (`/livez/ping`) and `?verbose`, `?exclude=…`.

use http::Response;

use crate::http::query::Query;
use crate::http::respond::{self, Body};

/// The checks of each page, by upstream's names. The store is in this process, so all checks pass whenever the server responds.
const PAGES: [(&str, &[&str]); 3] = [
    ("healthz", &["ping", "log", "etcd"]),
    ("livez", &["ping", "log", "etcd"]),
    ("readyz", &["ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"]),
];

/// The response, if the path is one of these pages.
pub(crate) fn answer(path: &str, query: &str) -> Option<Response<Body>> {
    let path = path.strip_prefix('/')?;
    let (page, check) = path.split_once('/').unwrap_or((path, ""));
    let (_, checks) = PAGES.iter().find(|(known, _)| *known == page)?;
    if !check.is_empty() {
        return checks.contains(&check).then(|| respond::text(200, "ok"));
    }
    let query = Query::parse(query);
    if query.get("verbose").is_none() {
        return Some(respond::text(200, "ok"));
    }
    let excluded = query.get("exclude").unwrap_or_default();
    let lines: String = checks
        .iter()
        .map(|check| match *check == excluded {
            true => format!("[+]{check} excluded: ok\n"),
            false => format!("[+]{check} ok\n"),
        })
        .collect();
    Some(respond::text(200, format!("{lines}{page} check passed\n")))
}
