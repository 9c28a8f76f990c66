//! The shell: look up, adopt, find the revisions, plan, execute, write the status, trim the history.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{ControllerRevision, Key, Object, PersistentVolumeClaim, Selector, StatefulSet};
use flyball_cache::Informer;
use flyball_common::adoption::{adopt_and_release, adopt_and_release_where, selector_of};
use flyball_common::index::owned_or_orphaned;
use flyball_common::revisions::{self, Created};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::history::{self, Revisions, Template};
use super::identity::{claim_names, is_member};
use super::invariants;
use super::metrics;
use super::plan::{BURST, plan};
use super::status::after;
use super::view::{Claims, View, ordinals_in_play};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) sets: Arc<Informer<StatefulSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) revisions: Arc<Informer<ControllerRevision>>,
    pub(super) obeys_max_unavailable: bool,
    pub(super) by_meaning: bool,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(set) = self.sets.store().get(key) else { return Ok(Next::Settled) };
        let selector = selector_of(key, Selector::from_object(set.spec.selector.as_ref()))?;
        let history = self.history(&set, &selector).await?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let matches = |pod: &Pod| selector.matches(&pod.metadata.labels) && is_member(&set, pod);
        let pods = adopt_and_release_where(&self.cx, &*set, matches, candidates, &[]).await?;
        let revisions = self.revisions(&set, &history).await?;
        let claims = self.claims(&set, &pods);
        let view = View {
            set: &set,
            pods: &pods,
            claims: &claims,
            revisions: &revisions,
            obeys_max_unavailable: self.obeys_max_unavailable,
            now: self.cx.clock.now(),
        };

        let plan = plan(&view)
            .map_err(|error| SyncError::other(format!("reading maxUnavailable of {key}"), error).never())?;
        self.cx.judge(|| invariants::check(&view, &plan));
        if self.obeys_max_unavailable {
            metrics::observe(&self.cx.metrics, &view);
        }
        let executor = self.cx.executor(key).about(ObjectRef::of(&*set)).events(&self.events);
        let done = executor.run(plan).await;
        let after = after(&view, &done.outcome, &history::obsolete(&view, &history));
        let after = executor.perform([after]).await;
        let next = done.result()?;
        after.result().map(|()| next)
    }
}

impl Controller {
    /// The revisions of a set, from the oldest; orphans are adopted.
    async fn history(
        &self,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, SyncError> {
        let all = owned_or_orphaned(self.revisions.store(), &set.metadata.namespace, set.uid());
        let matching = all.into_iter().filter(|revision| selector.matches(&revision.metadata.labels));
        let mut history = adopt_and_release(&self.cx, set, selector, matching.collect(), &[]).await?;
        revisions::sort(&mut history);
        Ok(history)
    }

    /// The current and the update revision; the latter is created if it does not exist.
    async fn revisions(
        &self,
        set: &StatefulSet,
        history: &[Arc<ControllerRevision>],
    ) -> Result<Revisions, SyncError> {
        let key = set.key();
        let (template, mut collisions) = history::of_template(set, history, self.by_meaning);
        let update = match template {
            Template::Known(revision) => revision.clone(),
            Template::Renumbered(revision) => {
                let executor = self.cx.executor(&key);
                let answer = executor.perform([history::renumber(&revision)]).await.answer()?;
                Arc::new(revisions::as_written(revision, &answer))
            }
            Template::New(revision) => Arc::new(self.create(set, revision, &mut collisions).await?),
        };
        let current = history::current(set, history).unwrap_or(&update).clone();
        Ok(Revisions { current, update, collisions })
    }

    /// Creates a revision, with another name after each name collision.
    async fn create(
        &self,
        set: &StatefulSet,
        mut revision: ControllerRevision,
        collisions: &mut i32,
    ) -> Result<ControllerRevision, SyncError> {
        let key = set.key();
        loop {
            if let Created::Exists(revision) = revisions::create(&self.cx, &key, revision.clone()).await? {
                return Ok(Arc::unwrap_or_clone(revision));
            }
            let doing = || format!("naming the revision of {key}");
            (revision, *collisions) = history::after_collision(set, revision, *collisions)
                .map_err(|problem| SyncError::other(doing(), problem))?;
        }
    }

    /// The existing claims of the pods of a set and of those that may be created.
    fn claims(&self, set: &StatefulSet, pods: &[Arc<Pod>]) -> Claims {
        let ordinals = ordinals_in_play(set, pods, BURST).into_iter();
        let existing = |name| {
            let key = Key::new(set.metadata.namespace.as_str(), name);
            self.claims.store().get(&key).map(|claim| (claim.metadata.name.clone(), claim))
        };
        ordinals.flat_map(|ordinal| claim_names(set, ordinal)).filter_map(existing).collect()
    }
}
