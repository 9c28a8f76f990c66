//! What subscribers receive: one object before and after.

use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta};

/// Why a change is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The object existed when the informer started or the subscriber joined.
    Initial,
    /// From a watch event.
    Watch,
    /// Found by comparing with a new list, after the watch could not be resumed.
    Relist,
    Resync,
}

impl Origin {
    /// Whether the object may just have changed, as opposed to an initial list or a resync.
    pub fn is_fresh(self) -> bool {
        matches!(self, Self::Watch | Self::Relist)
    }
}

/// One object before and after. At least one of `old` and `new` is set.
///
/// A deletion has only `old`: the last known state, which is the object's final state if the deletion came from a watch
/// event. An object that was replaced by another of the same name is reported as deleted, then as added.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// `None` if the object is new.
    pub old: Option<&'a Arc<T>>,
    /// `None` if the object was deleted.
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

    /// `new`, or `old` for a deletion.
    ///
    /// # Panics
    /// If both are `None`, which no informer reports.
    pub fn object(&self) -> &'a Arc<T> {
        self.new.or(self.old).expect("a change has an old or a new side")
    }

    pub fn key(&self) -> Key {
        self.object().key()
    }

    /// The same change, with metadata only.
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
    /// `None` if the object is new.
    pub old: Option<&'a ObjectMeta>,
    /// `None` if the object was deleted.
    pub new: Option<&'a ObjectMeta>,
    pub origin: Origin,
}
