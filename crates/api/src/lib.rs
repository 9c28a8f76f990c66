//! Kubernetes objects as controllers need them: slim types, selectors, quantities, conditions and their text
//! forms. Nothing here does I/O.
//!
//! Kinds are *slim*: they hold what some controller reads and skip the rest while parsing. What controllers copy
//! or send back (pod templates, whole specs) stays raw JSON, so that no field is ever lost.

pub mod canonical;
pub mod condition;
pub mod de;
pub mod hash;
pub mod intern;
pub mod intstr;
mod key;
mod kinds;
mod labels;
mod meta;
pub mod names;
pub mod quantity;
mod raw;
mod resource;
mod resources;
pub mod selector;
mod text_enum;
pub mod time;
mod uid;
mod version;

pub use condition::Condition;
pub use intstr::IntOrString;
pub use key::Key;
pub use kinds::*;
pub use labels::Labels;
pub use meta::{ObjectMeta, OwnerReference, PartialObject};
pub use quantity::Quantity;
pub use raw::{RawJson, WithRaw};
pub use resource::{Object, Resource, ResourceType, manifest, manifest_with_status};
pub use resources::{ResourceList, Resources};
pub use selector::{FieldSelector, LabelSelector, Selector};
pub use time::Timestamp;
pub use uid::Uid;
pub use version::{InvalidResourceVersion, ResourceVersion};
