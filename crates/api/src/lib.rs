//! Kubernetes objects as controllers need them: slim types, selectors, quantities, conditions and their text
//! forms. Nothing here does I/O.
//!
//! In reading order:
//! - [`Key`], [`ResourceType`], [`Uid`], [`ResourceVersion`]: how objects are identified;
//! - [`ObjectMeta`] and [`Labels`]: what every object has; [`Object`] and [`Resource`] tie a type to its resource;
//! - the kinds, one module each. They are *slim*: they have the fields that controllers read, and skip the rest while
//!   parsing. Values that repeat between objects are stored once ([`intern`]);
//! - [`RawJson`] and [`WithRaw`]: what controllers copy or send back (pod templates, whole specs) stays as it was
//!   served, so that no field is lost; [`Templated`] is a spec whose template is kept once; [`canonical`] formats such JSON as
//!   Go does;
//! - [`protobuf`]: the same objects in the encoding that costs the API server least;
//! - [`selector`], [`quantity`], [`intstr`], [`time`], [`cron`], [`condition`], [`names`], [`hash`]: the small languages inside
//!   objects. Each parser refuses bad input with an error that names it; none panics.
//!
//! Null reads as empty, unknown enum values read as a neutral one, and unknown fields are skipped: a newer server cannot make
//! an object unreadable.

pub mod canonical;
pub mod condition;
pub mod cron;
pub mod de;
pub mod hash;
pub mod intern;
pub mod intstr;
mod key;
mod kinds;
mod labels;
mod meta;
pub mod names;
pub mod protobuf;
pub mod quantity;
mod raw;
mod resource;
mod resources;
pub mod room;
pub mod selector;
mod templated;
mod text_enum;
pub mod time;
pub mod topology;
mod uid;
mod version;

/// For the expansion of [`resource!`] in other crates.
#[doc(hidden)]
pub use serde_json as json;

pub use condition::Condition;
pub use intstr::IntOrString;
pub use key::Key;
pub use kinds::*;
pub use labels::Labels;
pub use meta::{ObjectMeta, OwnerReference, PartialObject};
pub use quantity::Quantity;
pub use raw::{RawJson, WithRaw};
pub use resource::{Object, Resource, ResourceType, manifest, manifest_with_status, status_manifest};
pub use resources::{ResourceList, Resources};
pub use selector::{FieldSelector, LabelSelector, Selector};
pub use templated::{HasTemplate, Templated};
pub use time::Timestamp;
pub use uid::Uid;
pub use version::{InvalidResourceVersion, ResourceVersion};
