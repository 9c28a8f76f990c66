//! A container's log: the requested part, and later lines if it is followed.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;

use super::{Answer, Call};
use crate::error::{ApiError, Named};
use crate::http::query::Query;
use crate::http::respond::{self, Body, BoxError};
use crate::invalid::Cause;
use crate::options::{InPod, Kubelet};

/// Which part of a log is requested.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    bytes: Option<usize>,
}

pub(super) fn answer(
    call: &Call<'_>,
    kubelet: &dyn Kubelet,
    container: &InPod<'_>,
) -> Result<Answer, ApiError> {
    let wanted = Wanted::read(call.query, call.now)?;
    let previous = call.query.flag("previous") == Some(true);
    let log = kubelet.logs(container, previous).map_err(ApiError::bad_request)?;
    let text = wanted.cut(&log.lines);
    let mut response = respond::text(200, text.clone());
    if call.query.flag("follow") == Some(true) && !previous {
        *response.body_mut() = followed(text, log.end);
    }
    Ok(response.into())
}

/// The existing lines; the response then stays open until the container ends.
fn followed(text: String, end: BoxFuture<'static, ()>) -> Body {
    let text = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(text)))]);
    let rest = stream::once(end).filter_map(|()| async { None });
    StreamBody::new(text.chain(rest)).boxed_unsync()
}

impl Wanted {
    fn read(query: &Query, now: Timestamp) -> Result<Self, ApiError> {
        let number = |field: &str, least: i64, detail: &str| match query.number(field)? {
            Some(number) if number < least => {
                let named = Named { group: "", what: "PodLogOptions", name: "" };
                Err(ApiError::invalid(named, &[Cause::invalid(field, number, detail)]))
            }
            number => Ok(number),
        };
        let positive = "must be greater than 0";
        let tail = number("tailLines", 0, "must be greater than or equal to 0")?;
        let bytes = number("limitBytes", 1, positive)?;
        let seconds = number("sinceSeconds", 1, positive)?;
        let ago = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let since = match query.get("sinceTime") {
            Some(text) => Some(text.parse().map_err(|_| {
                ApiError::bad_request(format!("sinceTime: {text:?} is not a time in RFC 3339 format"))
            })?),
            None => ago.and_then(|ago| now.checked_sub(ago).ok()),
        };
        let size = |number: Option<i64>| number.and_then(|number| usize::try_from(number).ok());
        let timestamps = query.flag("timestamps") == Some(true);
        Ok(Self { timestamps, since, tail: size(tail), bytes: size(bytes) })
    }

    fn cut(&self, lines: &[(Timestamp, String)]) -> String {
        let recent = lines.iter().filter(|(at, _)| self.since.is_none_or(|since| *at >= since));
        let recent: Vec<_> = recent.collect();
        let skipped = self.tail.map_or(0, |tail| recent.len().saturating_sub(tail));
        let mut text = String::new();
        for (at, line) in recent.into_iter().skip(skipped) {
            if self.timestamps {
                text.push_str(&at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
            }
            text.push_str(line);
            text.push('\n');
        }
        if let Some(bytes) = self.bytes {
            let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_is_asked_for_is_given() {
        let at = |second: u8| format!("2026-01-01T00:00:0{second}Z").parse::<Timestamp>().unwrap();
        let lines: Vec<_> = (1..=3).map(|n| (at(n), format!("line {n}"))).collect();
        let stamped = "2026-01-01T00:00:03.000000000Z line 3\n";
        #[rustfmt::skip]
        let table = [
            ("",                               "line 1\nline 2\nline 3\n"),
            ("tailLines=1",                    "line 3\n"),
            ("tailLines=0",                    ""),
            ("tailLines=9",                    "line 1\nline 2\nline 3\n"),
            ("limitBytes=9",                   "line 1\nli"),
            ("sinceTime=2026-01-01T00:00:02Z", "line 2\nline 3\n"),
            ("sinceSeconds=2",                 "line 3\n"),
            ("tailLines=1&timestamps=true",    stamped),
        ];
        for (query, want) in table {
            let wanted = Wanted::read(&Query::parse(query), at(5)).unwrap();
            assert_eq!(wanted.cut(&lines), want, "{query}");
        }
        for (query, want) in [
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceTime=noon", "sinceTime: \"noon\" is not a time in RFC 3339 format"),
        ] {
            let refused = Wanted::read(&Query::parse(query), at(5)).unwrap_err();
            assert!(refused.message.contains(want), "{query}: {}", refused.message);
        }
    }
}
