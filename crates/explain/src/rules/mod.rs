//! The rules: each looks at one object and what belongs to it, and says what it found. One table names them all.

mod autoscaler;
mod claims;
mod common;
mod containers;
mod cron;
mod daemons;
mod deletion;
mod deployments;
mod disruption;
mod jobs;
mod namespaces;
mod nodes;
mod pods;
mod probes;
pub(crate) mod refusals;
mod replicas;
mod scheduling;
mod services;
mod stateful;
mod volumes;

use crate::finding::{Finding, Weight};
use crate::kinds::group_of;
use crate::object::Obj;
use crate::world::World;

pub(crate) use common::pods_of;
pub(crate) use disruption::{budgets_of, why_none};
pub(crate) use nodes::{is_ready as node_is_ready, tolerates};

type Check = fn(&World, Obj<'_>) -> Vec<Finding>;

pub struct Rule {
    pub name: &'static str,
    /// The kinds it is for; none: all.
    pub kinds: &'static [&'static str],
    check: Check,
}

const POD: &[&str] = &["Pod"];
const DEPLOYMENT: &[&str] = &["Deployment"];
const REPLICAS: &[&str] = &["ReplicaSet", "ReplicationController"];
const STATEFUL: &[&str] = &["StatefulSet"];
const DAEMONS: &[&str] = &["DaemonSet"];
const WORKLOAD: &[&str] = &["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"];
const JOB: &[&str] = &["Job"];
const CRON: &[&str] = &["CronJob"];
const AUTOSCALER: &[&str] = &["HorizontalPodAutoscaler"];
const CLAIM: &[&str] = &["PersistentVolumeClaim"];
const VOLUME: &[&str] = &["PersistentVolume"];

