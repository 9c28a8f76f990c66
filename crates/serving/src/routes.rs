//! From a path to its page.

use std::borrow::Cow;

use bytes::Bytes;
use flyball_listen::SeldomEach;
use flyball_runtime::decisions::DecisionLog;
use http::{Method, StatusCode, request::Parts};
use serde_json::Value;

use crate::{
    Pages,
    answer::{Answer, PLAIN, answer, nosniff, not_found, text},
    decisions::{decisions_page, waiting_page},
    health::health,
    percent::digit,
    zpages,
};

/// The query of a URL, decoded.
#[derive(Debug, Default)]
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(super) fn parse(query: Option<&'a str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decoded(name), decoded(value))
                })
                .collect(),
        )
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref()).collect()
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

/// Decodes percent and plus encoding; invalid sequences are kept as they are.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match (first, escaped) {
            (_, Some((high, low))) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

const NO_PROFILES: &str = "There is no Go runtime in here to profile; `perf` works on the process.\n";

const VERBOSITY: &str = "/debug/flags/v";

/// Whether a page reads the body of the request.
pub(super) fn reads_body(method: &Method, path: &str) -> bool {
    method == Method::PUT && path == VERBOSITY
}

/// The page at a path. The request is already authorized.
pub(super) fn route(pages: &Pages, failures: &SeldomEach, head: &Parts, path: &str, body: &Bytes) -> Answer {
    let query = Query::parse(head.uri.query());
    let health = |page| health(page, &query, pages, failures);
    match path {
        "/healthz" => health("healthz"),
        "/livez" => health("livez"),
        "/readyz" => health("readyz"),
        "/metrics" => metrics(pages, pages.metrics.text()),
        "/metrics/slis" => metrics(pages, pages.metrics.slis()),
        "/configz" => nosniff(answer(StatusCode::OK, "application/json", pages.configz.clone())),
        "/flagz" => match &pages.flagz {
            Some(flags) => zpages::flagz(&head.headers, flags),
            None => not_found(),
        },
        "/statusz" => match &pages.statusz {
            Some(emulated) => zpages::statusz(&head.headers, pages, emulated),
            None => not_found(),
        },
        "/debug/flags" | "/debug/flags/" if pages.debug => {
            let page = "PUT a number to /debug/flags/v to change how much is logged.\n";
            answer(StatusCode::OK, PLAIN, page)
        }
        VERBOSITY if pages.debug => verbosity(pages, &head.method, body),
        path if pages.debug && path.starts_with("/debug/pprof") => text(StatusCode::NOT_FOUND, NO_PROFILES),
        "/debug/decisions" if pages.debug => log_page(pages, decisions_page, head.uri.query()),
        "/debug/waiting" if pages.debug => log_page(pages, waiting_page, head.uri.query()),
        // Independent of --profiling: upstream always serves them.
        path => match path.strip_prefix("/debug/controllers/").and_then(|p| p.split_once('/')) {
            Some((controller, page)) => controller_page(pages, controller, page, &query),
            None => not_found(),
        },
    }
}

fn controller_page(pages: &Pages, controller: &str, page: &str, query: &Query) -> Answer {
    let parameters = |name: &str| query.all(name).into_iter().map(str::to_owned).collect();
    match pages.controllers.show(controller, page, &parameters) {
        Some(page) => nosniff(answer(StatusCode::OK, page.content_type, page.body)),
        None => not_found(),
    }
}

fn metrics(pages: &Pages, body: String) -> Answer {
    let mut answer =
        answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", body);
    let started = pages.metrics.start_time().as_second();
    answer.headers_mut().insert("process-start-time-unix", started.into());
    answer
}

fn verbosity(pages: &Pages, method: &Method, body: &Bytes) -> Answer {
    let plain = |code, body: String| nosniff(answer(code, "text/plain", body));
    if method != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method\n".to_owned());
    }
    let wanted = String::from_utf8_lossy(body);
    match (wanted.trim().parse::<u32>(), &pages.set_verbosity) {
        (Ok(level), Some(set)) => {
            set(level);
            plain(StatusCode::OK, format!("successfully set klog.logging.verbosity to {level}\n"))
        }
        (Ok(_), None) => plain(StatusCode::NOT_IMPLEMENTED, "logging cannot be changed here\n".to_owned()),
        (Err(_), _) => plain(StatusCode::BAD_REQUEST, format!("{:?} is not a number\n", wanted.trim())),
    }
}

type LogPage = fn(&DecisionLog, &str) -> Result<Value, String>;

fn log_page(pages: &Pages, page: LogPage, query: Option<&str>) -> Answer {
    let Some(log) = &pages.decisions else { return not_found() };
    match page(log, query.unwrap_or_default()) {
        Ok(body) => nosniff(answer(StatusCode::OK, "application/json", body.to_string())),
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}
