//! The decision log as `/debug/decisions` and `/debug/waiting` show it.

use flyball_runtime::decisions::{Decision, DecisionLog, Wait};
use serde_json::{Value, json};

use crate::routes::Query;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 10_000;

/// The page `/debug/decisions`: the latest decisions that match the query, oldest first. The error is for the user.
pub fn decisions_page(log: &DecisionLog, query: &str) -> Result<Value, String> {
    let filter = Filter::parse(query)?;
    let decisions = log.all(filter.limit, |decision| filter.accepts_decision(decision));
    Ok(json!({"decisions": decisions, "forgotten": log.forgotten()}))
}

/// The page `/debug/waiting`: what keys are waiting for. The error is for the user.
pub fn waiting_page(log: &DecisionLog, query: &str) -> Result<Value, String> {
    let filter = Filter::parse(query)?;
    Ok(json!({"waiting": log.waiting(filter.limit, |wait| filter.accepts_wait(wait))}))
}

/// A query; empty fields match everything. With kind and name, everything that concerns that object matches; with one of them,
/// the objects that were written, or that wait.
#[derive(Debug, Default)]
struct Filter {
    controller: String,
    kind: String,
    namespace: String,
    name: String,
    limit: usize,
}

impl Filter {
    fn parse(query: &str) -> Result<Self, String> {
        let mut filter = Self { limit: DEFAULT_LIMIT, ..Self::default() };
        for (name, value) in Query::parse(Some(query)).pairs() {
            match name {
                "controller" => filter.controller = value.to_owned(),
                "kind" => filter.kind = value.to_owned(),
                "namespace" => filter.namespace = value.to_owned(),
                "name" => filter.name = value.to_owned(),
                "limit" => {
                    let limit: usize =
                        value.parse().map_err(|_| format!("limit={value:?} is not a number"))?;
                    filter.limit = limit.min(MAX_LIMIT);
                }
                other => {
                    return Err(format!("{other:?} is none of controller, kind, namespace, name, limit"));
                }
            }
        }
        Ok(filter)
    }

    fn accepts_decision(&self, decision: &Decision) -> bool {
        let target = &decision.target;
        self.accepts(decision.controller, [&target.kind, &target.namespace, &target.name], || {
            decision.concerns(&self.kind, &self.namespace, &self.name)
        })
    }

    fn accepts_wait(&self, wait: &Wait) -> bool {
        let object = &wait.object;
        self.accepts(wait.controller, [&object.kind, &object.namespace, &object.name], || {
            wait.concerns(&self.kind, &self.namespace, &self.name)
        })
    }

    fn accepts(
        &self,
        controller: &str,
        [kind, namespace, name]: [&str; 3],
        concerns: impl Fn() -> bool,
    ) -> bool {
        if !self.controller.is_empty() && self.controller != controller {
            return false;
        }
        if !self.kind.is_empty() && !self.name.is_empty() {
            return concerns();
        }
        (self.kind.is_empty() || self.kind.eq_ignore_ascii_case(kind))
            && (self.namespace.is_empty() || self.namespace == namespace)
            && (self.name.is_empty() || self.name == name)
    }
}
