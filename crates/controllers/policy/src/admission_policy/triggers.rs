//! Which policies a change concerns. Pure.

use flyball_api::{Key, Object, ValidatingAdmissionPolicy};
use flyball_cache::Change;

use super::plan::is_due;

/// The changed policy, if its generation has not been checked yet.
pub fn policy_changed(change: &Change<'_, ValidatingAdmissionPolicy>) -> Vec<Key> {
    change.new.filter(|policy| is_due(policy)).map(|policy| policy.key()).into_iter().collect()
}
