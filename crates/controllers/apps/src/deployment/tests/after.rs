//! What follows from the outcome of a plan.

use std::sync::Arc;

use flyball_client::{ApiStatus, Error, StatusCause, StatusDetails};
use flyball_runtime::Retry;
use flyball_runtime::plan::Failure;

use super::world::{World, set};
use crate::deployment::after::conclude;
use crate::deployment::decision::decide;
use crate::deployment::plan::Step;

/// A write that the server refused for this reason, with this cause.
fn failure(tag: Step, code: u16, reason: &str, cause: Option<&str>) -> Failure<Step> {
    let causes = cause.map(|reason| StatusCause { reason: reason.into(), ..StatusCause::default() });
    let details = StatusDetails { causes: causes.into_iter().collect(), ..StatusDetails::default() };
    let status = ApiStatus { code, reason: reason.into(), details, ..ApiStatus::default() };
    let error = Some(Error::Status(Box::new(status)));
    Failure {
        tag: Some(tag),
        verb: None,
        doing: String::new(),
        message: "it failed".into(),
        error,
        retry: Retry::Backoff,
        is_expected: false,
    }
}

#[test]
fn what_follows_from_a_failed_creation_depends_on_its_reason() {
    #[rustfmt::skip]
    let table = [
        // case                                  failure                                                           in the cache        fails  collisions  reason
        ("a quota",                              failure(Step::Create, 403, "Forbidden", None),                     None,               true,  None,       "ReplicaSetCreateError"),
        ("the namespace is going",               failure(Step::Create, 403, "Forbidden", Some("NamespaceTerminating")), None,           false, None,       ""),
        ("the cache does not show it yet",       failure(Step::Create, 409, "AlreadyExists", None),                 None,               true,  None,       ""),
        ("it is ours, of an earlier attempt",    failure(Step::Create, 409, "AlreadyExists", None),                 Some("new=3/0"),    true,  None,       ""),
        ("another template has the name",        failure(Step::Create, 409, "AlreadyExists", None),                 Some("a=3/0"),      false, Some(1),    ""),
        ("another set has the name",             failure(Step::Create, 409, "AlreadyExists", None),                 Some("new=3/0,orphan"), false, Some(1), ""),
        ("another write",                        failure(Step::Other, 500, "InternalError", None),                  None,               true,  None,       ""),
    ];
    for (case, failure, cached, fails, collisions, reason) in table {
        let world = World::new("replicas=3 deadline=60", "");
        let view = world.view();
        let decision = decide(&view);
        let after = conclude(&view, &decision, Some(&failure), |_| cached.map(|text| Arc::new(set(text, 0))));
        let status = after.statement.as_ref().map(|(statement, _)| &statement.status);
        let progressing =
            status.and_then(|status| status.conditions.first()).map_or("", |first| first.reason.as_str());
        assert_eq!((after.is_failure, progressing), (fails, reason), "{case}");
        assert_eq!(status.and_then(|status| status.collision_count), collisions, "{case}");
    }
}

#[test]
fn a_rollout_is_reported_although_an_old_set_cannot_be_scaled_down() {
    #[rustfmt::skip]
    let table = [
        // failed write          strategy     observed generation in the status that is written
        (Step::ScaleDownOld,     "",          Some(3)),
        (Step::ScaleDownOld,     " recreate", None),
        (Step::Other,            "",          None),
    ];
    for (step, strategy, want) in table {
        let world = World::new(&format!("replicas=3 deadline=60{strategy}"), "new=1/1 a=3/3");
        let view = world.view();
        let decision = decide(&view);
        let after = conclude(&view, &decision, Some(&failure(step, 403, "Forbidden", None)), |_| None);
        let written = after.statement.map(|(statement, _)| statement.status.observed_generation);
        assert_eq!((after.is_failure, written), (true, want), "{step:?}{strategy}");
    }
}
