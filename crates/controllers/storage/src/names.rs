//! Words that users and other components see: annotations, phases, finalizers.

/// A volume or claim that is bound.
pub(crate) const BOUND: &str = "Bound";
