//! `why-not`: what keeps something from happening to an object.

use std::str::FromStr;

use crate::finding::{Finding, Weight};
use crate::object::Obj;
use crate::rules::{budgets_of, examine, node_is_ready};
use crate::words::{list, seconds_between, span};
use crate::world::World;

/// What did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Scheduled,
    Ready,
    Available,
    Bound,
    Deleted,
    Evicted,
    Scaled,
    Updated,
    Started,
}

/// The words that `why-not` takes.
pub const WORDS: &[(&str, Question)] = &[
    ("scheduled", Question::Scheduled),
    ("ready", Question::Ready),
    ("available", Question::Available),
    ("bound", Question::Bound),
    ("deleted", Question::Deleted),
    ("evicted", Question::Evicted),
    ("scaled", Question::Scaled),
    ("updated", Question::Updated),
    ("started", Question::Started),
];

impl FromStr for Question {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.map(|(_, question)| *question).ok_or_else(|| {
            let names: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
            format!("{word:?} is none of {}", names.join(", "))
        })
    }
}

/// Each question with the rules that answer it.
fn rules_for(question: Question) -> &'static [&'static str] {
    match question {
        Question::Scheduled => &["scheduling-gates", "claim-missing", "unschedulable", "claim-unbound"],
        Question::Bound => &["claim-unbound", "claim-lost", "volume-released"],
        Question::Scaled => &[
            "hpa-target",
            "hpa-metrics",
            "hpa-arithmetic",
            "autoscaled",
            "create-refused",
            "paused",
            "scaled-to-zero",
            "controller-behind",
        ],
        Question::Deleted => &["finalizers", "pod-termination", "namespace-content"],
        Question::Started => &[
            "job-suspended",
            "job-create-refused",
            "create-refused",
            "cron-suspended",
            "cron-schedule",
            "cron-missed",
            "cron-concurrency",
        ],
        Question::Ready | Question::Available | Question::Updated | Question::Evicted => &[],
    }
}

/// The answer, as the first findings.
pub(crate) fn answer(world: &World, object: Obj<'_>, question: Question) -> Vec<Finding> {
    let own = match question {
        Question::Evicted => evicted(world, object),
        _ => Vec::new(),
    };
    if !own.is_empty() {
        return own;
    }
    let rules = rules_for(question);
    let mut found: Vec<Finding> =
        examine(world, object).into_iter().filter(|finding| rules.contains(&finding.rule)).collect();
    let is_general = matches!(question, Question::Ready | Question::Available | Question::Updated);
    if is_general {
        found =
            examine(world, object).into_iter().filter(|finding| finding.weight != Weight::Notes).collect();
    }
    if found.iter().any(|finding| finding.weight != Weight::Notes) {
        return found;
    }
    found.splice(0..0, happened(world, object, question));
    found
}

