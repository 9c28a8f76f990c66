//! Restores of etcd that are noticed while a key is synced.

use super::*;
use crate::plan::{ErrorKinds, Operation, Plan, Write};
use crate::{Next, Reconcile, SyncError};

const SECOND: Duration = Duration::from_secs(1);

/// What any informer does when it notices a restore.
fn notice_a_restore(cx: &Context) {
    let things = cx.informer::<Thing>();
    things.report_restore(things.era());
}

/// It may be waiting for the rate limit or for a token: then it would be sent although its plan is outdated.
#[tokio::test(start_paused = true)]
async fn a_write_without_a_response_is_given_up_when_a_restore_is_noticed() {
    let server = Server::answering(1, Value::Null);
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let writer = cx.writer(&owner);
    let things = Thing::TYPE;
    let write = writer.patch(&things, &key, None, Patch::Merge(json!({})), "it changes");
    tokio::pin!(write);
    assert!(timeout(SECOND, &mut write).await.is_err(), "it waits");
    notice_a_restore(&cx);
    let error = timeout(SECOND, write).await.expect("it is given up").unwrap_err();
    assert!(error.outcome_unknown(), "{error:?}");
    assert!(cx.barrier.is_raised(&owner), "what became of it is read from the server");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_plan_is_not_written_when_a_restore_is_noticed() {
    let server = Server::answering(200, Server::object("7", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let patch = || {
        let operation = Operation::Patch(Patch::Merge(json!({})));
        Plan::<()>::of([Write::of(Thing::TYPE, key.clone(), operation).why("it changes")]).effects
    };
    let executor = cx.executor(&owner);
    assert_eq!(executor.perform(patch()).await.done.len(), 1);
    notice_a_restore(&cx);
    let outcome = executor.perform(patch()).await;
    assert!(outcome.done.is_empty());
    assert!(outcome.is_outdated(), "{:?}", outcome.failures);
    assert!(!outcome.failures[0].is_one_of(ErrorKinds::OUTCOME_UNKNOWN), "it was not sent");
    // The next sync plans anew.
    assert_eq!(cx.executor(&owner).perform(patch()).await.done.len(), 1);
}

/// Reads its cache, waits for something while a restore is noticed, and makes its executor only then.
struct Slow {
    cx: Arc<Context>,
    was_outdated: parking_lot::Mutex<Vec<bool>>,
}

impl Reconcile for Slow {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        if self.was_outdated.lock().is_empty() {
            notice_a_restore(&self.cx);
        }
        let operation = Operation::Patch(Patch::Merge(json!({})));
        let patch = Write::of(Thing::TYPE, Key::new("ns", "t"), operation).why("it changes");
        let outcome = self.cx.executor(key).perform([patch]).await;
        self.was_outdated.lock().push(outcome.is_outdated());
        outcome.result().map(|()| Next::Settled)
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_writes_nothing_after_a_restore_is_noticed_also_with_a_new_executor() {
    let server = Server::answering(200, Server::object("7", json!(["example.com/mine"])));
    let cx = Arc::new(context(&server));
    let mut tasks = crate::tasks::Tasks::new(cx.clone(), &crate::Health::default());
    let queue = tasks.queue::<Key>("test");
    tasks.needs(&cx.informer::<Thing>());
    let slow = Arc::new(Slow { cx, was_outdated: Default::default() });
    tasks.workers(&queue, 1, slow.clone());
    let _running = tasks.start(None).await;
    queue.add(Key::new("ns", "owner"), flyball_queue::Priority::Change);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(slow.was_outdated.lock()[..2], [true, false], "the next sync writes");
}

/// A write that reads first, or tries again after a conflict, has waited for that.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_decided_before_a_restore_is_not_sent() {
    let server = Server::answering(200, Server::object("7", json!(["example.com/mine"])));
    let cx = context(&server);
    cx.informer::<Thing>().synced().await;
    let (owner, key) = (Key::new("ns", "owner"), Key::new("ns", "t"));
    let writer = cx.writer(&owner);
    notice_a_restore(&cx);
    let written = writer.patch(&Thing::TYPE, &key, None, Patch::Merge(json!({})), "it changes").await;
    assert!(written.unwrap_err().is_outdated());
}
