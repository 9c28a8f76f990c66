//! What providers need besides the traits.

mod addresses;
mod file;
mod written;

/// An HTTP client with retries and metrics, and secrets in files that change.
pub use flyball_outbound as http;

pub use addresses::{NoAddress, choose, shown};
pub use file::{Checked, ConfigError, ConfigFile, parse};
pub use written::{ApiAddress, Form, Written};
