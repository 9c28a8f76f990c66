//! The client of an API server: from a kubeconfig to typed verbs.
//!
//! In reading order: [`connect`] finds the server and opens [`Transport`]s to it; a [`Client`] is one identity on a transport, with
//! its rate limit, deadlines and retries; [`Request`] and the verbs on [`Client`] are the requests; [`Error`] is why one failed,
//! and above all whether a write may have happened; [`Fence`] prevents a leader that may have lost its lease from writing;
//! [`WatchStream`] watches a collection; [`Identities`] gives each controller a client with its own service account; [`RawObject`]
//! is an object as it was sent, in JSON or protobuf; [`Discovery`] is what the server serves; [`Limiter`] is the rate limit.

#[cfg(test)]
#[path = "tests/fake.rs"]
mod fake;
#[cfg(test)]
#[path = "tests/protobuf.rs"]
mod protobuf_tests;

mod chain;
mod client;
mod config;
mod connect;
mod credentials;
mod dial;
mod discovery;
mod encoding;
mod error;
mod fence;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod http2;
mod identities;
mod kubeconfig;
mod limiter;
mod pool;
mod pulse;
mod race;
mod request;
mod shadow;
mod status;
mod transport;
mod user_agent;
mod verbs;
mod watch;

pub use chain::Chain;
pub use client::{
    Attempt, CARRIED_OUT_WITHIN, Client, ClientOptions, DEFAULT_TIMEOUT, Observer, Reply, WRITE_TIMEOUT,
};
pub use connect::{Connection, connect, connect_to_lead};
pub use discovery::{DiscoveredResource, Discovery, DiscoveryFailure};
pub use encoding::{Encoding, RawObject};
pub use error::{Error, without_quotes};
pub use fence::{Fence, FenceClock, FenceTime, Fenced};
pub use frames::{EventKind, WatchEvent};
pub use identities::{ACCOUNT_NAMESPACE, Identities};
pub use kubeconfig::{ConfigError, ConnectOptions};
pub use limiter::Limiter;
pub use request::{Accept, DeleteOptions, ListParams, Patch, Propagation, Request, Verb, WatchParams};
pub use shadow::Shadow;
pub use status::{ApiStatus, StatusCause, StatusDetails};
pub use transport::{Body, BoxError, ServiceTransport, Transport, TransportError};
pub use user_agent::{user_agent, user_agent_of};
pub use verbs::{Deleted, List};
pub use watch::WatchStream;
