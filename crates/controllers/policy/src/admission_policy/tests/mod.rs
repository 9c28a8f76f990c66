//! Tables for triggers, plans, and retries.

mod expressions;
mod kinds;
mod schema;
mod types;

use std::sync::Arc;

use flyball_api::ValidatingAdmissionPolicy;
use flyball_cache::{Change, Origin};
use flyball_client::{ApiStatus, Encoding, Error};
use serde_json::json;

use super::plan::{View, plan};
use super::policy::Spec;
use super::triggers::policy_changed;
use super::types::is_transient;
use super::variables::Params;

fn policy(generation: i64, observed: i64) -> Arc<ValidatingAdmissionPolicy> {
    let mut policy = ValidatingAdmissionPolicy::default();
    policy.metadata.name = "rule".into();
    policy.metadata.generation = generation;
    policy.status.observed_generation = observed;
    Arc::new(policy)
}

#[test]
fn a_policy_is_synced_until_its_generation_has_been_checked() {
    #[rustfmt::skip]
    let table = [
        // case            generation  observed  synced
        ("new",                     1,        0, true),
        ("checked",                 1,        1, false),
        ("changed",                 2,        1, true),
        ("restored",                1,        2, false),
    ];
    for (case, generation, observed, want) in table {
        let new = policy(generation, observed);
        let change = Change { old: None, new: Some(&new), origin: Origin::Watch };
        assert_eq!(!policy_changed(&change).is_empty(), want, "{case}");
    }
    let old = policy(2, 1);
    let gone = Change { old: Some(&old), new: None, origin: Origin::Watch };
    assert!(policy_changed(&gone).is_empty());
}

#[test]
fn only_the_status_is_applied_and_no_warnings_are_left_out() {
    let (policy, spec) = (policy(3, 1), Spec::default());
    let planned = plan(&View { policy: &policy, spec: &spec, kinds: &[], params: &Params::None });
    let want = "patch ValidatingAdmissionPolicy/status rule: its expressions have been checked";
    assert_eq!(planned.to_string(), want);
    let body = planned.status.unwrap().body().unwrap();
    assert_eq!(body["metadata"], json!({"name": "rule"}));
    assert_eq!(body["status"], json!({"observedGeneration": 3, "typeChecking": {}}));
    assert!(body.get("spec").is_none());
}

#[test]
fn a_schema_that_could_not_be_read_is_read_again_if_that_can_help() {
    let status = |code: u16| Error::Status(Box::new(ApiStatus { code, ..ApiStatus::default() }));
    let unreachable = Error::Unreachable { what: "GET /openapi/v3".into(), source: "away".into() };
    let garbled = serde_json::from_str::<i64>("x").map_err(|source| Error::Decode {
        what: "x".into(),
        encoding: Encoding::Json,
        source,
    });
    let table = [
        (status(404), false),
        (status(403), false),
        (garbled.unwrap_err(), false),
        (status(429), true),
        (status(500), true),
        (unreachable, true),
    ];
    for (error, want) in table {
        assert_eq!(is_transient(&error), want, "{error}");
    }
}
