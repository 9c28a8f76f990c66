//! Objects that cannot be looked at because the server does not serve a kind they need: they wait until what is
//! served changes, and are not tried in between.

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

    /// Forgets objects that are gone, so that waiting for a kind that never comes costs nothing.
    pub fn keep(&mut self, is_there: impl Fn(&Uid) -> bool) {
        self.items.retain(|item| is_there(&item.uid));
    }

    /// Hands out all who wait, ordered.
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
    /// Lets an object wait for a kind.
    pub(super) fn await_kind(
        &self,
        item: &Item,
        api_version: SmolStr,
        kind: SmolStr,
    ) -> Result<Next, Problem> {
        self.unserved.lock().add(item.clone());
        match self.server.resource(&api_version, &kind) {
            // It came just now, perhaps after those who wait were called.
            Some(_) => Err(Problem::UnknownKind(api_version, kind)),
            None => Ok(Next::Settled),
        }
    }

    /// Takes in another look at what the server serves. If it `is_new`, all who wait for a kind are looked at again.
    pub fn served(&self, is_new: bool) {
        let mut unserved = self.unserved.lock();
        if !is_new {
            self.look(|graph| unserved.keep(|uid| graph.get(uid).is_some()));
            return;
        }
        let items = unserved.take();
        drop(unserved);
        for item in items {
            self.deletions.add(item, Priority::Change);
        }
    }
}
