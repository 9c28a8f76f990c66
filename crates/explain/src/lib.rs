//! Why an object is as it is: the current blocker, what is known of each level, and what happened.
//!
//! In reading order: [`Obj`] is any object as JSON; [`World`] is everything that is known; [`rules::RULES`] is the table of
//! rules, each a small function from a world and an object to [`Finding`]s; [`explain()`] puts them together with the tree
//! of owners and dependents and the history; [`Question`] is for what did *not* happen; [`text()`] prints it. All of this is
//! pure. [`wants::wants`] says what has to be read next, and [`gather`], the only async part, reads it.

pub mod explain;
pub mod finding;
pub mod gather;
mod history;
pub mod kinds;
mod not;
mod object;
pub mod rules;
mod state;
mod text;
pub mod wants;
mod words;
mod world;

pub use explain::{Failure, explain};
pub use finding::{Entry, Explanation, Finding, Level, Weight};
pub use not::{Question, WORDS};
pub use object::{Obj, Ref};
pub use text::text;
pub use world::{Decision, Log, Lookup, Wait, World};
