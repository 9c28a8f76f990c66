//! What goes wrong with a call to AWS.

use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_cloud::kit::http::{HttpError, Problem};
use flyball_runtime::Chain;

use crate::xml::XmlError;

/// How long AWS is left alone after it has said that there were too many calls.
const REST: Duration = Duration::from_secs(10);
/// How it says so. The status is 400 or 503, by service.
const THROTTLED: &[&str] = &[
    "PriorRequestNotComplete",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{action}: {code}: {message}")]
    Refused { action: &'static str, code: String, message: String },
    #[error("{action}: the answer is not the XML that it should be")]
    Unreadable {
        action: &'static str,
        #[source]
        source: XmlError,
    },
    #[error("{action}: the answer has no {what}")]
    Incomplete { action: &'static str, what: &'static str },
    #[error("{action}: the list does not end")]
    Endless { action: &'static str },
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{action}: this process does not lead any more")]
    Over { action: &'static str },
}

impl ApiError {
    /// An error with AWS's own code where there is one.
    pub(crate) fn of(action: &'static str, error: HttpError) -> Self {
        match &error.problem {
            Problem::Status { text, .. } => match inside(text, "Code") {
                Some(code) => {
                    let message = inside(text, "Message").unwrap_or_default();
                    Self::Refused { action, code, message }
                }
                None => Self::Http(error),
            },
            _ => Self::Http(error),
        }
    }

    /// AWS's code, such as `InvalidInstanceID.NotFound`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }
}

impl From<ApiError> for CloudError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Http(error) => error.into(),
            error if THROTTLED.contains(&error.code()) => {
                Self::RetryAfter { message: Chain(&error).to_string(), after: REST }
            }
            error => Self::failed(error),
        }
    }
}

/// Reads an error in all the ways in which we read one, for fuzz targets.
pub(crate) fn read(text: &str) {
    ["Code", "Message"].iter().for_each(|name| drop(inside(text, name)));
}

/// The text of the first element of this name. The end of the text may have been cut off, so this is no document.
fn inside(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let inside = rest.split_once("</").map_or(rest, |(inside, _)| inside);
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    Some(entities.iter().fold(inside.trim().to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_message_are_found_even_where_the_answer_is_cut_off() {
        let ec2 = "<?xml version=\"1.0\"?> <Response><Errors><Error><Code>InvalidRoute.NotFound</Code><Message>no route &quot;a&quot;</Message></Error></Errors>";
        assert_eq!(inside(ec2, "Code").as_deref(), Some("InvalidRoute.NotFound"));
        assert_eq!(inside(ec2, "Message").as_deref(), Some("no route \"a\""));
        let cut = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exc";
        assert_eq!(inside(cut, "Code").as_deref(), Some("Throttling"));
        assert_eq!(inside(cut, "Message").as_deref(), Some("Rate exc"));
        assert_eq!(inside("<html>Bad gateway</html>", "Code"), None);
    }

    #[test]
    fn a_throttled_call_asks_for_a_rest_and_nothing_else_does() {
        let refused = |code: &str| {
            let error =
                ApiError::Refused { action: "DescribeX", code: code.to_owned(), message: "m".to_owned() };
            (CloudError::from(error).retry_after(), code.to_owned())
        };
        for code in THROTTLED {
            assert_eq!(refused(code).0, Some(REST), "{code}");
        }
        assert_eq!(refused("UnauthorizedOperation").0, None);
        let error =
            ApiError::Refused { action: "DescribeX", code: "Throttling".to_owned(), message: "m".to_owned() };
        assert_eq!(CloudError::from(error).to_string(), "DescribeX: Throttling: m");
    }
}
