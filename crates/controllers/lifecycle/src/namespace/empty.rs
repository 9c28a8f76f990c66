//! Deletes the objects of one collection of a namespace and counts what is left.

use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{Key, ObjectMeta, PartialObject, Resource, ResourceType, Timestamp};
use flyball_client::{Error, ListParams};
use flyball_runtime::{Chain, Context, Executor, Outcome};
use serde::de::DeserializeOwned;

use super::content::{Collection, Remains, grace};
use super::plan;

const PAGE: u32 = 500;
/// The pauses between attempts at one collection; each is four times the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Deletes the content of one namespace.
pub(super) struct Emptying<'a> {
    pub(super) cx: &'a Context,
    pub(super) executor: Executor<'a>,
    pub(super) key: &'a Key,
    pub(super) deleted_at: Timestamp,
}

impl Emptying<'_> {
    /// Deletes all objects of a collection, and counts those that remain, for example because of finalizers.
    ///
    /// The namespace is finalized only if one sync finds all its collections empty. So a failed request is retried here: otherwise
    /// one failure among a hundred requests would cost the whole sync.
    pub(super) async fn empty(&self, collection: &Collection) -> Remains {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut grace = Duration::ZERO;
            match self.attempt(collection, &mut grace).await {
                Ok(remains) => return remains,
                Err(error) if pause > LAST_PAUSE || !is_transient(&error) => {
                    return Remains::unknown(grace, Chain(&error));
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 4;
        }
    }

    async fn attempt(&self, collection: &Collection, grace: &mut Duration) -> Result<Remains, Error> {
        *grace = self.grace(collection).await?;
        self.delete_all(collection).await?;
        let mut remains = Remains::default();
        Ok(match self.each(collection, |meta| remains.add(meta)).await? {
            true => remains.assessed(*grace, &self.key.name, &collection.resource),
            false => Remains { wait: *grace, ..Remains::default() },
        })
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
            Err(error) if is_not_served(&error) => Ok(false),
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
    Error::Decode { what: format!("list {resource}").into(), source: serde::de::Error::custom(problem) }
}

/// Whether a retry may help, because the server is overloaded or the connection has failed.
fn is_transient(error: &Error) -> bool {
    error.code().is_none_or(|code| code == 429 || code >= 500)
}

/// Discovery may list resources that the server does not serve any more, or not with this verb.
fn is_not_served(error: &Error) -> bool {
    error.is_not_found() || error.is_method_not_supported()
}
