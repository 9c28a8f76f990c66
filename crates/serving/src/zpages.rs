//! `/flagz` and `/statusz`, as plain text or in a structured format.

use std::{collections::BTreeMap, fmt::Write};

use flyball_api::time;
use flyball_runtime::version;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::{
    COMPONENT, Pages,
    answer::{Answer, PLAIN, answer, not_acceptable},
    negotiate::{Form, Version, negotiate},
};

const ACCEPTED: &str = "application/json, application/yaml, text/plain";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting \
    compatibility guarantees and is for debugging purposes only.";
const PATHS: [&str; 4] = ["/configz", "/flagz", "/healthz", "/metrics"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<T> {
    kind: &'static str,
    api_version: String,
    metadata: Metadata,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
}

#[derive(Serialize)]
struct Flags<'a> {
    flags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    start_time: String,
    uptime_seconds: i64,
    go_version: String,
    binary_version: &'static str,
    emulation_version: &'a str,
    paths: Vec<&'static str>,
}

pub(super) fn flagz(headers: &HeaderMap, flags: &BTreeMap<String, String>) -> Answer {
    let text = || {
        let mut page = format!("\n{COMPONENT} flagz\n{WARNING}\n");
        for (name, value) in flags {
            let _ = writeln!(page, "{name}: {value}");
        }
        page
    };
    write(headers, "Flagz", text, || Flags { flags })
}

/// With the version that this process emulates.
pub(super) fn statusz(headers: &HeaderMap, pages: &Pages, emulated: &str) -> Answer {
    let started = pages.metrics.start_time();
    let up = (pages.now)().as_second().saturating_sub(started.as_second()).max(0);
    // Not a Go program; clients may expect the field.
    let go_version = format!("none: Flyball {}", version::FLYBALL);
    let is_served = |path: &&str| *path != "/flagz" || pages.flagz.is_some();
    let paths: Vec<&str> = PATHS.into_iter().filter(is_served).collect();
    let text = || {
        format!(
            "\n{COMPONENT} statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\n\
             Go version: {go_version}\nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            up / 3600,
            up / 60 % 60,
            up % 60,
            version::BINARY,
            emulated,
            paths.join(" "),
        )
    };
    write(headers, "Statusz", text, || Status {
        start_time: time::format_seconds(started),
        uptime_seconds: up,
        go_version: go_version.clone(),
        binary_version: version::BINARY,
        emulation_version: emulated,
        paths: paths.clone(),
    })
}

fn write<T: Serialize>(
    headers: &HeaderMap,
    kind: &'static str,
    text: impl FnOnce() -> String,
    content: impl FnOnce() -> T,
) -> Answer {
    let accept: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let Some(form) = negotiate(&accept.join(","), kind) else { return not_acceptable(ACCEPTED) };
    let document = |version: Version| Document {
        kind,
        api_version: format!("config.k8s.io/{}", version.name()),
        metadata: Metadata { name: COMPONENT },
        content: content(),
    };
    let (media, version, body) = match form {
        Form::Text => return answer(StatusCode::OK, PLAIN, text()),
        Form::Json(version) => (
            "application/json",
            version,
            serde_json::to_string_pretty(&document(version)).unwrap_or_default(),
        ),
        Form::Yaml(version) => {
            // Through a value, which sorts the keys, as Kubernetes does in YAML.
            let value = serde_json::to_value(document(version)).unwrap_or_default();
            ("application/yaml", version, serde_yaml::to_string(&value).unwrap_or_default())
        }
    };
    let mut answer = answer(StatusCode::OK, "application/json", body);
    let media = format!("{media};g=config.k8s.io;v={};as={kind}", version.name());
    if let Ok(media) = HeaderValue::from_str(&media) {
        answer.headers_mut().insert(header::CONTENT_TYPE, media);
    }
    if version == Version::V1Alpha1 {
        let page = kind.to_ascii_lowercase();
        let warning = format!(
            "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
        );
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            answer.headers_mut().insert(header::WARNING, warning);
        }
    }
    answer
}
