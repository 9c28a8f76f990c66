//! Indexed caches of the API server's resources, kept current by list and watch.
//!
//! In reading order:
//! - [`Informers`]: the factory; one [`Informer`] for each resource of the process.
//! - [`Informer`]: a [`Store`] that follows the server, and subscribers that hear of every [`Change`].
//! - [`Store`]: look-ups by name, by namespace and by any declared [`Index`].
//! - [`Progress`]: has the cache seen my write? [`AnyInformer`]: the same for resources of any type.
//!
//! Inside, one change flows one way: a `Source` (the API client, or a script in tests) yields bytes, the `Reflector`
//! knows when to list, watch, wait and retry, and the `Mirror`, with the `Listing` of a list under way,
//! knows what an object that was listed or watched means for the store and tells the subscribers.

mod backoff;
mod change;
mod client_source;
mod course;
mod currency;
mod decode;
mod era;
mod fanout;
mod health;
mod index;
mod informer;
mod informers;
mod listing;
mod metrics;
mod milestones;
mod mirror;
mod progress;
mod reflector;
mod source;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use change::{Change, MetaChange, Origin};
pub use fanout::{Handler, Subscription};
pub use health::{Failing, Health};
pub use index::{Index, Keys, by_controller, by_owner, by_uid};
pub use informer::Informer;
pub use informers::{Filter, InformerOptions, Informers};
pub use metrics::{Counts, TOLD_WITHIN};
pub use progress::{AnyInformer, Progress};
pub use store::{Header, Store};
