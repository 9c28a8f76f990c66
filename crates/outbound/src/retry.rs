//! Which requests are sent again, and when. Pure.

use std::time::Duration;

use http::StatusCode;

/// How often a request is sent, at most, unless the client says otherwise.
pub(crate) const ATTEMPTS: u32 = 4;
/// The longest wait that a server may ask for. For longer, the caller should come back.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was no connection, so the server has seen nothing.
    NotSent,
    /// The connection was closed, or there was no response in time: the server may have processed the request.
    Unknown,
    /// It answered; with a wait that it asks for.
    Answered(StatusCode, Option<Duration>),
}

/// How long to wait after this attempt, which counts from one, before the next.
pub(crate) fn wait(attempt: u32, first: Duration, is_repeatable: bool, outcome: Outcome) -> Option<Duration> {
    let backoff = first.saturating_mul(4_u32.saturating_pow(attempt - 1)).min(LONGEST_WAIT);
    match outcome {
        Outcome::NotSent => Some(backoff),
        Outcome::Unknown => is_repeatable.then_some(backoff),
        Outcome::Answered(status, asked) => {
            // A server that is too busy has done nothing.
            let is_refusal = status == StatusCode::TOO_MANY_REQUESTS
                || (status == StatusCode::SERVICE_UNAVAILABLE && asked.is_some());
            let is_passing = matches!(
                status,
                StatusCode::INTERNAL_SERVER_ERROR
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            let is_worth_it = is_refusal || (is_passing && is_repeatable);
            let wait = asked.unwrap_or(backoff);
            (is_worth_it && wait <= LONGEST_WAIT).then_some(wait)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_repeated_only_if_it_may_be() {
        let answered = |code: u16, asked: Option<u64>| {
            Outcome::Answered(StatusCode::from_u16(code).unwrap(), asked.map(Duration::from_secs))
        };
        #[rustfmt::skip]
        let table = [
            // outcome               repeatable  otherwise
            (Outcome::NotSent,            Some(1),    Some(1)),
            (Outcome::Unknown,            Some(1),    None),
            (answered(500, None),         Some(1),    None),
            (answered(503, None),         Some(1),    None),
            (answered(503, Some(7)),      Some(7),    Some(7)),
            (answered(429, None),         Some(1),    Some(1)),
            (answered(429, Some(7)),      Some(7),    Some(7)),
            (answered(429, Some(3600)),   None,       None),
            (answered(404, None),         None,       None),
            (answered(501, None),         None,       None),
        ];
        let first = Duration::from_secs(1);
        for (outcome, repeatable, otherwise) in table {
            let seconds = |is| wait(1, first, is, outcome).map(|wait| wait.as_secs());
            assert_eq!((seconds(true), seconds(false)), (repeatable, otherwise), "{outcome:?}");
        }
        let waits = (1..=4).filter_map(|attempt| wait(attempt, first, true, Outcome::NotSent));
        assert_eq!(waits.map(|wait| wait.as_secs()).collect::<Vec<_>>(), [1, 4, 10, 10]);
    }
}
