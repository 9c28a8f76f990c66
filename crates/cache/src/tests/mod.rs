//! Behaviour of stores and informers over a scripted server, in virtual time.

mod currency;
mod doubts;
mod encoding;
mod informer;
mod lists;
mod memory;
mod property;
mod registry;
mod restores;
mod server;
mod store;
mod watching;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::{Change, Handler, Informer, Origin, Store, Subscription};
use server::Server;

/// A small namespaced kind. A `size` that is not a number cannot be decoded.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Widget {
    metadata: ObjectMeta,
    size: i64,
    node: SmolStr,
}

flyball_api::resource!(Widget, "test", "v1", "widgets", "Widget", namespaced);

/// Name, identity and version of every object: enough to distinguish any two states.
type Shape = BTreeMap<Key, (String, u64)>;

fn shape_of(store: &Store<Widget>) -> Shape {
    store.list().iter().map(|widget| entry(widget)).collect()
}

fn entry(widget: &Widget) -> (Key, (String, u64)) {
    (widget.key(), (widget.uid().to_string(), widget.meta().resource_version.0))
}

fn start(server: &Server) -> Informer<Widget> {
    start_with(server, None)
}

fn start_with(server: &Server, resync: Option<std::time::Duration>) -> Informer<Widget> {
    use flyball_api::Resource;
    Informer::start(Widget::TYPE, Arc::new(server.clone()), resync, StdRng::seed_from_u64(7))
}

async fn synced(server: &Server) -> Informer<Widget> {
    let informer = start(server);
    assert!(informer.synced().await);
    informer
}

/// A subscriber that builds its state from changes alone, and complains about changes that do not fit.
#[derive(Clone, Default)]
struct Listener {
    received: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    view: Shape,
    log: Vec<String>,
    complaints: Vec<String>,
}

impl Listener {
    fn to(informer: &Informer<Widget>) -> (Self, Subscription) {
        let listener = Self::default();
        let subscription = informer.subscribe(listener.handler(informer.store().clone()));
        (listener, subscription)
    }

    fn handler(&self, store: Store<Widget>) -> Handler<Widget> {
        let received = self.received.clone();
        Box::new(move |change| received.lock().hear(change, &store))
    }

    fn view(&self) -> Shape {
        self.received.lock().view.clone()
    }

    /// What was received since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.received.lock().log)
    }

    fn complaints(&self) -> Vec<String> {
        self.received.lock().complaints.clone()
    }
}

/// Completes when all tasks are idle: virtual time moves only then.
async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

impl Heard {
    fn hear(&mut self, change: &Change<'_, Widget>, store: &Store<Widget>) {
        let key = change.key();
        let verb = match (change.old, change.new) {
            (None, _) => "add",
            (_, None) => "delete",
            _ => "update",
        };
        self.log.push(format!("{verb} {key} {:?}", change.origin));
        let mut complain =
            |what: &str| self.complaints.push(format!("{what}: {verb} {key} {:?}", change.origin));
        let known = self.view.get(&key);
        match (change.old, change.new) {
            (Some(old), Some(new)) => {
                if known != Some(&entry(old).1) {
                    complain("the old side is not what was delivered before");
                }
                if old.uid() != new.uid() {
                    complain("an update changes the identity");
                }
                if change.origin != Origin::Resync && entry(old) == entry(new) {
                    complain("nothing changed");
                }
            }
            (None, Some(_)) if known.is_some() && change.origin != Origin::Initial => {
                complain("delivered twice");
            }
            (Some(old), None) if known.is_none_or(|(uid, _)| *uid != old.uid().to_string()) => {
                complain("a deletion of something unknown");
            }
            _ => {}
        }
        let visible = store.get(&key).map(|held| entry(&held));
        if visible != change.new.map(|new| entry(new)) {
            complain("the store shows something else");
        }
        match change.new {
            Some(new) => self.view.extend([entry(new)]),
            None => drop(self.view.remove(&key)),
        }
    }
}
