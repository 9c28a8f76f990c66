//! Secondary indexes: declared as constants, updated by the store on every write.

use flyball_api::Object;

/// Calls back with every key of an object.
pub type Keys<T> = fn(&T, &mut dyn FnMut(&str));

/// A way to find objects by something other than their name.
///
/// `keys` must be pure: when an object changes, the store computes the keys of the old version again.
pub struct Index<T> {
    /// Unique among the indexes of the resource.
    pub name: &'static str,
    pub keys: Keys<T>,
}

impl<T> Index<T> {
    pub const fn new(name: &'static str, keys: Keys<T>) -> Self {
        Self { name, keys }
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Index<T> {}

/// Objects by the uid of the owner that controls them.
pub const fn by_controller<T: Object>() -> Index<T> {
    Index::new("controller", |object, emit| {
        if let Some(owner) = object.meta().controller() {
            owner.uid.with_str(emit);
        }
    })
}

/// Objects by the uid of each of their owners, controlling or not.
pub const fn by_owner<T: Object>() -> Index<T> {
    Index::new("owner", |object, emit| {
        for owner in &object.meta().owner_references {
            owner.uid.with_str(&mut *emit);
        }
    })
}

/// Objects by their own uid.
pub const fn by_uid<T: Object>() -> Index<T> {
    Index::new("uid", |object, emit| object.uid().with_str(emit))
}
