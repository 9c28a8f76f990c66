//! An HTTP client for the APIs of vendors: retries, metrics, and credentials from files that change. `flyball_cloud::kit` has it for
//! providers; docs/cloud.md shows how to use it.
//!
//! In reading order: [`Http`] is the client and [`Call`] a request; `retry` decides, purely, what is sent again and when;
//! [`SecretFile`] and [`Credentials`] say who we are; `connect` is TLS.

mod client;
mod connect;
mod credentials;
mod error;
mod retry;
#[cfg(test)]
mod tests;

pub use client::{Call, Http, Reply, segment};
pub use credentials::{Credentials, SecretError, SecretFile, Unsigned};
pub use error::{HttpError, OpenError, Problem};
