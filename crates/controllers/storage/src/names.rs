//! Words that users and other components see: phases, annotations, finalizers.

/// A volume or a claim that has the other.
pub(crate) const BOUND: &str = "Bound";
