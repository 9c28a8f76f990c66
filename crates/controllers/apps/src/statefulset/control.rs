//! The writes of one step: a pod or its claims, with the events that users know.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, Key, Object, PersistentVolumeClaim, PodTemplate, StatefulSet};
use flyball_client::Error;
use flyball_common::revisions;
use flyball_runtime::events::{EventType, ObjectRef, Recorder};
use flyball_runtime::{Context, SyncError, exactly};
use serde_json::Value;

use super::identity::{self, has_its_storage, is_itself, pod_name};
use super::manifests;
use super::plan::{Action, Why};
use super::retention::judge;
use super::view::View;

/// One sync's hands.
pub(super) struct Control<'a> {
    pub(super) cx: &'a Context,
    pub(super) events: &'a Recorder,
    pub(super) view: &'a View<'a>,
    pub(super) key: &'a Key,
    pub(super) current: &'a ControllerRevision,
    pub(super) update: &'a ControllerRevision,
}

/// Why a step was not done: a text for the user's event, and what the queue makes of it.
struct Failure {
    told: String,
    error: SyncError,
}

impl Failure {
    fn api(doing: String, told: impl FnOnce(&Error) -> String) -> impl FnOnce(Error) -> Self {
        move |error| Self { told: told(&error), error: SyncError::api(doing)(error) }
    }
}

