//! Rollback to an earlier revision: the template of its ReplicaSet becomes the template of the Deployment. It is requested
//! by an annotation, which replaces a field of an old API version. Pure.

use flyball_api::pod_template::POD_TEMPLATE_HASH;
use flyball_api::{Deployment, Labels, ReplicaSet, manifest};
use flyball_runtime::Event;
use serde_json::{Value, json};

use super::annotations::{REVISION, ROLLBACK_TO, is_shared};
use super::decision::{Action, Report, View};
use super::fleet::Fleet;
use super::history::{last_revision, revision};
use super::new_replica_set::ensure;

/// The answer to a rollback request.
#[derive(Debug, PartialEq)]
pub enum Rollback<'a> {
    /// The template of this set is used.
    To { set: &'a ReplicaSet, revision: i64 },
    /// That revision has the current template.
    Unchanged,
    /// There is no earlier revision.
    NoLast,
    /// There is no such revision.
    NotFound,
}

/// The requested revision; zero means the last one. A value that is not a number is ignored.
pub fn requested(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// Answers the request, once the ReplicaSet of the current template has its revision; otherwise sets that first.
pub fn steps<'a>(view: &View<'a>, fleet: &Fleet<'a>, wanted: i64) -> (Vec<Action<'a>>, Report) {
    let actions = ensure(view, fleet);
    let numbered = fleet.new.is_some_and(|new| {
        new.metadata.annotations.get(REVISION) == view.deployment.metadata.annotations.get(REVISION)
    });
    match actions.is_empty() && numbered {
        true => (vec![Action::RollBack(answer(view, fleet, wanted))], Report::Nothing),
        false => (actions, Report::Counts),
    }
}

fn answer<'a>(view: &View<'a>, fleet: &Fleet<'a>, wanted: i64) -> Rollback<'a> {
    let wanted = match wanted {
        0 => last_revision(fleet),
        number => number,
    };
    if wanted == 0 {
        return Rollback::NoLast;
    }
    match fleet.all().find(|set| revision(set) == Some(wanted)) {
        None => Rollback::NotFound,
        Some(set) if set.spec.template.makes_same_pods(&view.deployment.spec.template) => Rollback::Unchanged,
        Some(set) => Rollback::To { set, revision: wanted },
    }
}

impl Rollback<'_> {
    /// The Deployment without the request, and with the old template and its annotations, such as the change cause, if there
    /// is one.
    pub fn manifest(&self, deployment: &Deployment) -> Result<Value, serde_json::Error> {
        let mut body = manifest(deployment)?;
        let mut annotations = deployment.metadata.annotations.without(ROLLBACK_TO);
        if let Self::To { set, .. } = self {
            let own = annotations.filtered(|key| !is_shared(key));
            let shared = set.metadata.annotations.iter().filter(|(key, _)| is_shared(key));
            annotations = own.iter().chain(shared).collect::<Labels>();
            let mut template = set.spec.template.raw().to_value();
            if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
                labels.remove(POD_TEMPLATE_HASH);
            }
            body["spec"]["template"] = template;
        }
        body["metadata"]["annotations"] = json!(annotations);
        Ok(body)
    }

    pub fn event(&self, deployment: &str) -> Event {
        const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
        match self {
            Self::To { revision, .. } => Event::normal(
                "DeploymentRollback",
                format!("Rolled back deployment {deployment:?} to revision {revision}"),
            ),
            Self::Unchanged => Event::warning(
                "DeploymentRollbackTemplateUnchanged",
                format!(
                    "The rollback revision contains the same template as current deployment {deployment:?}"
                ),
            ),
            Self::NoLast => Event::warning(NOT_FOUND, "Unable to find last revision."),
            Self::NotFound => Event::warning(NOT_FOUND, "Unable to find the revision to rollback to."),
        }
    }

    /// Why the Deployment is written, for the decision log.
    pub fn why(&self) -> String {
        match self {
            Self::To { revision, .. } => format!("a rollback to revision {revision} was requested"),
            Self::Unchanged => "the requested revision has the current template".to_owned(),
            Self::NoLast | Self::NotFound => "the requested revision does not exist".to_owned(),
        }
    }
}
