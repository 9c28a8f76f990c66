//! The HTTPS server: health, metrics, configuration and debugging pages, behind delegated authentication and
//! authorization.

mod options;

pub use options::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
