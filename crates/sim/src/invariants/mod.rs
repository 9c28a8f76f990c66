//! What must hold of the cluster after every single write of a controller, whatever went wrong before: the rules by
//! which the simulator judges controllers while they work, not only by how a run ends.
//!
//! A rule belongs to a controller and looks at one write of that one and at the server's true state right after it.
//! Controllers see that state late, so a rule must not ask for what nobody could have known: where a decision may
//! rest on an older state, the rule looks at all states that there were ([`World::versions`]).

mod apps;
mod batch;
mod everyone;
mod identity;
mod lifecycle;
mod network;
mod node;
mod policy;
mod resource;
mod rest;
mod storage;
#[cfg(test)]
mod tests;
mod values;
mod witness;
mod world;

use std::fmt;

pub use witness::{Tally, Witness};
pub use world::{World, Write};

pub struct Rule {
    /// The controller that has to keep it, as the table of controllers calls it.
    pub controller: &'static str,
    /// What must hold, in words.
    pub says: &'static str,
    /// Looks at a write and the state after it; an error says what is wrong.
    pub check: fn(&World, &Write) -> Result<(), String>,
}

const fn rule(
    controller: &'static str,
    says: &'static str,
    check: fn(&World, &Write) -> Result<(), String>,
) -> Rule {
    Rule { controller, says, check }
}

/// The rules of single controllers.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let families = [
        apps::RULES,
        batch::RULES,
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

/// Controllers of the table that have no rule of their own, and why.
pub const WITHOUT: &[(&str, &str)] = &[
    ("service-lb-controller", "lives in the cloud-controller-manager, which no scenario runs"),
    ("node-route-controller", "lives in the cloud-controller-manager, which no scenario runs"),
    ("cloud-node-lifecycle-controller", "lives in the cloud-controller-manager, which no scenario runs"),
];

/// A rule that a write has broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub controller: &'static str,
    pub rule: &'static str,
    /// The write, and what is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.controller, self.rule, self.what)
    }
}
