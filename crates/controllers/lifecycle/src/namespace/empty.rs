//! Deletes the objects of the collections of a namespace and counts what is left: the I/O between the decisions of `content`, `plan`,
//! `confirmation` and `failures`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, ObjectMeta, PartialObject, Resource, ResourceType, Timestamp};
use flyball_client::{Encoding, Error, ListParams};
use flyball_runtime::{Chain, Context, Executor, Outcome};
use futures::{StreamExt, stream};
use serde::de::DeserializeOwned;

use super::confirmation::{Again, Emptied, listed_again};
use super::content::{Collection, Remains, grace};
use super::{confirmation, failures, plan};

const PAGE: u32 = 500;
/// How many collections are deleted concurrently.
const MAX_CONCURRENT: usize = 8;
/// How many times collections are listed again that were listed before a request failed.
const ROUNDS: u32 = 20;

/// Deletes the content of one namespace.
pub(super) struct Emptying<'a> {
    pub(super) cx: &'a Context,
    pub(super) executor: Executor<'a>,
    pub(super) key: &'a Key,
    pub(super) deleted_at: Timestamp,
    /// The number of requests so far after whose failure etcd may have been restored.
    pub(super) interruptions: AtomicU32,
}

impl Emptying<'_> {
    /// Deletes all objects of some collections, and counts those that remain.
    pub(super) async fn empty_all(&self, collections: Vec<Collection>) -> Vec<Emptied> {
        let emptied = stream::iter(collections).map(|collection| self.empty(collection));
        emptied.buffered(MAX_CONCURRENT).collect().await
    }

    /// Deletes all objects of a collection, and counts those that remain, for example because of finalizers.
    ///
    /// The namespace is finalized only if one sync finds all its collections empty. So a failed request is retried here: otherwise
    /// one failure among a hundred requests would cost the whole sync.
    pub(super) async fn empty(&self, collection: Collection) -> Emptied {
        let mut failed_before = 0;
        loop {
            let mut grace = Duration::ZERO;
            let interruptions = self.interruptions();
            let remains = match self.attempt(&collection, &mut grace).await {
                Ok(remains) => remains,
                Err(error) => {
                    self.record_failure(&error);
                    if let Some(pause) = failures::pause(&error, failed_before) {
                        tokio::time::sleep(pause).await;
                        failed_before += 1;
                        continue;
                    }
                    Remains::unknown(grace, Chain(&error))
                }
            };
            return Emptied { collection, remains, interruptions };
        }
    }

    /// Lists the collections once more that were empty before a request failed: if etcd was restored meanwhile, their objects are
    /// back, and finalizing the namespace would leave them behind. Those of a namespace that is not finalized yet are left to
    /// its next sync.
    pub(super) async fn confirm(&self, mut all: Vec<Emptied>) -> Vec<Emptied> {
        if !confirmation::is_due(&all) {
            return all;
        }
        for _ in 0..ROUNDS {
            let (current, outdated) = confirmation::outdated(all, self.interruptions());
            if outdated.is_empty() {
                return current;
            }
            let listed = stream::iter(outdated).map(|emptied| self.list_again(emptied));
            all = listed.buffered(MAX_CONCURRENT).chain(stream::iter(current)).collect().await;
        }
        confirmation::give_up(all, self.interruptions())
    }

    async fn list_again(&self, emptied: Emptied) -> Emptied {
        let interruptions = self.interruptions();
        let mut remains = Remains::default();
        let listed = self.each(&emptied.collection, |meta| remains.add(meta)).await;
        if let Err(error) = &listed {
            self.record_failure(error);
        }
        match listed_again(emptied, listed.is_ok().then_some(remains.objects), interruptions) {
            Again::Keep(emptied) => emptied,
            Again::Empty(collection) => self.empty(collection).await,
        }
    }

    fn interruptions(&self) -> u32 {
        self.interruptions.load(Ordering::Relaxed)
    }

    fn record_failure(&self, error: &Error) {
        if failures::is_interruption(error) {
            self.interruptions.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn attempt(&self, collection: &Collection, grace: &mut Duration) -> Result<Remains, Error> {
        *grace = self.grace(collection).await?;
        self.delete_all(collection).await?;
        let mut remains = Remains::default();
        let is_listed = self.each(collection, |meta| remains.add(meta)).await?;
        let listed = is_listed.then_some(remains);
        Ok(Remains::after_deletion(listed, *grace, &self.key.name, &collection.resource))
    }

    /// How long the objects may still take to terminate. Only pods have a grace period.
    async fn grace(&self, collection: &Collection) -> Result<Duration, Error> {
        if !collection.is_pods() {
            return Ok(Duration::ZERO);
        }
        let mut pods: Vec<Pod> = vec![];
        self.pages(&Pod::TYPE, false, |page| pods.extend(page)).await?;
        Ok(grace(pods.iter(), self.deleted_at, self.cx.clock.now()))
    }

    async fn delete_all(&self, collection: &Collection) -> Result<(), Error> {
        if let Some(delete) = plan::delete_collection(collection, &self.key.name) {
            let outcome = self.executor.perform([delete]).await;
            if outcome.ignored().next().is_none() {
                return result(outcome);
            }
        }
        let mut found = vec![];
        self.each(collection, |meta| found.push(plan::delete(&collection.resource, meta))).await?;
        result(self.executor.perform(found).await)
    }

    /// Calls `visit` with the metadata of every object; `false` if they cannot be listed.
    async fn each(
        &self,
        collection: &Collection,
        mut visit: impl FnMut(&ObjectMeta) + Send,
    ) -> Result<bool, Error> {
        if !collection.can_list {
            return Ok(false);
        }
        let visit_page = |page: Vec<PartialObject>| page.iter().for_each(|object| visit(&object.metadata));
        match self.pages(&collection.resource, true, visit_page).await {
            Ok(()) => Ok(true),
            Err(error) if failures::is_not_served(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn pages<O: DeserializeOwned + Send>(
        &self,
        resource: &ResourceType,
        metadata_only: bool,
        mut take: impl FnMut(Vec<O>) + Send,
    ) -> Result<(), Error> {
        let mut params = ListParams { limit: Some(PAGE), metadata_only, ..ListParams::default() };
        loop {
            let page = self.cx.client.list_as::<O>(resource, Some(&self.key.name), &params).await?;
            take(page.items);
            let Some(token) = page.continue_ else { return Ok(()) };
            if params.continue_.as_ref() == Some(&token) {
                return Err(repeated_token(resource, &token));
            }
            params.continue_ = Some(token);
        }
    }
}

/// The first error of the requests, if there is one.
fn result(outcome: Outcome) -> Result<(), Error> {
    outcome.failures.into_iter().find_map(|failure| failure.error).map_or(Ok(()), Err)
}

/// The server returned the continue token that it was sent. To follow it would never end.
fn repeated_token(resource: &ResourceType, token: &str) -> Error {
    let problem = format!("the server returned the same continue token {token:?} again");
    let source = serde::de::Error::custom(problem);
    Error::Decode { what: format!("list {resource}").into(), encoding: Encoding::Json, source }
}
