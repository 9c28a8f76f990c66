//! The shell: finalizer, load balancer, status, in this order; and back in the other.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Key, Node, Object, PartialObject, Resource, Service};
use flyball_cache::Informer;
use flyball_client::{Error, Patch};
use flyball_queue::Queue;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use serde_json::Value;
use tokio::time::Instant;

use super::backends::{backends, eligible, listed};
use super::book::Book;
use super::numbers::Numbers;
use super::plan::{Action, View, plan, wants_balancer, with_finalizer, without_finalizer};
use super::status::reporting;
use crate::CloudError;
use crate::provider::AnyLoadBalancers;

/// A Service that waits to be cleaned up is looked at again after this long, however often that failed.
const CLEANUP_PERIOD: Duration = Duration::from_secs(30);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) cluster: String,
    pub(super) balancers: Arc<dyn AnyLoadBalancers>,
    pub(super) services: Arc<Informer<Service>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) queue: Queue<Key>,
    pub(super) book: Arc<Book>,
    pub(super) numbers: Numbers,
}

/// Something that failed, and when to try again if the cloud said so.
struct Failure {
    error: SyncError,
    after: Option<Duration>,
}

impl Failure {
    fn of_cloud(doing: &'static str) -> impl FnOnce(CloudError) -> Self {
        move |error| Self { after: error.retry_after(), error: SyncError::other(doing, error) }
    }

    fn of_api(doing: &'static str) -> impl FnOnce(Error) -> Self {
        move |error| Self { error: SyncError::api(doing)(error), after: None }
    }

    fn outcome(self) -> Result<Next, SyncError> {
        match self.after {
            Some(after) => {
                tracing::info!(error = %Chain(&self.error), ?after, "the cloud is not ready; asking again");
                Ok(Next::After(after))
            }
            None => Err(self.error),
        }
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let done = self.attend(key).await;
        self.book.finish_passes(key);
        done.or_else(Failure::outcome)
    }
}

impl Controller {
    async fn attend(&self, key: &Key) -> Result<Next, Failure> {
        let service = self.services.store().get(key);
        let orphaned = match &service {
            Some(service) => self.book.predecessor(key, service.uid()),
            None => self.book.last_seen(key),
        };
        if let Some(orphaned) = orphaned {
            self.bury(&orphaned).await?;
            self.book.strike(key);
        }
        let Some(service) = service else { return Ok(Next::Settled) };
        let nodes = eligible(self.nodes.store().list());
        let (backends, done) = (backends(&nodes), self.book.done(key));
        let action = plan(&View { service: &service, done: done.as_ref(), backends: &backends });
        match action {
            Action::Leave => return Ok(Next::Settled),
            Action::Redirect => {
                self.book.begin(key, &service, backends);
                return self.redirect(&service, &nodes).await;
            }
            Action::Ensure | Action::CleanUp => self.book.begin(key, &service, backends),
        }
        let worked = match action {
            Action::CleanUp => self.clean_up(&service).await,
            _ => self.ensure(&service, &nodes).await,
        };
        worked.map(|()| Next::Settled).inspect_err(|failure| {
            let message = format!("Error syncing load balancer: {}", Chain(&failure.error));
            self.events.warning(&ObjectRef::of(&*service), "SyncLoadBalancerFailed", message);
            if action == Action::CleanUp {
                self.queue.add_after(key.clone(), CLEANUP_PERIOD);
            }
        })
    }

    async fn ensure(&self, service: &Arc<Service>, nodes: &[Arc<Node>]) -> Result<(), Failure> {
        let (key, about) = (service.key(), ObjectRef::of(&**service));
        self.events.normal(&about, "EnsuringLoadBalancer", "Ensuring load balancer");
        if let Some(patch) = with_finalizer(service) {
            let why = "its load balancer must go before it does";
            match self.patch(&key, patch, why).await {
                // There is nobody to have one any more.
                Err(error) if error.is_not_found() => {
                    self.book.strike(&key);
                    return Ok(());
                }
                other => other.map_err(Failure::of_api("failed to add load balancer cleanup finalizer"))?,
            }
        }
        if nodes.is_empty() {
            self.tell_of_no_nodes(&about);
        }
        let name = self.balancers.name(&self.cluster, service);
        tracing::info!(service = %key, balancer = name, nodes = nodes.len(), "making a load balancer fit");
        match self.balancers.ensure(&self.cluster, service, nodes).await {
            Ok(status) => {
                self.events.normal(&about, "EnsuredLoadBalancer", "Ensured load balancer");
                self.report(service, &status).await?;
            }
            Err(CloudError::ImplementedElsewhere) => {
                tracing::debug!(service = %key, "its load balancer is somebody else's business");
            }
            Err(error) => return Err(Failure::of_cloud("failed to ensure load balancer")(error)),
        }
        self.book.ensured(&key, service);
        Ok(())
    }

