//! The rules that must hold at every single write of a controller, whatever went wrong before. The simulator checks them
//! while controllers work, not only at the end of a run.
//!
//! A rule belongs to a controller and gets one write of that controller and the server's state right after it. Controllers
//! see that state late, so a rule must not require what the controller could not have known: where a decision may be based on
//! an older state, the rule looks at all past states ([`ServerState::versions`]).

mod apps;
mod batch;
mod checker;
mod cloud;
mod everyone;
mod identity;
mod lifecycle;
mod network;
mod node;
mod policy;
mod resource;
mod rest;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

pub use checker::{Findings, RuleChecker};
pub use state::{ServerState, Write};

pub struct Rule {
    /// The controller that has to keep it, by its name in the table of controllers.
    pub controller: &'static str,
    /// What must hold, in words.
    pub says: &'static str,
    /// Checks a write and the state after it; an error describes the violation.
    pub check: fn(&ServerState, &Write) -> Result<(), String>,
}

const fn rule(
    controller: &'static str,
    says: &'static str,
    check: fn(&ServerState, &Write) -> Result<(), String>,
) -> Rule {
    Rule { controller, says, check }
}

/// The rules of single controllers.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let families = [
        apps::RULES,
        batch::RULES,
        cloud::RULES,
        identity::RULES,
        lifecycle::RULES,
        network::RULES,
        node::RULES,
        policy::RULES,
        resource::RULES,
        storage::RULES,
    ];
    families.into_iter().flatten()
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub controller: &'static str,
    pub rule: &'static str,
    /// The write, and a description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.controller, self.rule, self.what)
    }
}
