//! `spec.successPolicy`: when an Indexed Job succeeds before all of its indexes have. Pure.

use flyball_api::job::{SuccessPolicy, SuccessPolicyRule};

use super::indexes::Indexes;

/// The message about the first rule that the succeeded indexes meet.
pub fn met(policy: Option<&SuccessPolicy>, succeeded: &Indexes, completions: u32) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rule = policy?.rules.iter().position(|rule| is_met(rule, succeeded, completions))?;
    Some(format!("Matched rules at index {rule}"))
}

/// A rule with indexes requires all of them, or a number of them; one without requires a number of any indexes.
fn is_met(rule: &SuccessPolicyRule, succeeded: &Indexes, completions: u32) -> bool {
    let enough =
        |have: usize| rule.succeeded_count.is_some_and(|count| have >= usize::try_from(count).unwrap_or(0));
    match &rule.succeeded_indexes {
        None => enough(succeeded.total()),
        Some(text) => {
            let wanted = Indexes::parse(text, completions);
            let have = wanted.in_common(succeeded);
            !wanted.is_empty() && (have == wanted.total() || enough(have))
        }
    }
}
