//! Values that a manager passes to its own controllers, by type, so that the runtime need not know them.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Values by their types, one of each. Cheap to clone.
#[derive(Clone, Default)]
pub struct Extensions {
    values: Arc<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Extensions {
    /// Adds `value`, or replaces the value of its type.
    pub fn with<T: Any + Send + Sync>(self, value: T) -> Self {
        let mut values = (*self.values).clone();
        values.insert(TypeId::of::<T>(), Arc::new(value));
        Self { values: Arc::new(values) }
    }

    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.values.get(&TypeId::of::<T>()).cloned().and_then(|value| value.downcast().ok())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Extensions;

    #[test]
    fn there_is_one_value_of_each_type_and_the_last_one_counts() {
        let extensions = Extensions::default().with(1_u8).with("a").with(2_u8);
        assert_eq!(extensions.get::<u8>().as_deref(), Some(&2));
        assert_eq!(extensions.get::<&str>().as_deref(), Some(&"a"));
        assert_eq!(extensions.get::<u16>(), None);
    }
}