/// The question does not fit the facts: it has happened, or it was not requested.
fn happened(world: &World, object: Obj<'_>, question: Question) -> Vec<Finding> {
    let note = |text: String| vec![Finding::notes("why-not", object, text)];
    match question {
        Question::Scheduled if object.kind() == "Pod" && !object.text("/spec/nodeName").is_empty() => {
            note(format!("it is scheduled, on node {}", object.text("/spec/nodeName")))
        }
        Question::Bound if object.text("/status/phase") == "Bound" => {
            note(format!("it is bound to {}", object.text("/spec/volumeName")))
        }
        Question::Deleted if !object.is_deleting() => {
            let owners: Vec<String> =
                object.owners().map(|owner| format!("{} {}", owner.kind, owner.name)).collect();
            let owned = match owners.is_empty() {
                true => "it has no owner whose deletion would delete it".to_owned(),
                false => format!("it will be deleted with its owner: {}", list(&owners, 3)),
            };
            note(format!("its deletion was not requested (it has no deletionTimestamp); {owned}"))
        }
        Question::Ready | Question::Available | Question::Updated => {
            let state = crate::state::of(world, object);
            note(format!("it is: {}", state.text))
        }
        Question::Scaled => {
            let wanted = object.int("/spec/replicas");
            let autoscaled = examine(world, object).iter().any(|finding| finding.rule == "autoscaled");
            match (wanted, autoscaled) {
                (Some(wanted), false) => note(format!(
                    "spec.replicas is {wanted}, nothing holds it back, and no HorizontalPodAutoscaler targets it: no other number was requested"
                )),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Why a pod stays: budgets refuse, or nothing asks for its eviction.
fn evicted(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if pod.kind() != "Pod" {
        return Vec::new();
    }
    if pod.is_deleting() {
        return examine(world, pod).into_iter().take(1).collect();
    }
    let mut found = Vec::new();
    let budgets = budgets_of(world, pod);
    if budgets.len() > 1 {
        let names: Vec<&str> = budgets.iter().map(|budget| budget.name()).collect();
        let text = format!(
            "more than one PodDisruptionBudget selects it ({}): the eviction API refuses such pods",
            list(&names, 4)
        );
        found.push(Finding::blocks("why-not", pod, text).advise("let one budget select each pod"));
    }
    let is_ready = pod.has("Ready", "True");
    for budget in budgets.iter().filter(|budget| budget.count("/status/disruptionsAllowed") == 0) {
        let always = budget.text("/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if !is_ready && always {
            continue;
        }
        let text = format!(
            "PodDisruptionBudget {} allows no eviction: {}",
            budget.name(),
            crate::rules::why_none(world, *budget)
        );
        found.push(Finding::blocks("why-not", pod, text).advise(format!(
            "flyball why pdb/{} -n {}",
            budget.name(),
            pod.namespace()
        )));
    }
    let Some(node) = world.get("Node", "", pod.text("/spec/nodeName")).found() else { return found };
    found.extend(taint_eviction(world, pod, node));
    if found.is_empty() {
        let text = match node_is_ready(node) {
            true => format!(
                "nothing evicts it: its node {} is ready and has no NoExecute taint that it does not tolerate; no budget would refuse",
                node.name()
            ),
            false => format!("its node {} is not ready, but has no NoExecute taint yet", node.name()),
        };
        found.push(Finding::notes("why-not", pod, text));
    }
    found
}

/// Taints with NoExecute: tolerated for a while, for ever, or not.
fn taint_eviction(world: &World, pod: Obj<'_>, node: Obj<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for taint in node.list("/spec/taints").filter(|taint| taint.text("/effect") == "NoExecute") {
        let key = taint.text("/key");
        let matching =
            pod.list("/spec/tolerations").filter(|toleration| crate::rules::tolerates(*toleration, taint));
        let limits: Vec<Option<i64>> =
            matching.map(|toleration| toleration.int("/tolerationSeconds")).collect();
        let since = taint.time("/timeAdded").map(|time| seconds_between(time, world.now));
        let text = match (limits.iter().copied().min_by_key(|limit| limit.unwrap_or(i64::MAX)), since) {
            (None, _) => {
                format!("node {} has taint {key}, which it does not tolerate: it is evicted", node.name())
            }
            (Some(None), _) => format!("node {} has taint {key}, which it tolerates for ever", node.name()),
            (Some(Some(limit)), Some(since)) if since < limit => {
                format!(
                    "it tolerates taint {key} of node {} for {}: it is evicted in {}",
                    node.name(),
                    span(limit),
                    span(limit - since)
                )
            }
            (Some(Some(limit)), _) => format!(
                "it tolerates taint {key} of node {} for {}, which are over",
                node.name(),
                span(limit)
            ),
        };
        let weight = if limits.iter().any(Option::is_none) && !limits.is_empty() {
            Weight::Blocks
        } else {
            Weight::Waits
        };
        found.push(Finding::new("why-not", weight, pod, text));
    }
    found
}
