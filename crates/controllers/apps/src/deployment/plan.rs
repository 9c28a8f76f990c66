//! The writes and events that follow from a decision. Pure.

use flyball_api::{Deployment, Key, Object, ReplicaSet, Selector, Uid, manifest, manifest_with_status};
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Plan, Waiting, Write};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::annotations::with_sizes;
use super::decision::{Action, Decision, Report, View};
use super::fleet::{available, replicas};
use super::new_replica_set::NewReplicaSet;
use super::progress::{self, reason};
use super::recreate::old_running;
use super::rollback::Rollback;
use super::status::{self, statement};

const SCALING: &str = "ScalingReplicaSet";
const SELECTING_ALL: &str = "SelectingAll";

/// The action that a write belongs to, where the outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The creation of the ReplicaSet of the current template.
    Create,
    /// An old ReplicaSet loses pods.
    ScaleDownOld,
    Other,
}

/// The effects of a decision, in order, and what the Deployment waits for after them. The status depends on their
/// outcome.
pub fn plan(view: &View<'_>, decision: &Decision<'_>) -> Plan<Step> {
    let mut edits = Edits::default();
    let effect = |action: &Action<'_>| match action {
        Action::Create(new) => create(view.deployment, new).tag(Step::Create).into(),
        Action::Revise { set, annotations, min_ready_seconds } => edits.update(set, Step::Other, |body| {
            body["metadata"]["annotations"] = json!(annotations);
            body["spec"]["minReadySeconds"] = json!(min_ready_seconds);
            "it has the current template".to_owned()
        }),
        Action::Scale { set, from, to } => {
            let is_new = decision.fleet.new.is_some_and(|new| new.uid() == set.uid());
            let step = if to < from && !is_new { Step::ScaleDownOld } else { Step::Other };
            scale(view, &mut edits, set, (*from, *to), step)
        }
        Action::Delete { set } => {
            let why = "it has no pods and is beyond the revision history limit";
            Write::delete::<ReplicaSet>(set).why(why).tag(Step::Other).into()
        }
        Action::RollBack(rollback) => roll_back(view.deployment, rollback),
    };
    Plan::of(decision.actions.iter().map(effect)).waiting_for(waiting(view, decision))
}

/// The plan for a Deployment that is not reconciled because of its selector; `None` for any other.
pub fn refusal(deployment: &Deployment, selector: &Selector) -> Option<Plan> {
    if deployment.spec.selector.as_ref().is_some_and(|selector| selector.is_empty()) {
        return Some(selects_all(deployment));
    }
    if selector.matches(&deployment.spec.template.metadata.labels) {
        return None;
    }
    // The server does not allow this. If it did, each ReplicaSet would be released as soon as it is created.
    let problem = format!("the selector of {} does not match the labels of its template", deployment.key());
    Some(Plan::of([Effect::Invalid(problem)]))
}

/// While the cache does not show the adoption of a ReplicaSet yet, only the status is written: the watch events of the
/// adoption trigger the next sync.
pub fn while_adopting(view: &View<'_>, decision: &Decision<'_>) -> Option<Plan> {
    let uid = view.deployment.uid();
    if view.sets.iter().all(|set| set.metadata.is_controlled_by(uid)) {
        return None;
    }
    let statement = statement(view, decision, status::Outcome::Adopted);
    let write = status::write(view.deployment, &statement, "it has adopted its ReplicaSet");
    Some(Plan::default().with_status(write))
}

fn selects_all(deployment: &Deployment) -> Plan {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    let generation = deployment.metadata.generation;
    let is_new = deployment.status.observed_generation < generation;
    let status = is_new.then(|| {
        let mut body = manifest_with_status(deployment, &deployment.status);
        body["status"]["observedGeneration"] = json!(generation);
        Write::status_of::<Deployment>(deployment.key(), body).why(message)
    });
    Plan::of([Event::warning(SELECTING_ALL, message)]).with_status(status)
}

