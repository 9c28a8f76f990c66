//! The shell: look up, claim, plan, execute, write the status.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Deployment, Key, Object, ReplicaSet, Selector, Uid, manifest, manifest_with_status};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_common::claim::claim;
use flyball_common::index::{owned, owned_or_orphaned};
use flyball_common::pods::is_namespace_going;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::annotations::with_sizes;
use super::limits::Limits;
use super::new_replica_set::NewReplicaSet;
use super::plan::{Action, Plan, Report, View, plan};
use super::progress::{self, reason};
use super::rollback::Rollback;
use super::status::{Outcome, Statement, statement};

const SCALING: &str = "ScalingReplicaSet";
const SELECTING_ALL: &str = "SelectingAll";

/// The controller.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) deployments: Arc<Informer<Deployment>>,
    pub(super) sets: Arc<Informer<ReplicaSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

/// What came of a creation.
enum Made {
    /// It is there.
    Set(Box<ReplicaSet>),
    /// Something else has the name.
    NameTaken,
    /// It was refused.
    Failed { told: String, error: Error },
    /// There is no use in trying: the namespace is going away.
    Pointless,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(deployment) = self.deployments.store().get(key) else { return Ok(Next::Settled) };
        let deployment = &*deployment;
        if deployment.spec.selector.as_ref().is_some_and(|selector| selector.is_empty()) {
            return self.refuse_everything(deployment).await;
        }
        let selector = Selector::from_object(deployment.spec.selector.as_ref())
            .map_err(|error| SyncError::other(format!("reading the selector of {key}"), error).never())?;
        let limits = Limits::of(&deployment.spec)
            .map_err(|error| SyncError::other(format!("reading the strategy of {key}"), error).never())?;
        if !selector.matches(&deployment.spec.template.metadata.labels) {
            // The server does not allow this. If it did, each ReplicaSet would be let go as soon as it is made.
            let what = format!("the selector of {key} does not match the labels of its template");
            return Err(SyncError::invalid(what));
        }
        let candidates = owned_or_orphaned(self.sets.store(), &key.namespace, deployment.uid());
        let sets = claim(&self.cx, deployment, &selector, candidates, &[]).await?;
        let is_adopting = sets.iter().any(|set| !set.metadata.is_controlled_by(deployment.uid()));
        let pods: Vec<_> = match limits.is_rolling() {
            true => vec![],
            false => sets.iter().flat_map(|set| owned(self.pods.store(), set.uid())).collect(),
        };
        let view = View {
            deployment,
            limits,
            sets: &sets,
            pods: &pods,
            counts_terminating: self.cx.gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
            now: self.cx.clock.now(),
        };
        let plan = plan(&view);
        if is_adopting {
            // What the cache shows of the sets is out of date; it will call again.
            let why = "it has adopted its ReplicaSet";
            self.tell(&view, &statement(&view, &plan, Outcome::Adopted), why).await?;
            return Ok(Next::Settled);
        }
        self.carry_out(&view, &plan).await
    }
}

impl Controller {
    /// Executes the plan and tells what came of it.
    async fn carry_out(&self, view: &View<'_>, plan: &Plan<'_>) -> Result<Next, SyncError> {
        let mut fresh = FxHashMap::<Uid, ReplicaSet>::default();
        let mut created = None;
        for action in &plan.actions {
            match action {
                Action::Create(new) => match self.create(view.deployment, new).await? {
                    Made::Set(set) => created = Some(set),
                    Made::Pointless => return Ok(Next::Settled),
                    Made::NameTaken => {
                        let why = format!("the name {} is taken; the next hash will be another", new.name);
                        self.tell(view, &statement(view, plan, Outcome::NameTaken), &why).await?;
                        return Ok(Next::Settled);
                    }
                    Made::Failed { told, error } => {
                        self.tell(view, &statement(view, plan, Outcome::CreateFailed(&told)), &told).await?;
                        let doing = format!("creating ReplicaSet {}", new.name);
                        return Err(SyncError::api(doing)(error));
                    }
                },
                Action::Revise { set, annotations, min_ready_seconds } => {
                    let changed = self.change(view, set, "it has the present template", |body| {
                        body["metadata"]["annotations"] = json!(annotations);
                        body["spec"]["minReadySeconds"] = json!(min_ready_seconds);
                    });
                    fresh.insert(set.uid().clone(), changed.await?);
                }
                Action::Scale { set, from, to } => {
                    let base = fresh.get(set.uid()).unwrap_or(set);
                    let scaled = self.scale(view, base, (*from, *to)).await?;
                    fresh.insert(set.uid().clone(), scaled);
                }
                Action::Delete { set } => self.delete(view, set).await?,
                Action::RollBack(rollback) => self.roll_back(view.deployment, rollback).await?,
            }
        }
        if plan.report == Report::Nothing {
            return Ok(Next::Settled);
        }
        let statement = statement(view, plan, Outcome::Done(created.as_deref()));
        self.tell(view, &statement, &summary(&statement)).await?;
        let wait = match plan.report {
            Report::Rollout => progress::look_again(view, &statement.status),
            Report::Counts | Report::Nothing => None,
        };
        Ok(wait.map_or(Next::Settled, Next::After))
    }

    /// Makes the ReplicaSet of the present template.
    async fn create(&self, deployment: &Deployment, new: &NewReplicaSet) -> Result<Made, SyncError> {
        let (key, about) = (deployment.key(), ObjectRef::of(deployment));
        let why = "no ReplicaSet has the present template";
        let made = self.cx.writer(&key).create(&key.namespace, &new.manifest(deployment), why).await;
        match made {
            Ok(set) => {
                if new.replicas > 0 {
                    self.events.normal(&about, SCALING, scaled("up", &new.name, 0, new.replicas));
                }
                Ok(Made::Set(Box::new(set)))
            }
            Err(error) if error.is_already_exists() => self.take_over(deployment, new, error),
            Err(error) if is_namespace_going(&error) => Ok(Made::Pointless),
            Err(error) => {
                let told = format!("Failed to create new replica set {:?}: {error}", new.name);
                self.events.warning(&about, reason::CREATE_FAILED, told.as_str());
                Ok(Made::Failed { told, error })
            }
        }
    }

