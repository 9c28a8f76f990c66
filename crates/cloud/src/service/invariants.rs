//! What must hold for every decision about a Service; for tables, properties and the simulator.

use flyball_api::Service;
use flyball_runtime::Effect;

use super::plan::{
    Action, Answer, Call, RecordChange, Step, View, action, needs_cleanup, plan, wants_balancer,
};

/// Checks the action that a Service needs, and the first steps.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>) -> Result<(), String> {
    let (service, action) = (view.service, action(view));
    let changes = matches!(action, Action::Ensure | Action::UpdateNodes);
    let is_applied = view.applied.is_some_and(|it| it.service.is_some() && it.backends != *view.backends);
    let steps = plan(view, &[]);
    let calls: Vec<_> = steps.iter().map(|step| matches!(step, Step::Call(_))).collect();
    let deletes = steps.iter().any(|step| matches!(step, Step::Call(Call::Delete)));
    let rules = [
        ("only a Service that asks for a load balancer gets one", !changes || wants_balancer(service)),
        (
            "no load balancer is created for a Service in deletion",
            !changes || !service.metadata.is_deleting(),
        ),
        (
            "a load balancer that is not needed is deleted",
            !needs_cleanup(service) || action == Action::CleanUp,
        ),
        ("only nodes that differ are updated", action != Action::UpdateNodes || is_applied),
        ("a call is the last step", calls.iter().rev().skip(1).all(|is_call| !is_call)),
        ("a load balancer is looked up before it is deleted", !deletes),
    ];
    let broken = rules.iter().find(|(_, holds)| !holds);
    broken.map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {action:?} for {service:?}")))
}

/// Checks the next steps for the load balancer of a Service that was deleted without its finalizer.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_deleted(service: &Service, answers: &[Answer], steps: &[Step]) -> Result<(), String> {
    let writes = steps.iter().any(|step| matches!(step, Step::Api(Effect::Write(_) | Effect::Group(_))));
    let other_call = steps.iter().any(|step| matches!(step, Step::Call(call) if *call != Call::Delete));
    let is_forgotten = steps.iter().any(|step| matches!(step, Step::Record(RecordChange::Deleted)));
    let is_deleted = answers.contains(&Answer::Done);
    let rules = [
        ("a Service that is gone is not written", !writes),
        ("the load balancer of a Service that is gone is only deleted", !other_call),
        (
            "a load balancer is remembered until the cloud has deleted it",
            !is_forgotten || is_deleted || !wants_balancer(service),
        ),
    ];
    let broken = rules.iter().find(|(_, holds)| !holds);
    broken.map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {answers:?} for {service:?}")))
}