/// In order: where two findings weigh the same, the rule that is further up comes first.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: "finalizers",           kinds: &[],                       check: deletion::finalizers },
    Rule { name: "pod-termination",      kinds: POD,                       check: deletion::termination },
    Rule { name: "pod-ended",            kinds: POD,                       check: pods::ended },
    Rule { name: "scheduling-gates",     kinds: POD,                       check: scheduling::gates },
    Rule { name: "claim-missing",        kinds: POD,                       check: volumes::claims },
    Rule { name: "unschedulable",        kinds: POD,                       check: scheduling::unschedulable },
    Rule { name: "node-lost",            kinds: POD,                       check: pods::node_lost },
    Rule { name: "volume-attach",        kinds: POD,                       check: volumes::attach },
    Rule { name: "volume-mount",         kinds: POD,                       check: volumes::mount },
    Rule { name: "sandbox",              kinds: POD,                       check: pods::sandbox },
    Rule { name: "image",                kinds: POD,                       check: containers::image },
    Rule { name: "container-config",     kinds: POD,                       check: containers::config },
    Rule { name: "crash",                kinds: POD,                       check: containers::crash },
    Rule { name: "probe",                kinds: POD,                       check: probes::failing },
    Rule { name: "init-container",       kinds: POD,                       check: containers::init },
    Rule { name: "readiness-gates",      kinds: POD,                       check: pods::readiness_gates },
    Rule { name: "container-starting",   kinds: POD,                       check: containers::starting },
    Rule { name: "pod-starting",         kinds: POD,                       check: pods::starting },
    Rule { name: "controller-behind",    kinds: WORKLOAD,                  check: common::behind },
    Rule { name: "paused",               kinds: DEPLOYMENT,                check: deployments::paused },
    Rule { name: "scaled-to-zero",       kinds: WORKLOAD,                  check: common::zero },
    Rule { name: "create-refused",       kinds: WORKLOAD,                  check: common::refused },
    Rule { name: "ordered-start",        kinds: STATEFUL,                  check: stateful::order },
    Rule { name: "pods-unavailable",     kinds: WORKLOAD,                  check: common::pods },
    Rule { name: "rollout-arithmetic",   kinds: DEPLOYMENT,                check: deployments::arithmetic },
    Rule { name: "progress-deadline",    kinds: DEPLOYMENT,                check: deployments::deadline },
    Rule { name: "min-ready",            kinds: WORKLOAD,                  check: common::min_ready },
    Rule { name: "replica-set-owner",    kinds: REPLICAS,                  check: replicas::of_a_deployment },
    Rule { name: "partition",            kinds: STATEFUL,                  check: stateful::partition },
    Rule { name: "on-delete",            kinds: &["StatefulSet", "DaemonSet"], check: stateful::on_delete },
    Rule { name: "daemon-nodes",         kinds: DAEMONS,                   check: daemons::nodes },
    Rule { name: "job-suspended",        kinds: JOB,                       check: jobs::suspended },
    Rule { name: "job-managed",          kinds: JOB,                       check: jobs::managed_elsewhere },
    Rule { name: "job-failed",           kinds: JOB,                       check: jobs::failed },
    Rule { name: "job-create-refused",   kinds: JOB,                       check: common::refused },
    Rule { name: "job-pods",             kinds: JOB,                       check: jobs::pods },
    Rule { name: "cron-suspended",       kinds: CRON,                      check: cron::suspended },
    Rule { name: "cron-schedule",        kinds: CRON,                      check: cron::schedule },
    Rule { name: "cron-missed",          kinds: CRON,                      check: cron::missed },
    Rule { name: "cron-concurrency",     kinds: CRON,                      check: cron::concurrency },
    Rule { name: "cron-last-job",        kinds: CRON,                      check: cron::last_job },
    Rule { name: "hpa-target",           kinds: AUTOSCALER,                check: autoscaler::target },
    Rule { name: "hpa-metrics",          kinds: AUTOSCALER,                check: autoscaler::metrics },
    Rule { name: "hpa-arithmetic",       kinds: AUTOSCALER,                check: autoscaler::arithmetic },
    Rule { name: "claim-unbound",        kinds: CLAIM,                     check: claims::unbound },
    Rule { name: "claim-lost",           kinds: CLAIM,                     check: claims::lost },
    Rule { name: "claim-resize",         kinds: CLAIM,                     check: claims::resize },
    Rule { name: "volume-released",      kinds: VOLUME,                    check: claims::released },
    Rule { name: "attachment",           kinds: &["VolumeAttachment"],     check: volumes::attachment },
    Rule { name: "namespace-content",    kinds: &["Namespace"],            check: namespaces::content },
    Rule { name: "service-backends",     kinds: &["Service"],              check: services::backends },
    Rule { name: "service-ports",        kinds: &["Service"],              check: services::ports },
    Rule { name: "load-balancer",        kinds: &["Service"],              check: services::load_balancer },
    Rule { name: "ingress-backends",     kinds: &["Ingress"],              check: services::ingress },
    Rule { name: "node-not-ready",       kinds: &["Node"],                 check: nodes::not_ready },
    Rule { name: "node-pressure",        kinds: &["Node"],                 check: nodes::pressure },
    Rule { name: "node-taints",          kinds: &["Node"],                 check: nodes::taints },
    Rule { name: "node-drain",           kinds: &["Node"],                 check: nodes::drain },
    Rule { name: "budget",               kinds: &["PodDisruptionBudget"],  check: disruption::budget },
    Rule { name: "quota-used-up",        kinds: &["ResourceQuota"],        check: disruption::quota },
    Rule { name: "signing",              kinds: &["CertificateSigningRequest"], check: namespaces::signing },
    Rule { name: "autoscaled",           kinds: &["Deployment", "StatefulSet", "ReplicaSet"], check: autoscaler::of_target },
    Rule { name: "conditions",           kinds: &[],                       check: common::conditions },
    Rule { name: "owner-gone",           kinds: &[],                       check: deletion::owner_gone },
];

impl Rule {
    fn applies(&self, object: Obj<'_>) -> bool {
        self.kinds.is_empty()
            || (self.kinds.contains(&object.kind()) && object.group() == group_of(object.kind()))
    }
}

/// What all rules find, the most important first.
pub fn examine(world: &World, object: Obj<'_>) -> Vec<Finding> {
    let rules = RULES.iter().filter(|rule| rule.applies(object));
    let mut found: Vec<Finding> = rules.flat_map(|rule| (rule.check)(world, object)).collect();
    // An object that is being deleted is explained by that; its other problems are secondary.
    let first = |finding: &Finding| (object.is_deleting() && !is_about_deletion(finding), finding.weight);
    found.sort_by_key(first);
    found
}

fn is_about_deletion(finding: &Finding) -> bool {
    matches!(finding.rule, "finalizers" | "pod-termination" | "namespace-content")
}

/// The main problem: not a mere note.
pub fn main_problem(world: &World, object: Obj<'_>) -> Option<Finding> {
    examine(world, object).into_iter().next().filter(|finding| finding.weight != Weight::Notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own_and_known_kinds() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            for kind in rule.kinds {
                assert!(crate::kinds::known(kind).is_some(), "{}: {kind}", rule.name);
            }
        }
    }
}
