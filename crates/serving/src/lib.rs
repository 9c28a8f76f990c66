//! The HTTPS server: health, metrics, configuration and debugging pages, behind delegated authentication and
//! authorization.
//!
//! In reading order: [`Pages`] is what there is to see; `routes` finds the page for a path; `health`, `zpages`
//! write the larger ones; `authn` finds out who asks (by `front_proxy`, `subject` of a certificate, or token),
//! `authz` whether they may, both with `reviews` by the API server; [`Server`] answers a request with all of that.
//! `tls` holds the certificates, `listener` and `connections` keep hostile clients in bounds.

mod answer;
mod authn;
mod authz;
mod certs;
mod cluster_ca;
mod connections;
mod decisions;
mod front_proxy;
mod health;
mod heartbeat;
mod listener;
mod negotiate;
mod options;
mod percent;
mod reviews;
mod routes;
mod seldom;
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

pub use authn::{Authenticator, Peer, User};
pub use authz::Authorizer;
pub use cluster_ca::{ClusterCa, LookupError};
pub use decisions::{decisions_page, waiting_page};
pub use heartbeat::Heartbeat;
pub use listener::Listening;
pub use options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
pub use server::{Server, ServingError};
pub use tls::{CIPHER_SUITES, tls_problems};

/// The name that pages carry, and certificates unless another is given.
pub const COMPONENT: &str = "kube-controller-manager";

/// Health checks by name, in the order in which they are shown, with the reason where one fails.
pub type Checks = Arc<dyn Fn() -> Vec<(String, Result<(), String>)> + Send + Sync>;

/// What else there is to say of what is checked, whether its check passes or not: by name. Anybody may read it.
pub type Remarks = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

/// What there is to see.
#[derive(Clone)]
pub struct Pages {
    /// Body of `/configz`.
    pub configz: String,
    /// Content of `/flagz`; none hides the page.
    pub flagz: Option<BTreeMap<String, String>>,
    /// Whether `/statusz` is there.
    pub statusz: bool,
    /// Whether `/debug` is there.
    pub debug: bool,
    pub metrics: Metrics,
    pub checks: Checks,
    pub remarks: Remarks,
    /// For `/debug/decisions` and `/debug/waiting`; none hides them.
    pub decisions: Option<DecisionLog>,
    /// What controllers show about themselves.
    pub controllers: DebugPages,
    /// Changes how much is logged.
    pub set_verbosity: Option<Arc<dyn Fn(u32) + Send + Sync>>,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("debug", &self.debug).finish_non_exhaustive()
    }
}
