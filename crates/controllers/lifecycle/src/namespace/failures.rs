//! What failed requests mean for the deletion of a namespace's content. Pure.

use std::time::Duration;

use flyball_client::Error;

/// The pauses between attempts at one collection; each is four times the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause before the next attempt at a collection that has failed `before` times already; `None` if the collection is left to the next
/// sync.
pub fn pause(error: &Error, before: u32) -> Option<Duration> {
    let pause = FIRST_PAUSE * 4_u32.saturating_pow(before);
    (is_transient(error) && pause <= LONGEST_PAUSE).then_some(pause)
}

/// Whether a retry may help, because the server is overloaded or the connection has failed.
fn is_transient(error: &Error) -> bool {
    !error.is_outdated() && error.code().is_none_or(|code| code == 429 || code >= 500)
}

/// Whether etcd may have been restored before the request failed, so that deleted objects may be back.
pub fn is_interruption(error: &Error) -> bool {
    error.code().is_none_or(|code| code >= 500)
}

/// Whether the server does not have what discovery lists: the resource any more, or the verb.
pub fn is_not_served(error: &Error) -> bool {
    error.is_not_found() || error.is_method_not_supported()
}

#[cfg(test)]
mod tests {
    use flyball_client::ApiStatus;

    use super::*;

    #[test]
    fn failures_are_tried_again_or_mean_that_content_may_be_back() {
        let status = |code: u16, reason: &str| {
            Error::Status(Box::new(ApiStatus { code, reason: reason.into(), ..ApiStatus::default() }))
        };
        let outdated = Error::Outdated { what: "delete".into() };
        let lost = Error::OutcomeUnknown { what: "delete".into(), source: "reset".into(), until: None };
        #[rustfmt::skip]
        let table = [
            // error                                     tried again  interruption  not served
            (lost,                                       true,        true,         false),
            (outdated,                                   false,       true,         false),
            (status(500, "InternalError"),               true,        true,         false),
            (status(503, "ServiceUnavailable"),          true,        true,         false),
            (status(429, "TooManyRequests"),             true,        false,        false),
            (status(403, "Forbidden"),                   false,       false,        false),
            (status(404, "NotFound"),                    false,       false,        true),
            (status(405, "MethodNotAllowed"),            false,       false,        true),
        ];
        for (error, is_retried, is_interrupted, not_served) in table {
            let found = (pause(&error, 0).is_some(), is_interruption(&error), is_not_served(&error));
            assert_eq!(found, (is_retried, is_interrupted, not_served), "{error:?}");
        }
    }

    #[test]
    fn a_collection_is_tried_four_times_within_about_a_second() {
        let error = Error::Status(Box::new(ApiStatus { code: 500, ..ApiStatus::default() }));
        let pauses: Vec<_> = (0..10).map_while(|before| pause(&error, before)).collect();
        assert_eq!(pauses, [50, 200, 800].map(Duration::from_millis));
    }
}