fn create(deployment: &Deployment, new: &NewReplicaSet) -> Write {
    let key = Key::new(deployment.metadata.namespace.as_str(), new.name.as_str());
    let failed = format!("Failed to create new replica set {:?}: ", new.name);
    let write = Write::create::<ReplicaSet>(key, new.manifest(deployment))
        .why("no ReplicaSet has the current template")
        .failure_prefix(failed.as_str())
        .no_event_for(ErrorKinds::ALREADY_EXISTS | ErrorKinds::NAMESPACE_TERMINATING)
        .on_failure(Event::warning(reason::CREATE_FAILED, Message::ThenError(failed)));
    match new.replicas {
        0 => write,
        to => write.on_success(scaled(&new.name, 0, to)),
    }
}

fn scale(
    view: &View<'_>,
    edits: &mut Edits,
    set: &ReplicaSet,
    (from, to): (i64, i64),
    step: Step,
) -> Effect<Step> {
    let limits = &view.limits;
    let (desired, most, least) = (limits.desired, limits.most(), limits.least_available());
    let effect = edits.update(set, step, |body| {
        let annotations = serde_json::from_value(body["metadata"]["annotations"].take()).unwrap_or_default();
        body["metadata"]["annotations"] = json!(with_sizes(&annotations, desired, most));
        body["spec"]["replicas"] = json!(to);
        format!("{from} replicas to become {to}; {desired} wanted, {most} allowed, {least} must be available")
    });
    match effect {
        Effect::Write(write) if from != to => write.on_success(scaled(&set.metadata.name, from, to)).into(),
        other => other,
    }
}

fn scaled(set: &str, from: i64, to: i64) -> Event {
    let way = if from < to { "up" } else { "down" };
    Event::normal(SCALING, format!("Scaled {way} replica set {set} from {from} to {to}"))
}

fn roll_back(deployment: &Deployment, rollback: &Rollback<'_>) -> Effect<Step> {
    match rollback.manifest(deployment) {
        Ok(body) => Write::update::<Deployment>(deployment.key(), body)
            .why(rollback.why())
            .on_success(rollback.event(&deployment.metadata.name))
            .tag(Step::Other)
            .into(),
        Err(error) => Effect::Fail(error.to_string()),
    }
}

/// The ReplicaSets after the updates of the plan, so that a second update of a set keeps its first change.
#[derive(Default)]
struct Edits {
    bodies: FxHashMap<Uid, Value>,
}

impl Edits {
    /// An update of a ReplicaSet; `edit` changes the body and says why.
    fn update(
        &mut self,
        set: &ReplicaSet,
        step: Step,
        edit: impl FnOnce(&mut Value) -> String,
    ) -> Effect<Step> {
        let before = self.bodies.remove(set.uid());
        let is_first = before.is_none();
        let mut body = match before.map_or_else(|| manifest(set), Ok) {
            Ok(body) => body,
            Err(error) => return Effect::Fail(error.to_string()),
        };
        let why = edit(&mut body);
        self.bodies.insert(set.uid().clone(), body.clone());
        let write = match is_first {
            true => Write::update::<ReplicaSet>(set.key(), body),
            false => Write::update_after_write::<ReplicaSet>(set.key(), body),
        };
        write.why(why).tag(step).into()
    }
}

/// What has to happen before the rollout can continue.
fn waiting(view: &View<'_>, decision: &Decision<'_>) -> Option<Waiting> {
    let is_complete = progress::is_complete(view.deployment, &view.deployment.status);
    if decision.report != Report::Rollout || is_complete {
        return None;
    }
    let old = || old_running(view, &decision.fleet).filter(|_| !view.limits.is_rolling());
    let new = || {
        let set = decision.fleet.new.filter(|set| available(set) < replicas(set))?;
        Some(Waiting::on::<ReplicaSet>(&set.key(), format!("to have {} available pods", replicas(set))))
    };
    old().or_else(new)
}
