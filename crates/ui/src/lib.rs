//! The live page at `/ui`: what is broken, why, and since when; how the controllers are doing; what they write.
//!
//! In reading order: [`Sources`] is what the page reads; `state` says how an object is, `row` how that is sent; `feed` follows
//! the caches while somebody looks, and sends the changes to each viewer; `why` explains an object; [`Acts`] are the buttons,
//! where there are any; `assets` has the files of the page, `respond` finds the answer to a request. [`Ui::respond`] leaves it
//! to its caller who may look. [`Local`] is for a process that has no users: whoever has its link may look and press buttons.
//!
//! Without viewers, the page runs no task and keeps no state.

mod acts;
mod answer;
mod assets;
mod feed;
mod local;
mod origin;
mod respond;
mod row;
mod sessions;
mod sources;
mod state;
mod why;

pub use acts::{Act, Acts, Switch};
pub use answer::{Answer, Body};
pub use local::{Behind, BodyError, Local, RequestBody, Wire};
pub use respond::Ui;
pub use sources::Sources;

/// The path of the page. Everything else is below it.
pub const PATH: &str = "/ui";

/// Whether a path belongs to the page.
pub fn is_page(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
