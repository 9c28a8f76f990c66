//! An embedded Kubernetes API server: a tower service over a versioned store, without sockets, and deterministic for a given clock
//! and seed; and an HTTPS server for other processes.

mod addresses;
mod admission;
mod aggregation;
mod apply;
mod audit;
mod authn;
mod authz;
mod bootstrap;
mod crd;
mod discovery;
pub mod error;
mod expiry;
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod http;
pub mod invalid;
pub mod kinds;
mod life;
mod meta;
mod metrics;
mod oidc;
mod openapi;
mod options;
mod patching;
pub mod pki;
mod pods;
pub mod registry;
mod resource;
mod reviews;
mod selector;
mod serve;
mod server;
mod standstill;
pub mod store;
mod tokens;
mod usage;
mod verbs;
mod webhook;

pub use crate::audit::{Audit, Record, Stage};
pub use crate::http::respond::{Body, BoxError};
pub use crate::options::{
    Amounts, Authorization, Clock, FrontProxy, InPod, Kubelet, Log, Options, Page, PodUsage, Process, Ran,
    StaticToken, Streams, Uids,
};
pub use crate::serve::{Plain, TlsError, refuse, serve, serve_and_plainly, tls};
pub use crate::server::{ApiServer, Inner, StartError};
pub use crate::standstill::Standstill;
