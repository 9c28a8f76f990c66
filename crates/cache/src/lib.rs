//! Indexed caches of the API server's resources, kept current by list and watch.
//!
//! In reading order:
//! - [`Informers`]: the factory; one [`Informer`] for each resource of the process.
//! - [`Informer`]: a [`Store`] that follows the server, and subscribers that receive every [`Change`].
//! - [`Store`]: look-ups by name, by namespace and by any declared [`Index`].
//! - [`Progress`]: whether the cache has seen a write. [`AnyInformer`]: the same for resources of any type.
//!
//! Inside, data flows one way: a `Source` (the API client, or a script in tests) yields bytes; the `Reflector` decides when
//! to list, watch, wait and retry; the `StoreWriter`, with the `Listing` of a list in progress, applies objects to the
//! store and delivers changes to subscribers.

mod backoff;
mod change;
mod client_source;
mod contact;
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
mod progress;
mod reflector;
mod source;
mod state;
mod store;
mod store_writer;
mod table;
#[cfg(test)]
mod tests;
mod version_waits;
mod witness;

pub use change::{Change, MetaChange, Origin};
pub use fanout::{Handler, Subscription};
pub use health::{Failing, Health};
pub use index::{Index, Keys, by_controller, by_owner, by_uid};
pub use informer::Informer;
pub use informers::{Filter, InformerOptions, Informers};
pub use metrics::{Counts, DELIVERY_BUCKETS};
pub use progress::{AnyInformer, Progress};
pub use store::{Header, Store};
