//! X.509: [`Request`] parses certificate requests and [`issue`] writes certificates, both as Go's library does.

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
