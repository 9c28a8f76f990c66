//! What a key waits for: the answer to "why does nothing happen?".

use std::borrow::Cow;
use std::fmt;

use flyball_api::{Key, Resource};
use serde::Serialize;

use crate::decisions::Subject;

/// Something that has to happen elsewhere before a key's controller has more to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The object that has to change.
    pub object: Subject,
    /// What has to become of it, such as `to become ready`.
    pub until: Cow<'static, str>,
}

impl Waiting {
    /// Waits for the object of this kind and key, until what `until` says.
    pub fn on<T: Resource>(key: &Key, until: impl Into<Cow<'static, str>>) -> Self {
        Self { object: Subject::new(T::TYPE.kind, key), until: until.into() }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.until)
    }
}
