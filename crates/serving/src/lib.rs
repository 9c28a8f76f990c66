//! The HTTPS server: health, metrics, configuration and debugging pages, behind delegated authentication and
//! authorization.
//!
//! In reading order: [`Pages`] has the data of all pages; `routes` finds the page for a path; `health`, `zpages` and
//! `decisions` render the larger ones; `authn` identifies the user (by `front_proxy`, `subject` of a certificate, or token)
//! and `authz` authorizes the request, both with `reviews` by the API server; [`Server`] handles a request with all of that.
//! [`OpenServer`] has handlers without any of that. `tls` has the certificates, `groups` the key exchange; `listener` and `connections` limit what hostile
//! clients can do.

mod answer;
mod authn;
mod authz;
mod certs;
mod cluster_ca;
mod connections;
mod decisions;
mod front_proxy;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod health;
mod heartbeat;
mod listener;
mod negotiate;
mod open;
mod options;
mod percent;
mod reviews;
mod routes;
mod server;
mod subject;
#[cfg(test)]
mod tests;
mod tls;
mod ttl;
mod zpages;

use std::{collections::BTreeMap, sync::Arc};

use flyball_api::Timestamp;
use flyball_runtime::DebugPages;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::metrics::Metrics;
use futures::future::BoxFuture;

pub use answer::Answer;
pub use authn::{Authenticator, Peer, User};
pub use authz::Authorizer;
pub use cluster_ca::{ClusterCa, LookupError};
pub use decisions::{decisions_page, waiting_page};
pub use heartbeat::Heartbeat;
pub use listener::Listening;
pub use open::{Handler, OpenServer, Posted, Reply};
pub use options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
pub use server::{Server, ServingError};
pub use tls::{CIPHER_SUITES, tls_notices, tls_problems};

/// The name on pages, and the default name of certificates.
pub const COMPONENT: &str = "kube-controller-manager";

/// Health checks by name, in the order in which they are shown, with the reason of a failure.
pub type Checks = Arc<dyn Fn() -> Vec<(String, Result<(), String>)> + Send + Sync>;

/// Remarks on health checks by name, whether they pass or not. They are public.
pub type Remarks = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

/// A part of the paths that another service handles, for users who may do `get` on the path. Hidden with `/debug`.
#[derive(Clone)]
pub struct Mounted {
    /// The path; the part has it and everything below it.
    pub path: &'static str,
    pub answer: Arc<dyn Fn(http::request::Parts) -> BoxFuture<'static, Answer> + Send + Sync>,
}

impl Mounted {
    fn has(&self, path: &str) -> bool {
        path.strip_prefix(self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The data of all pages.
#[derive(Clone)]
pub struct Pages {
    /// The body of `/configz`.
    pub configz: String,
    /// The flags of `/flagz`; `None` hides the page.
    pub flagz: Option<BTreeMap<String, String>>,
    /// The emulated version for `/statusz`; `None` hides the page.
    pub statusz: Option<String>,
    /// Whether `/debug` is served.
    pub debug: bool,
    pub metrics: Metrics,
    pub checks: Checks,
    pub remarks: Remarks,
    /// For `/debug/decisions` and `/debug/waiting`; `None` hides them.
    pub decisions: Option<DecisionLog>,
    /// Paths that another crate answers.
    pub mounted: Option<Mounted>,
    pub controllers: DebugPages,
    pub set_verbosity: Option<Arc<dyn Fn(u32) + Send + Sync>>,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("debug", &self.debug).finish_non_exhaustive()
    }
}
