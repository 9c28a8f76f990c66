//! The conditions that report how far the deletion of a namespace is. Pure.

use std::collections::BTreeMap;

use flyball_api::condition::{Condition, FALSE, TRUE};
use flyball_api::{ResourceType, Timestamp};
use flyball_client::Discovery;
use smol_str::SmolStr;

use super::content::{Collection, Remains};

/// The errors of the deletion of all content, and what remains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    discovery_failure: Option<String>,
    content_failures: Vec<String>,
    remaining: BTreeMap<ResourceType, usize>,
    finalizers: BTreeMap<SmolStr, usize>,
}

impl Findings {
    /// Sums up what is left of each collection, and what could not be discovered.
    pub fn of(
        discovery: Result<&Discovery, &String>,
        remains: &[(Collection, Remains)],
        pods_first: bool,
    ) -> Self {
        let mut findings = Self::default();
        match discovery {
            Ok(discovery) => findings.discovered(discovery),
            Err(error) => findings.discovery_failure = Some(error.clone()),
        }
        for (collection, remains) in remains {
            findings.failed(remains);
            // Upstream does not report remaining pods that come first: while there are any, its pass over the resources ends
            // with them.
            if !(pods_first && collection.is_pods()) {
                findings.remain(&collection.resource, remains);
            }
        }
        findings
    }

    /// Adds the groups that could not be discovered.
    pub fn discovered(&mut self, discovery: &Discovery) {
        if discovery.failures.is_empty() {
            return;
        }
        let mut groups: Vec<String> = discovery
            .failures
            .iter()
            .map(|failure| format!("{}: {}", failure.group_version, failure.problem))
            .collect();
        groups.sort_unstable();
        self.discovery_failure = Some(format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            groups.len(),
            groups.join(", ")
        ));
    }

    /// Adds the error of one collection.
    pub fn failed(&mut self, remains: &Remains) {
        self.content_failures.extend(remains.error.clone());
    }

    /// Adds the objects of one collection that remain.
    pub fn remain(&mut self, resource: &ResourceType, remains: &Remains) {
        if remains.objects > 0 {
            self.remaining.insert(resource.clone(), remains.objects);
        }
        for (finalizer, objects) in &remains.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += objects;
        }
    }

    /// All errors, joined.
    pub fn failure(&self) -> Option<String> {
        let all: Vec<&str> =
            self.discovery_failure.iter().chain(&self.content_failures).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// All five conditions, in upstream's order, whether they hold or not.
    fn conditions(&self, now: Timestamp) -> [Condition; 5] {
        let message = |lines: Vec<String>, with: &dyn Fn(String) -> String| match lines.is_empty() {
            true => None,
            false => {
                let mut lines = lines;
                lines.sort_unstable();
                Some(with(lines.join(", ")))
            }
        };
        let failures = self.content_failures.len();
        let content_failure = message(self.content_failures.clone(), &|all| {
            format!("Failed to delete all resource types, {failures} remaining: {all}")
        });
        let of_resource = |(resource, objects): (&ResourceType, &usize)| {
            format!("{}.{} has {objects} resource instances", resource.plural, resource.group)
        };
        let remaining = message(self.remaining.iter().map(of_resource).collect(), &|all| {
            format!("Some resources are remaining: {all}")
        });
        let of_finalizer =
            |(finalizer, objects): (&SmolStr, &usize)| format!("{finalizer} in {objects} resource instances");
        let finalizers = message(self.finalizers.iter().map(of_finalizer).collect(), &|all| {
            format!("Some content in the namespace has finalizers remaining: {all}")
        });
        [
            condition(
                "NamespaceDeletionDiscoveryFailure",
                ("ResourcesDiscovered", "All resources successfully discovered"),
                self.discovery_failure.clone().map(|message| ("DiscoveryFailed", message)),
                now,
            ),
            // Upstream parses group versions after discovery; here that is a part of discovery.
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
                None,
                now,
            ),
            condition(
                "NamespaceDeletionContentFailure",
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
                content_failure.map(|message| ("ContentDeletionFailed", message)),
                now,
            ),
            condition(
                "NamespaceContentRemaining",
                ("ContentRemoved", "All content successfully removed"),
                remaining.map(|message| ("SomeResourcesRemain", message)),
                now,
            ),
            condition(
                "NamespaceFinalizersRemaining",
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
                finalizers.map(|message| ("SomeFinalizersRemain", message)),
                now,
            ),
        ]
    }

    /// The conditions with these findings; `None` if nothing changes.
    pub fn update(&self, conditions: &[Condition], now: Timestamp) -> Option<Vec<Condition>> {
        let mut updated = conditions.to_vec();
        for new in self.conditions(now) {
            match updated.iter_mut().find(|old| old.type_ == new.type_) {
                None => updated.push(new),
                Some(old) => {
                    if old.status != new.status {
                        old.last_transition_time = new.last_transition_time;
                    }
                    (old.status, old.reason, old.message) = (new.status, new.reason, new.message);
                }
            }
        }
        (updated != conditions).then_some(updated)
    }
}

fn condition(
    type_: &'static str,
    fine: (&'static str, &'static str),
    problem: Option<(&'static str, String)>,
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match problem {
        Some((reason, message)) => (TRUE, reason, SmolStr::from(message)),
        None => (FALSE, fine.0, SmolStr::new_static(fine.1)),
    };
    Condition {
        type_: SmolStr::new_static(type_),
        status: SmolStr::new_static(status),
        reason: SmolStr::new_static(reason),
        message,
        last_transition_time: Some(now),
        ..Condition::default()
    }
}
