//! What all servers of the workspace need to accept connections: a loop that no error ends, and log lines that any client can cause.

mod accept;
mod seldom;

pub use crate::accept::{Accepting, Listener, each, each_of};
pub use crate::seldom::{Seldom, SeldomEach};
