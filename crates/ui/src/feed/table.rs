//! One kind of objects: which have changed since the last batch, and their rows.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use flyball_api::Key;
use flyball_cache::{Change, Informer, Informers, Subscription};
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use serde_json::value::RawValue;

use super::lines::Lines;
use crate::row::{Around, Shown};

/// Rows of a batch or of the objects that there are.
pub(super) type Rows = Vec<Box<RawValue>>;

/// The rows of the objects that exist, made while they are sent.
pub(super) type AllRows = Box<dyn Iterator<Item = Box<RawValue>> + Send>;

/// What has changed: rows, and the names of what is gone, by kind.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Changes {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) rows: BTreeMap<&'static str, Rows>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) gone: BTreeMap<&'static str, Vec<String>>,
}

/// A kind, without its type.
pub(super) trait Table: Send {
    fn kind(&self) -> &'static str;

    /// Begins to follow the cache, if there is one now. No cache is started for the page.
    fn follow(&mut self, informers: &Informers, lines: &Arc<Lines>);

    /// Moves at most `room` changes into a batch, and returns how many. What does not fit stays, once for each object.
    fn take(&mut self, around: &Around, room: usize, into: &mut Changes) -> usize;

    /// All rows that there are now, for one viewer.
    fn all(&mut self, around: &Around) -> AllRows;
}

pub(super) struct TableOf<T> {
    followed: Option<(Arc<Informer<T>>, Subscription)>,
    changed: Arc<Mutex<FxHashSet<Key>>>,
    /// Digests of the rows that were sent since somebody came: many changes of an object do not concern its row.
    sent: FxHashMap<Key, u64>,
}

impl<T> Default for TableOf<T> {
    fn default() -> Self {
        Self { followed: None, changed: Arc::default(), sent: FxHashMap::default() }
    }
}

impl<T: Shown> Table for TableOf<T> {
    fn kind(&self) -> &'static str {
        // A constant of the type: its text is static.
        kind_of::<T>()
    }

    fn follow(&mut self, informers: &Informers, lines: &Arc<Lines>) {
        if self.followed.is_some() {
            return;
        }
        let Some(informer) = informers.started::<T>() else { return };
        let (changed, lines) = (self.changed.clone(), lines.clone());
        let subscription = informer.subscribe(Box::new(move |change| {
            if change.origin.is_fresh() {
                changed.lock().insert(change.key());
                note(change, &lines);
            }
        }));
        self.followed = Some((informer, subscription));
    }

    fn take(&mut self, around: &Around, room: usize, into: &mut Changes) -> usize {
        let Some((informer, _)) = &self.followed else { return 0 };
        let taken: Vec<Key> = {
            let mut changed = self.changed.lock();
            let taken: Vec<Key> = changed.iter().take(room).cloned().collect();
            taken.iter().for_each(|key| {
                changed.remove(key);
            });
            taken
        };
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for key in &taken {
            // The latest state, which may be newer than the change.
            let object = informer.store().get(key).filter(|object| object.is_shown());
            match object.and_then(|object| object.row(around)) {
                Some(row) => {
                    let digest = digest(&row);
                    if self.sent.insert(key.clone(), digest) != Some(digest) {
                        rows.push(row);
                    }
                }
                None => {
                    self.sent.remove(key);
                    gone.push(key.to_string());
                }
            }
        }
        if !rows.is_empty() {
            into.rows.insert(self.kind(), rows);
        }
        if !gone.is_empty() {
            into.gone.insert(self.kind(), gone);
        }
        taken.len()
    }

    fn all(&mut self, around: &Around) -> AllRows {
        // This viewer may see a state that the others do not, if an object changes back before the next batch.
        self.sent.clear();
        let objects = self.followed.as_ref().map(|(informer, _)| informer.store().list()).unwrap_or_default();
        let around = around.clone();
        let rows = move |object: Arc<T>| object.row(&around);
        Box::new(objects.into_iter().filter(|object| object.is_shown()).filter_map(rows))
    }
}

/// Names of kinds have to outlive the tables.
fn kind_of<T: Shown>() -> &'static str {
    const KINDS: [&str; 9] = [
        "Pod",
        "Node",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Job",
        "PersistentVolumeClaim",
        "Namespace",
    ];
    KINDS.into_iter().find(|kind| T::TYPE.kind == *kind).unwrap_or("Object")
}

fn digest(row: &RawValue) -> u64 {
    FxBuildHasher.hash_one(row.get())
}

/// A line about a change that a reader would call one: what the object's state says is different.
fn note<T: Shown>(change: &Change<'_, T>, lines: &Lines) {
    let meta = change.object().meta();
    let what = match (change.old, change.new) {
        (None, Some(_)) => "created".to_owned(),
        (Some(_), None) => "gone".to_owned(),
        (Some(old), Some(new)) => {
            let (before, after) = (old.state(), new.state());
            if before.text == after.text {
                return;
            }
            format!("{} → {}", before.text, after.text)
        }
        (None, None) => return,
    };
    lines.changed(&T::TYPE, meta, what);
}

#[cfg(test)]
mod tests {
    use flyball_api::pod::Pod;

    use super::*;

    /// A viewer may come between two changes of an object that together leave its row as it was.
    #[tokio::test]
    async fn after_a_viewer_has_come_rows_are_sent_again_that_others_have() {
        let client = flyball_client::Client::new(Arc::new(Nowhere), flyball_client::ClientOptions::default());
        let informers = Informers::new(client, flyball_cache::InformerOptions::default());
        let mut table = TableOf::<Pod>::default();
        table.sent.insert(Key::new("ns", "a"), 1);
        drop(table.all(&Around::new(&informers, None)));
        assert!(table.sent.is_empty());
    }

    struct Nowhere;

    impl flyball_client::Transport for Nowhere {
        fn send(
            &self,
            _: http::Request<bytes::Bytes>,
        ) -> futures::future::BoxFuture<
            'static,
            Result<http::Response<flyball_client::Body>, flyball_client::TransportError>,
        > {
            Box::pin(futures::future::pending())
        }
    }

    #[test]
    fn every_kind_has_its_name() {
        assert_eq!(TableOf::<Pod>::default().kind(), "Pod");
        assert_eq!(super::super::tables().iter().filter(|table| table.kind() == "Object").count(), 0);
    }
}
