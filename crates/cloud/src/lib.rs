//! The cloud-controller-manager as a library: the interface of a cloud, and the controllers that use it.
//!
//! In reading order: [`provider`] is what a vendor implements, with the help of [`kit`], and tests with [`conformance`]; [`node`],
//! [`lifecycle`], [`service`] and [`route`] are the controllers; [`webhook`] serves admission webhooks of a cloud; [`program`] has
//! the flags and the start; [`simulated`] is a cloud for tests and trials.
//!
//! A vendor's program has one line:
//!
//! ```no_run
//! # mod acme {
//! #     pub const PROVIDER: flyball_cloud::Provider =
//! #         flyball_cloud::Provider::new("acme", |_| Box::pin(async { Ok(flyball_cloud::Cloud::new("acme")) }));
//! # }
//! fn main() -> std::process::ExitCode {
//!     flyball_cloud::main(&[acme::PROVIDER])
//! }
//! ```

pub mod conformance;
pub mod kit;
pub mod lifecycle;
pub mod node;
pub mod program;
pub mod provider;
pub mod route;
pub mod service;
pub mod simulated;
mod surroundings;
pub mod webhook;

pub use flyball_manager::Ending;
pub use flyball_manager::flags::{Flag, VendorFlag};
pub use program::{CLOUD_CONTROLLER_MANAGER, main};
pub use provider::{
    Cloud, CloudError, Instances, LoadBalancers, Metadata, OpenError, Opening, Provider, Route, Routes,
    default_name,
};
pub use webhook::Webhook;
