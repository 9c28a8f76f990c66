//! Certificates as bytes: [`Request`] reads what is asked, [`issue`] writes what is signed, both as Go's library does.

mod certificate;
mod proof;
mod request;
mod subject;
#[cfg(test)]
mod tests;
mod usages;

pub use certificate::{Authority, AuthorityError, Serial, Validity, issue};
pub use request::{AlternativeNames, Request, RequestError};
pub use subject::Subject;
pub use usages::{Purpose, UnknownUsages, Usages};
