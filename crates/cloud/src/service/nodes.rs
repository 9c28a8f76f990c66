//! The shell for changes of nodes: finds the Services that are concerned. Their own syncs do the rest, so that nobody
//! works on a load balancer twice at once.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_queue::{Priority, Queue};
use flyball_runtime::{Next, Reconcile, SyncError};

use super::backends::{backends, eligible};
use super::book::Book;
use super::numbers::Numbers;

pub(super) struct Fleet {
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) services: Queue<Key>,
    pub(super) book: Arc<Book>,
    pub(super) numbers: Numbers,
}

impl Reconcile for Fleet {
    async fn sync(&self, _: &Key) -> Result<Next, SyncError> {
        let pass = Arc::new(self.numbers.pass());
        let backends = backends(&eligible(self.nodes.store().list()));
        for key in self.book.misdirected(&backends, &pass) {
            self.services.add(key, Priority::Change);
        }
        Ok(Next::Settled)
    }
}
