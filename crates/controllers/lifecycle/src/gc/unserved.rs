//! Objects that cannot be examined because the server does not serve a kind they refer to. They wait until the
//! discovered resources change, without retries.

use flyball_api::Uid;
use flyball_queue::Priority;
use flyball_runtime::Next;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use super::identity::Item;
use super::server::{Problem, Server};
use super::sync::Collector;

#[derive(Debug, Default)]
pub struct Unserved {
    items: FxHashSet<Item>,
}

impl Unserved {
    pub fn add(&mut self, item: Item) {
        self.items.insert(item);
    }

    /// Removes objects that are gone.
    pub fn keep(&mut self, is_there: impl Fn(&Uid) -> bool) {
        self.items.retain(|item| is_there(&item.uid));
    }

    /// Removes and returns all objects, in order.
    pub fn take(&mut self) -> Vec<Item> {
        let mut items: Vec<Item> = std::mem::take(&mut self.items).into_iter().collect();
        items.sort_unstable();
        items
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<S: Server> Collector<S> {
    /// Adds an object that waits for a kind.
    pub(super) fn await_kind(
        &self,
        item: &Item,
        api_version: SmolStr,
        kind: SmolStr,
    ) -> Result<Next, Problem> {
        self.unserved.lock().add(item.clone());
        match self.server.resource(&api_version, &kind) {
            // It was discovered just now, perhaps after the waiting objects were queued.
            Some(_) => Err(Problem::UnknownKind(api_version, kind)),
            None => Ok(Next::Settled),
        }
    }

    /// Called after each discovery. If it `is_new`, all objects that wait for a kind are queued.
    pub fn served(&self, is_new: bool) {
        let mut unserved = self.unserved.lock();
        if !is_new {
            self.read_graph(|graph| unserved.keep(|uid| graph.get(uid).is_some()));
            return;
        }
        let items = unserved.take();
        drop(unserved);
        for item in items {
            self.deletions.add(item, Priority::Change);
        }
    }
}
