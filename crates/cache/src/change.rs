//! What subscribers are told: one object before and after.

use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta};

/// Why a change is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The object was there when the informer started, the subscriber came, or the server was found restored.
    Initial,
    /// The server said so as it happened.
    Watch,
    /// Found by comparing with a fresh list after the watch had lost its place.
    Relist,
    Resync,
}

impl Origin {
    /// Whether something may just have happened, as opposed to a flood of objects that are merely there.
    pub fn is_fresh(self) -> bool {
        matches!(self, Self::Watch | Self::Relist)
    }
}

/// One object before and after. At least one of `old` and `new` is there.
///
/// A deletion has only `old`: the last state the server told, which for a deletion heard on the watch is the
/// object's final state. An object that was replaced by another of the same name is reported as deleted, then
/// as added.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// Before; `None` if the object is new.
    pub old: Option<&'a Arc<T>>,
    /// After; `None` if the object is gone.
    pub new: Option<&'a Arc<T>>,
    pub origin: Origin,
}

impl<T> Clone for Change<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Change<'_, T> {}

impl<'a, T: Object> Change<'a, T> {
    pub(crate) fn appeared(new: &'a Arc<T>, origin: Origin) -> Self {
        Self { old: None, new: Some(new), origin }
    }

    pub(crate) fn vanished(old: &'a Arc<T>, origin: Origin) -> Self {
        Self { old: Some(old), new: None, origin }
    }

    /// The newest state there is.
    ///
    /// # Panics
    /// If both sides are `None`, which no informer ever reports.
    pub fn object(&self) -> &'a Arc<T> {
        self.new.or(self.old).expect("a change has an old or a new side")
    }

    pub fn key(&self) -> Key {
        self.object().key()
    }

    /// The same change, seen as metadata only.
    pub fn meta(&self) -> MetaChange<'a> {
        MetaChange {
            old: self.old.map(|object| object.meta()),
            new: self.new.map(|object| object.meta()),
            origin: self.origin,
        }
    }
}

/// A [`Change`] of an object of any type, reduced to its metadata.
#[derive(Debug, Clone, Copy)]
pub struct MetaChange<'a> {
    /// Before; `None` if the object is new.
    pub old: Option<&'a ObjectMeta>,
    /// After; `None` if the object is gone.
    pub new: Option<&'a ObjectMeta>,
    pub origin: Origin,
}
