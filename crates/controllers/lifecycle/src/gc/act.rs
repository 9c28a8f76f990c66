//! The parts of the shell that read and write single objects, and try again when an object has changed.

use flyball_api::{ObjectMeta, ResourceType, Uid};
use flyball_queue::Priority;
use flyball_runtime::Plan;
use smol_str::SmolStr;

use super::examination::{Answer, Step, TRIES, Tries};
use super::identity::Identity;
use super::plan::{self, Finalizer, Style, Target};
use super::server::{Problem, Server, is_object_missing};
use super::sync::Collector;

impl<S: Server> Collector<S> {
    /// Executes a plan for one object. If the object does not exist, the graph is updated.
    pub(super) async fn perform(&self, object: &Identity, plan: Plan) -> Result<Answer, Problem> {
        let outcome = self.server.perform(&object.key(), plan).await;
        let failure = outcome.failures.into_iter().find_map(|failure| Some((failure.doing, failure.error?)));
        let answer = Answer::of(failure.as_ref().map(|(_, error)| error), &object.name);
        match (answer, failure) {
            (Answer::Failed, Some((doing, error))) => Err(Problem::Api(doing, error)),
            (Answer::Missing, _) => {
                self.is_absent(object);
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    /// The object as it is now. If it does not exist, the graph is updated.
    async fn read(&self, target: Target<'_>) -> Result<Option<ObjectMeta>, Problem> {
        let Target { resource, object } = target;
        match self.server.read(resource, object).await {
            Ok(meta) if meta.uid == object.uid => Ok(Some(meta)),
            Err(error) if !is_object_missing(&error, &object.name) => {
                Err(Problem::Api("reading it".to_owned(), error))
            }
            Ok(_) | Err(_) => {
                let namespace =
                    if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
                self.absent().add(Identity { namespace, ..object.clone() });
                self.is_absent(object);
                Ok(None)
            }
        }
    }

    /// The object as the cache has it, at the first try, and after that as it is now.
    pub(super) async fn view(
        &self,
        target: Target<'_>,
        cached: &mut Option<ObjectMeta>,
    ) -> Result<Option<ObjectMeta>, Problem> {
        match cached.take() {
            Some(meta) => Ok(Some(meta)),
            None => self.read(target).await,
        }
    }

    fn is_absent(&self, object: &Identity) {
        self.change(Priority::Change, |graph| graph.absent(object));
    }

    /// Removes the references of one object to `owners`.
    pub(super) async fn release(&self, object: &Identity, owners: &[Uid]) -> Result<(), Problem> {
        let resource = self.resource(&object.kind.api_version, &object.kind.kind)?;
        let target = Target { resource: &resource, object };
        let release = |over: Option<&ObjectMeta>| Plan::of([plan::release(target, owners, over)]);
        // A strategic patch does not depend on the object, so that trying it again cannot help.
        match Tries::new(1, Style::Strategic).record(self.perform(object, release(None)).await?, None) {
            Step::End => return Ok(()),
            Step::WithMergePatches => {}
            Step::ReadAgain | Step::GiveUp => return Err(Problem::KeepsChanging),
        }
        self.write(target, |seen| release(Some(seen))).await.map(drop)
    }

    /// Writes an object as planned for its metadata, again if they have changed. `None` if it does not exist.
    async fn write(
        &self,
        target: Target<'_>,
        plan: impl Fn(&ObjectMeta) -> Plan + Send + Sync,
    ) -> Result<Option<Answer>, Problem> {
        let mut cached = self.server.cached(target.resource, target.object);
        let mut tries = Tries::new(TRIES, Style::Merge);
        loop {
            let Some(seen) = self.view(target, &mut cached).await? else { return Ok(None) };
            let answer = self.perform(target.object, plan(&seen)).await?;
            match tries.record(answer, None) {
                Step::End => return Ok(Some(answer)),
                Step::WithMergePatches | Step::ReadAgain => {}
                Step::GiveUp => return Err(Problem::KeepsChanging),
            }
        }
    }

    pub(super) async fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: Finalizer,
    ) -> Result<(), Problem> {
        let resource = self.resource(&object.kind.api_version, &object.kind.kind)?;
        let target = Target { resource: &resource, object };
        let remove = |seen: &ObjectMeta| Plan::of(plan::remove_finalizer(target, seen, finalizer));
        if self.write(target, remove).await? == Some(Answer::Done) {
            self.change(Priority::Change, |graph| {
                graph.finished(&object.uid);
                vec![]
            });
        }
        Ok(())
    }

    pub(super) fn resource(&self, api_version: &SmolStr, kind: &SmolStr) -> Result<ResourceType, Problem> {
        let found = self.server.resource(api_version, kind);
        found.ok_or_else(|| Problem::UnknownKind(api_version.clone(), kind.clone()))
    }
}
