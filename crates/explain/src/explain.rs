//! Puts an explanation together: state, findings, tree, waits, history, and what is not known.

use crate::finding::{Explanation, Level, Weight};
use crate::not::{self, Question};
use crate::object::{Obj, Ref};
use crate::rules::{examine, main_problem};
use crate::world::{Awaited, Log, Lookup, World};
use crate::{history, state};

/// Most dependents that the tree shows.
const SHOWN: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("{0} does not exist")]
    Absent(Ref),
    #[error("{0} could not be read")]
    Unread(Ref),
}

/// Explains an object: why it is as it is, or why something did not happen to it.
pub fn explain(
    world: &World,
    asked: &Ref,
    question: Option<Question>,
    history_limit: usize,
) -> Result<Explanation, Failure> {
    let object = match world.find(asked) {
        Lookup::Found(object) => object,
        Lookup::Absent => return Err(Failure::Absent(asked.clone())),
        Lookup::Unknown => return Err(Failure::Unread(asked.clone())),
    };
    let state = state::of(world, object);
    let mut findings = examine(world, object);
    if let Some(question) = question {
        let answer = not::answer(world, object, question);
        findings.retain(|finding| !answer.contains(finding));
        findings.splice(0..0, answer);
    } else if state.healthy
        && !findings.iter().any(|finding| finding.weight == Weight::Blocks && finding.about == *asked)
    {
        // What a healthy object's pods wait for is no blocker of the object.
        findings.retain(|finding| finding.weight != Weight::Waits || finding.about == *asked);
    }
    let tree = tree(world, object);
    let mut objects: Vec<Obj<'_>> =
        tree.iter().filter_map(|level| world.find(&level.object).found()).collect();
    objects.retain(|found| !matches!(found.kind(), "Node" | "Namespace") || found.named() == *asked);
    Ok(Explanation {
        object: asked.clone(),
        state: state.text,
        healthy: state.healthy && findings.iter().all(|finding| finding.weight != Weight::Blocks),
        findings,
        waiting: waiting(world, &objects),
        history: history::of(world, &objects, history_limit),
        unknown: unknown(world),
        tree,
    })
}

/// Owners from the top, the object, its dependents, and what an unhealthy pod uses.
fn tree(world: &World, object: Obj<'_>) -> Vec<Level> {
    let mut chain = vec![object];
    while let Some(owner) = chain.last().and_then(|last| world.controller_of(*last)) {
        if chain.len() > 8 {
            break;
        }
        chain.push(owner);
    }
    let mut levels: Vec<Level> = Vec::new();
    for (depth, owner) in chain.iter().rev().enumerate() {
        levels.push(level(world, *owner, depth));
    }
    let depth = chain.len();
    below(world, object, depth, &mut levels);
    levels
}

fn level(world: &World, object: Obj<'_>, depth: usize) -> Level {
    let state = state::of(world, object);
    let problem = main_problem(world, object).filter(|_| !state.healthy);
    let named = object.named();
    Level {
        depth,
        state: state.text,
        healthy: state.healthy,
        problem: problem.map(|problem| problem.text_for(&named)),
        object: named,
    }
}

fn below(world: &World, object: Obj<'_>, depth: usize, levels: &mut Vec<Level>) {
    let mut next: Vec<Obj<'_>> = match object.kind() {
        "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            state::unhealthy_first(world, object)
        }
        "Service" => {
            let selector: Vec<(String, String)> =
                object.pairs("/spec/selector").map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            world
                .list("Pod", object.namespace())
                .filter(|pod| !selector.is_empty() && pod.matches_labels(&selector))
                .collect()
        }
        "HorizontalPodAutoscaler" => {
            let target = Obj(object.at("/spec/scaleTargetRef"));
            world
                .get(target.text("/kind"), object.namespace(), target.text("/name"))
                .found()
                .into_iter()
                .collect()
        }
        "PodDisruptionBudget" => world.selected(object.namespace(), object.at("/spec/selector")),
        "Pod" => used_by(world, object),
        "PersistentVolumeClaim" => {
            world.get("PersistentVolume", "", object.text("/spec/volumeName")).found().into_iter().collect()
        }
        _ => world.dependents(object).collect(),
    };
    // Old ReplicaSets without pods say nothing.
    next.retain(|found| {
        found.kind() != "ReplicaSet"
            || found.count("/spec/replicas") > 0
            || found.count("/status/replicas") > 0
    });
    let left = next.len().saturating_sub(SHOWN);
    for found in next.into_iter().take(SHOWN) {
        if levels.iter().any(|level| level.object == found.named()) {
            continue;
        }
        levels.push(level(world, found, depth));
        let goes_on = found.kind() != "Pod" || !state::of(world, found).healthy;
        if depth < 6 && goes_on && found.kind() != "Node" {
            below(world, found, depth + 1, levels);
        }
    }
    if left > 0 {
        let named = Ref::new("", "", "", &format!("and {left} more"));
        levels.push(Level { depth, object: named, state: String::new(), healthy: true, problem: None });
    }
}

/// The node and the claims of a pod.
fn used_by<'a>(world: &'a World, pod: Obj<'a>) -> Vec<Obj<'a>> {
    let node = world.get("Node", "", pod.text("/spec/nodeName")).found();
    let claims = pod.list("/spec/volumes").map(|volume| volume.text("/persistentVolumeClaim/claimName"));
    let claims = claims
        .filter(|name| !name.is_empty())
        .filter_map(|name| world.get("PersistentVolumeClaim", pod.namespace(), name).found());
    node.into_iter().chain(claims).collect()
}

fn waiting(world: &World, objects: &[Obj<'_>]) -> Vec<String> {
    let concerns = |wait: &&crate::world::Wait| objects.iter().any(|object| wait.object.is(&object.named()));
    let text = |wait: &crate::world::Wait| {
        let list = wait.r#for.iter().map(|awaited| match awaited {
            Awaited::Object { object, until } => format!("{} {until}", object.text()),
            Awaited::Time { time, when } => format!("{time}, {when}"),
        });
        format!(
            "{} waits for {} (for {})",
            wait.controller,
            list.collect::<Vec<_>>().join("; and for "),
            wait.object.text()
        )
    };
    world.waits.iter().filter(concerns).map(text).collect()
}

fn unknown(world: &World) -> Vec<String> {
    let mut found: Vec<String> =
        world.unread().map(|(kind, why)| format!("{kind} objects could not be read: {why}")).collect();
    match &world.log {
        Log::NotAsked => {}
        Log::Unreachable(why) => found.push(format!("decisions of controllers: {why}")),
        Log::Read { forgotten: 0 } => {}
        Log::Read { .. } => {
            found.push("the oldest decisions of the controllers are no longer remembered".to_owned())
        }
    }
    found.push(
        "events are kept for about an hour: what happened before shows in conditions and managedFields only"
            .to_owned(),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let said = |log: Log| {
            let mut world = World::of(flyball_api::Timestamp::UNIX_EPOCH, Vec::new());
            world.log = log;
            unknown(&world).join("\n")
        };
        #[rustfmt::skip]
        let table = [
            (Log::Read { forgotten: 3 },                    "the oldest decisions of the controllers are no longer remembered", true),
            (Log::Read { forgotten: 0 },                    "no longer remembered",                                             false),
            (Log::NotAsked,                                 "decisions of",                                                     false),
            (Log::Unreachable("connection refused".into()), "decisions of controllers: connection refused",                     true),
        ];
        for (log, text, is_there) in table {
            let case = format!("{log:?}");
            let said = said(log);
            assert_eq!(said.contains(text), is_there, "{case}: {said}");
        }
    }
}