impl Control<'_> {
    /// Carries one step out and tells of it.
    pub(super) async fn act(&self, action: &Action<'_>) -> Result<(), SyncError> {
        let (verb, pod, outcome) = match *action {
            Action::Create { ordinal, revision } => {
                ("Create", pod_name(self.set(), ordinal), self.create(ordinal, revision).await)
            }
            Action::Delete { pod, why } => ("Delete", pod.metadata.name.clone(), self.delete(pod, why).await),
            Action::Repair { ordinal, pod } => {
                ("Update", pod.metadata.name.clone(), self.repair(ordinal, pod).await)
            }
            Action::ProvideClaims { ordinal, pod } => {
                return self.provide_claims(ordinal, pod).await;
            }
            Action::HandOverClaims { ordinal, pod } => {
                return self.settle_owners(ordinal, Some(pod)).await.map_err(|failure| failure.error);
            }
        };
        let set = &self.set().metadata.name;
        match outcome {
            Ok(()) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.tell(EventType::Normal, "Successful", verb, message);
                Ok(())
            }
            // A lost race is no news.
            Err(Failure { error, .. }) if error.is_expected() || is_taken(&error) => Err(error),
            Err(Failure { told, error }) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {told}");
                self.tell(EventType::Warning, "Failed", verb, message);
                Err(error)
            }
        }
    }

    fn set(&self) -> &StatefulSet {
        self.view.set
    }

    fn tell(&self, kind: EventType, outcome: &str, verb: &str, message: String) {
        let about = ObjectRef::of(self.set());
        self.events.record(&about, kind, format!("{outcome}{verb}"), message, vec![]);
    }

    async fn create(&self, ordinal: i32, revision: &str) -> Result<(), Failure> {
        let name = pod_name(self.set(), ordinal);
        self.make_claims(ordinal, &name).await?;
        let template = self.template(revision);
        let body = manifests::pod(self.set(), &template, revision, ordinal);
        let why = format!("the pod with ordinal {ordinal} is missing");
        let made = self.cx.writer(self.key).create::<Pod>(&self.key.namespace, &body, why).await;
        if !made.as_ref().is_err_and(Error::is_already_exists) {
            self.settle_owners(ordinal, None).await?;
        }
        let doing = format!("creating the pod {name} of {}", self.key);
        made.map(drop).map_err(Failure::api(doing, Error::to_string))
    }

    /// The template of a revision; the set's own where a revision cannot be read, as a patch that says nothing.
    fn template(&self, revision: &str) -> PodTemplate {
        let of = [self.update, self.current].into_iter().find(|known| known.metadata.name == revision);
        of.and_then(revisions::template_of).unwrap_or_else(|| self.set().spec.template.clone())
    }

    async fn delete(&self, pod: &Pod, why: Why) -> Result<(), Failure> {
        let meta = &pod.metadata;
        let deleted = self.cx.writer(self.key).delete::<Pod>(&meta.key(), exactly(meta), why.text()).await;
        match deleted {
            // A conflict says that another pod has taken its name: ours is gone.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => {
                let doing = format!("deleting the pod {} of {}", meta.name, self.key);
                other.map_err(Failure::api(doing, Error::to_string))
            }
        }
    }

    async fn repair(&self, ordinal: i32, pod: &Pod) -> Result<(), Failure> {
        let (set, key) = (self.set(), pod.key());
        let doing = format!("repairing the pod {key}");
        // The cache holds only parts of a pod, and a PUT takes all of it.
        let live = self.cx.client.get_dynamic(&<Pod as flyball_api::Resource>::TYPE, &key).await;
        let mut live: Value = live.map_err(Failure::api(doing.clone(), Error::to_string))?;
        // What is repaired is the pod as the plan saw it, and no later one.
        live["metadata"]["resourceVersion"] = pod.metadata.resource_version.to_string().into();
        let (is_itself, has_its_storage) = (is_itself(set, pod), has_its_storage(set, pod));
        if !is_itself {
            manifests::identify(set, &mut live, ordinal);
        }
        if !has_its_storage {
            manifests::equip(set, &mut live, ordinal);
            self.make_claims(ordinal, &key.name).await?;
        }
        self.settle_owners(ordinal, Some(pod)).await?;
        let why = "its identity, its storage or the owners of its claims were not as they should be";
        let written = self.cx.writer(self.key).update::<Pod>(&key, None, &live, why).await;
        match written {
            // Only its claims were wrong, and they are right by now.
            Err(error) if error.is_conflict() && is_itself && has_its_storage => Ok(()),
            other => other.map(drop).map_err(Failure::api(doing, Error::to_string)),
        }
    }

    async fn provide_claims(&self, ordinal: i32, pod: &Pod) -> Result<(), SyncError> {
        let name = &pod.metadata.name;
        self.make_claims(ordinal, name).await.map_err(|failure| failure.error)?;
        self.settle_owners(ordinal, Some(pod)).await.map_err(|Failure { told, error }| {
            let message =
                format!("Update Pod {name} in StatefulSet {} failed error: {told}", self.set().metadata.name);
            self.tell(EventType::Warning, "Failed", "Update", message);
            error
        })
    }

    /// Makes the claims of a pod that are missing. All are tried; a claim that is about to go is a failure, as
    /// the pod would hold on to it.
    async fn make_claims(&self, ordinal: i32, pod: &str) -> Result<(), Failure> {
        let mut failures = vec![];
        for (name, body) in
            identity::claim_names(self.set(), ordinal).zip(manifests::claims(self.set(), ordinal))
        {
            match self.view.claims.get(&name) {
                None => failures.extend(self.make_claim(&name, &body, pod).await.err()),
                Some(claim) if claim.metadata.is_deleting() => {
                    let told = format!("pvc {name} is being deleted");
                    let error = SyncError::other(format!("making the claims of {pod}"), told.clone());
                    failures.push(Failure { told, error });
                }
                Some(_) => {}
            }
        }
        let told = match failures.as_slice() {
            [one] => one.told.clone(),
            all => format!("[{}]", all.iter().map(|one| one.told.as_str()).collect::<Vec<_>>().join(", ")),
        };
        failures.into_iter().next().map_or(Ok(()), |Failure { error, .. }| Err(Failure { told, error }))
    }

    async fn make_claim(&self, name: &str, body: &Value, pod: &str) -> Result<(), Failure> {
        let set = &self.set().metadata.name;
        let why = format!("the pod {pod} needs it");
        let writer = self.cx.writer(self.key);
        match writer.create::<PersistentVolumeClaim>(&self.key.namespace, body, why).await {
            Ok(_) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                self.tell(EventType::Normal, "Successful", "Create", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_already_exists() {
                    let message = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {error}"
                    );
                    self.tell(EventType::Warning, "Failed", "Create", message);
                }
                let doing = format!("creating the claim {name} of {pod}");
                Err(Failure::api(doing, |error| format!("failed to create PVC {name}: {error}"))(error))
            }
        }
    }

    /// Gives the claims of a pod the owners that the retention policy asks for.
    async fn settle_owners(&self, ordinal: i32, pod: Option<&Pod>) -> Result<(), Failure> {
        let holder = self.view.holder(ordinal, pod);
        for name in identity::claim_names(self.set(), ordinal) {
            let Some(claim) = self.view.claims.get(&name) else { continue };
            let ownership = judge(claim, self.set(), &holder);
            if ownership.is_contested {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                );
                let about = ObjectRef::of(self.set());
                self.events.record(&about, EventType::Warning, "ConflictingController", message, vec![]);
            }
            let Some(references) = ownership.correction else { continue };
            let mut claim = PersistentVolumeClaim::clone(claim);
            claim.metadata.owner_references = references.into();
            let why = "the retention policy asks for other owners";
            let written = self.cx.writer(self.key).update_whole(&claim, why).await;
            let told =
                |error: &Error| format!("could not update claim {name} for delete policy ownerRefs: {error}");
            written.map_err(Failure::api(format!("updating the claim {name} of {}", self.key), told))?;
        }
        Ok(())
    }
}

/// Whether a pod could not be made because its name is taken, which the cache will show soon.
fn is_taken(error: &SyncError) -> bool {
    error.api_error().is_some_and(Error::is_already_exists)
}

/// The claims that exist under the names that these pods would give them.
pub(super) fn existing_claims(
    set: &StatefulSet,
    ordinals: impl IntoIterator<Item = i32>,
    store: &flyball_cache::Store<PersistentVolumeClaim>,
) -> super::view::Claims {
    let names = ordinals.into_iter().flat_map(|ordinal| identity::claim_names(set, ordinal));
    let found = |name: smol_str::SmolStr| -> Option<(smol_str::SmolStr, Arc<PersistentVolumeClaim>)> {
        let claim = store.get(&Key::new(set.metadata.namespace.as_str(), name.as_str()))?;
        Some((name, claim))
    };
    names.filter_map(found).collect()
}