    async fn clean_up(&self, service: &Arc<Service>) -> Result<(), Failure> {
        let (key, about) = (service.key(), ObjectRef::of(&**service));
        let found = self.balancers.get(&self.cluster, service).await;
        let found =
            found.map_err(Failure::of_cloud("failed to check if load balancer exists before cleanup"))?;
        if found.is_some() {
            self.events.normal(&about, "DeletingLoadBalancer", "Deleting load balancer");
            match self.balancers.delete(&self.cluster, service).await {
                Ok(()) | Err(CloudError::ImplementedElsewhere) => {}
                Err(error) => return Err(Failure::of_cloud("failed to delete load balancer")(error)),
            }
        }
        if let Some(patch) = without_finalizer(service) {
            match self.patch(&key, patch, "its load balancer is gone").await {
                Err(error) if error.is_not_found() => {}
                other => {
                    other.map_err(Failure::of_api("failed to remove load balancer cleanup finalizer"))?
                }
            }
        }
        self.book.strike(&key);
        self.events.normal(&about, "DeletedLoadBalancer", "Deleted load balancer");
        self.report(service, &LoadBalancerStatus::default()).await
    }

    /// Takes away the load balancer of a Service that is gone.
    async fn bury(&self, service: &Service) -> Result<(), Failure> {
        if !wants_balancer(service) {
            return Ok(());
        }
        let about = ObjectRef::of(service);
        self.events.normal(&about, "DeletingLoadBalancer", "Deleting load balancer");
        if let Err(error) = self.balancers.delete(&self.cluster, service).await {
            let message = format!("Error deleting load balancer: {}", Chain(&error));
            self.events.warning(&about, "DeleteLoadBalancerFailed", message);
            return Err(Failure::of_cloud("failed to delete load balancer")(error));
        }
        self.events.normal(&about, "DeletedLoadBalancer", "Deleted load balancer");
        Ok(())
    }

    /// Points a load balancer to other nodes. If that fails, it is made anew at once.
    async fn redirect(&self, service: &Arc<Service>, nodes: &[Arc<Node>]) -> Result<Next, Failure> {
        let (key, about, began) = (service.key(), ObjectRef::of(&**service), Instant::now());
        self.numbers.syncs.inc();
        let updated = self.balancers.update(&self.cluster, service, nodes).await;
        self.numbers.update.observe(began.elapsed().as_secs_f64());
        let error = match updated {
            Ok(()) => {
                match nodes.is_empty() {
                    true => self.tell_of_no_nodes(&about),
                    false => self.events.normal(
                        &about,
                        "UpdatedLoadBalancer",
                        "Updated load balancer with new hosts",
                    ),
                }
                self.book.ensured(&key, service);
                return Ok(Next::Settled);
            }
            Err(CloudError::ImplementedElsewhere) => {
                self.book.ensured(&key, service);
                return Ok(Next::Settled);
            }
            Err(error) => error,
        };
        // It matters only if there is something to point elsewhere.
        match self.balancers.get(&self.cluster, service).await {
            Ok(None) => {
                self.book.ensured(&key, service);
                return Ok(Next::Settled);
            }
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(service = %key, error = %Chain(&error), "cannot tell whether there is a load balancer");
            }
        }
        self.numbers.errors.inc();
        let message = format!(
            "Error updating load balancer with new hosts {} [node names limited, total number of nodes: {}], error: {}",
            listed(nodes),
            nodes.len(),
            Chain(&error)
        );
        tracing::warn!(service = %key, error = %Chain(&error), "cannot point a load balancer to other nodes");
        self.events.warning(&about, "UpdateLoadBalancerFailed", message);
        Ok(Next::After(Duration::ZERO))
    }

    /// Lets the status say where the load balancer is. A Service that is gone needs none.
    async fn report(&self, service: &Service, status: &LoadBalancerStatus) -> Result<(), Failure> {
        let Some(patch) = reporting(service, status) else { return Ok(()) };
        match self.patch(&service.key(), patch, "its load balancer is reached elsewhere").await {
            Err(error) if !error.is_not_found() => {
                Err(Failure::of_api("failed to update load balancer status")(error))
            }
            _ => Ok(()),
        }
    }

    async fn patch(&self, key: &Key, patch: Value, why: &'static str) -> Result<(), Error> {
        let (writer, patch) = (self.cx.writer(key), Patch::Strategic(patch));
        writer
            .patch_dynamic::<PartialObject>(&Service::TYPE, key, Some("status"), patch, why)
            .await
            .map(|_| ())
    }

    fn tell_of_no_nodes(&self, about: &ObjectRef) {
        self.events.warning(
            about,
            "UnAvailableLoadBalancer",
            "There are no available nodes for LoadBalancer",
        );
    }
}