    /// Something has the name already. Should it be the very set that was to be made, all is well; if the cache
    /// does not know it yet, time will tell.
    fn take_over(
        &self,
        deployment: &Deployment,
        new: &NewReplicaSet,
        error: Error,
    ) -> Result<Made, SyncError> {
        let key = Key::new(deployment.metadata.namespace.as_str(), new.name.as_str());
        let Some(set) = self.sets.store().get(&key) else {
            return Err(SyncError::api(format!("creating ReplicaSet {key}, which the cache does not show"))(
                error,
            ));
        };
        let is_ours = set.metadata.is_controlled_by(deployment.uid())
            && set.spec.template.makes_same_pods(&deployment.spec.template);
        Ok(if is_ours { Made::Set(Box::new((*set).clone())) } else { Made::NameTaken })
    }

    /// Changes a ReplicaSet by a PUT.
    async fn change(
        &self,
        view: &View<'_>,
        set: &ReplicaSet,
        why: impl std::fmt::Display,
        edit: impl FnOnce(&mut Value),
    ) -> Result<ReplicaSet, SyncError> {
        let (owner, key) = (view.deployment.key(), set.key());
        let doing = || format!("updating ReplicaSet {key}");
        let mut body = manifest(set).map_err(|error| SyncError::other(doing(), error))?;
        edit(&mut body);
        let changed = self.cx.writer(&owner).update(&key, None, &body, why).await;
        changed.map_err(SyncError::api(doing()))
    }

    async fn scale(
        &self,
        view: &View<'_>,
        set: &ReplicaSet,
        (from, to): (i64, i64),
    ) -> Result<ReplicaSet, SyncError> {
        let limits = &view.limits;
        let annotations = with_sizes(&set.metadata.annotations, limits.desired, limits.most());
        let why = format!(
            "{from} replicas to become {to}; {} wanted, {} allowed, {} must be available",
            limits.desired,
            limits.most(),
            limits.least_available()
        );
        let changed = self.change(view, set, why, |body| {
            body["metadata"]["annotations"] = json!(annotations);
            body["spec"]["replicas"] = json!(to);
        });
        let changed = changed.await?;
        if from != to {
            let way = if from < to { "up" } else { "down" };
            let about = ObjectRef::of(view.deployment);
            self.events.normal(&about, SCALING, scaled(way, &set.metadata.name, from, to));
        }
        Ok(changed)
    }

    async fn delete(&self, view: &View<'_>, set: &ReplicaSet) -> Result<(), SyncError> {
        let (owner, key) = (view.deployment.key(), set.key());
        let why = "it has no pods and is beyond the revision history limit";
        match self.cx.writer(&owner).delete::<ReplicaSet>(&key, exactly(&set.metadata), why).await {
            Ok(()) => Ok(()),
            // A conflict says that another set has its name: ours is gone.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(SyncError::api(format!("deleting ReplicaSet {key}"))(error)),
        }
    }

    async fn roll_back(&self, deployment: &Deployment, rollback: &Rollback<'_>) -> Result<(), SyncError> {
        let key = deployment.key();
        let doing = || format!("rolling back {key}");
        let body = rollback.manifest(deployment).map_err(|error| SyncError::other(doing(), error))?;
        let (kind, reason, message) = rollback.event(&deployment.metadata.name);
        let written = self.cx.writer(&key).update::<Deployment>(&key, None, &body, &message).await;
        written.map_err(SyncError::api(doing()))?;
        self.events.record(&ObjectRef::of(deployment), kind, reason, message, vec![]);
        Ok(())
    }

    /// Writes the status and the revision if they say anything new.
    async fn tell(&self, view: &View<'_>, statement: &Statement, why: &str) -> Result<(), SyncError> {
        let deployment = view.deployment;
        let Statement { status, annotations } = statement;
        if *status == deployment.status && *annotations == deployment.metadata.annotations {
            return Ok(());
        }
        let key = deployment.key();
        let mut body = manifest_with_status(deployment, status);
        body["metadata"]["annotations"] = json!(annotations);
        match self.cx.writer(&key).update_status::<Deployment>(&key, &body, why).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(SyncError::api(format!("writing the status of {key}"))(error)),
        }
    }

    /// A Deployment of all pods of its namespace is a mistake; all that is done is to say so.
    async fn refuse_everything(&self, deployment: &Deployment) -> Result<Next, SyncError> {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.warning(&ObjectRef::of(deployment), SELECTING_ALL, message);
        let generation = deployment.metadata.generation;
        if deployment.status.observed_generation < generation {
            let key = deployment.key();
            let mut body = manifest_with_status(deployment, &deployment.status);
            body["status"]["observedGeneration"] = json!(generation);
            let written = self.cx.writer(&key).update_status::<Deployment>(&key, &body, message).await;
            written.map_err(SyncError::api(format!("writing the status of {key}")))?;
        }
        Ok(Next::Settled)
    }
}

fn scaled(way: &str, set: &str, from: i64, to: i64) -> String {
    format!("Scaled {way} replica set {set} from {from} to {to}")
}

fn summary(statement: &Statement) -> String {
    let status = &statement.status;
    format!(
        "{} pods, {} of the present template, {} available, {} unavailable",
        status.replicas, status.updated_replicas, status.available_replicas, status.unavailable_replicas
    )
}
