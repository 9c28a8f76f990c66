//! What a key waits for: the answer to "why does nothing happen?".

use std::borrow::Cow;
use std::fmt;

use flyball_api::{Key, Resource, Timestamp};
use serde::Serialize;

use crate::decisions::Subject;

/// Something that has to happen before a key's controller has more to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Waiting {
    /// An object has to change.
    Object {
        object: Subject,
        /// What has to become of it, such as `to become ready`.
        until: Cow<'static, str>,
    },
    /// A time has to come.
    Time {
        time: Timestamp,
        /// What happens then, such as `when the next Job is due`.
        when: Cow<'static, str>,
    },
}

impl Waiting {
    /// Waits for the object of this kind and key, until what `until` says.
    pub fn on<T: Resource>(key: &Key, until: impl Into<Cow<'static, str>>) -> Self {
        Self::Object { object: Subject::new(T::TYPE.kind, key), until: until.into() }
    }

    /// Waits for a time, at which happens what `when` says.
    pub fn until(time: Timestamp, when: impl Into<Cow<'static, str>>) -> Self {
        Self::Time { time, when: when.into() }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { object, until } => write!(f, "{object} {until}"),
            Self::Time { time, when } => write!(f, "{time}, {when}"),
        }
    }
}
