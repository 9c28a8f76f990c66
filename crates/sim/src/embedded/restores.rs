//! Restores of the server, and what they leave behind.
//!
//! A controller that has not noticed a restore yet may create dependents of an object that the restore has undone. In a cluster
//! the garbage collector deletes them. And a restore may undo the second half of the deletion of a pod that is on no node: it is
//! marked and never removed, until the pod garbage collector does. Most scenarios run without the two, so here their work is
//! done for them; dependents of owners that were deleted in another way are left alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flyball_apiserver::ApiServer;
use flyball_client::Transport;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::transport::Answers;

/// How long the garbage collectors take to notice what is left.
const NOTICED_AFTER: Duration = Duration::from_secs(2);

pub(super) struct Restores {
    server: ApiServer,
    /// With the rights of an administrator.
    transport: Arc<dyn Transport>,
    /// The uids of objects that a restore has undone.
    undone: Mutex<BTreeSet<String>>,
    answers: Arc<Answers>,
    is_running: AtomicBool,
}

impl Restores {
    pub(super) fn new(server: ApiServer, transport: Arc<dyn Transport>, answers: Arc<Answers>) -> Arc<Self> {
        let is_running = AtomicBool::new(false);
        Arc::new(Self { server, transport, undone: Mutex::default(), answers, is_running })
    }

    /// Restores the server to an earlier version; false if that is no longer in its history. From now on, dependents of undone
    /// objects are deleted.
    pub(super) fn restore(self: &Arc<Self>, version: u64) -> bool {
        let before = self.uids();
        if self.server.restore(version).is_err() {
            return false;
        }
        let after = self.uids();
        self.undone.lock().extend(before.into_iter().filter(|uid| !after.contains(uid)));
        if !self.is_running.swap(true, Ordering::Relaxed) {
            tokio::spawn(Arc::clone(self).collect());
        }
        true
    }

    /// After a restore and after every write of a controller, deletes what is left.
    async fn collect(self: Arc<Self>) {
        loop {
            self.answers.wrote.notified().await;
            tokio::time::sleep(NOTICED_AFTER).await;
            for path in self.remains() {
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                let request = http::Request::delete(path)
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(Bytes::from(options.to_string()));
                if let Ok(request) = request {
                    // One that is gone by now is as good as deleted. Others have finalizers, which a controller removes.
                    let _ = self.transport.send(request).await;
                }
            }
        }
    }

    fn objects(&self) -> impl Iterator<Item = (String, Value)> {
        let store = self.server.store();
        let shelves = store.counts().into_keys();
        shelves.flat_map(move |shelf| {
            store.all(&shelf, None).into_iter().map(move |entry| (shelf.plural.to_string(), entry.value()))
        })
    }

    fn uids(&self) -> BTreeSet<String> {
        self.objects().map(|(_, object)| text(&object["metadata"]["uid"])).collect()
    }

    /// The paths of objects all of whose owners were undone, and of those that are marked as deleted although nothing keeps them.
    fn remains(&self) -> Vec<String> {
        let undone = self.undone.lock().clone();
        let remains = self.objects().filter(|(_, object)| {
            let meta = &object["metadata"];
            let list = |field: &str| meta[field].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_undone = |owner: &Value| undone.contains(&text(&owner["uid"]));
            let owners = list("ownerReferences");
            match meta["deletionTimestamp"].is_null() {
                true => !owners.is_empty() && owners.iter().all(is_undone),
                false => meta["deletionGracePeriodSeconds"] == 0 && list("finalizers").is_empty(),
            }
        });
        remains.map(|(plural, object)| path(&plural, &object)).collect()
    }
}

fn path(plural: &str, object: &Value) -> String {
    let [version, namespace, name] =
        [&object["apiVersion"], &object["metadata"]["namespace"], &object["metadata"]["name"]].map(text);
    let root = if version.contains('/') { "apis" } else { "api" };
    match namespace.is_empty() {
        true => format!("/{root}/{version}/{plural}/{name}"),
        false => format!("/{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
