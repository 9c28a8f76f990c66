use futures::FutureExt;

use super::*;

/// More than tokio's `Notify` wakes in one batch, and than its `watch` has lists of receivers.
const MANY: usize = 100;

#[tokio::test]
async fn receivers_are_woken_in_the_order_in_which_they_began_to_wait() {
    let (sender, _) = channel(0);
    let woken = Arc::new(Mutex::new(vec![]));
    for n in 0..MANY {
        let (mut receiver, woken) = (sender.subscribe(), woken.clone());
        tokio::spawn(async move {
            while receiver.changed().await.is_ok() {
                woken.lock().push(n);
            }
        });
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        sender.send_modify(|value| *value += 1);
        while woken.lock().len() < MANY {
            tokio::task::yield_now().await;
        }
        assert_eq!(std::mem::take(&mut *woken.lock()), (0..MANY).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_change_is_seen_once_by_each_receiver() {
    let (sender, mut receiver) = channel("a");
    let mut other = receiver.clone();
    assert!(receiver.changed().now_or_never().is_none(), "the first value counts as seen");
    sender.send_replace("b");
    sender.send_replace("c");
    receiver.changed().now_or_never().unwrap().unwrap();
    assert_eq!(*receiver.borrow(), "c");
    assert!(receiver.changed().now_or_never().is_none());
    assert_eq!(*other.borrow_and_update(), "c");
    assert!(other.changed().now_or_never().is_none());
    let later = sender.subscribe().changed().now_or_never();
    assert!(later.is_none(), "{later:?}");
}

#[tokio::test]
async fn only_what_was_modified_wakes() {
    let (sender, mut receiver) = channel(1);
    assert!(!sender.send_if_modified(|_| false));
    assert!(receiver.changed().now_or_never().is_none());
    assert!(sender.send_if_modified(|value| std::mem::replace(value, 2) == 1));
    receiver.changed().now_or_never().unwrap().unwrap();
    assert_eq!(sender.send_replace(3), 2);
}

#[tokio::test]
async fn a_change_between_a_look_and_the_wait_is_not_missed() {
    let (sender, mut receiver) = channel(0);
    let mut wait = Box::pin(receiver.wait_for(|value| *value == 7));
    assert!((&mut wait).now_or_never().is_none());
    sender.send_replace(7);
    assert_eq!(wait.await, Ok(7));
}

#[tokio::test]
async fn a_wait_ends_when_the_last_sender_is_gone() {
    let (sender, mut receiver) = channel(0);
    let second = sender.clone();
    drop(sender);
    assert!(receiver.changed().now_or_never().is_none());
    let mut waiting = receiver.clone();
    let wait = tokio::spawn(async move { waiting.wait_for(|value| *value == 9).await });
    tokio::task::yield_now().await;
    second.send_replace(1);
    drop(second);
    assert_eq!(wait.await.unwrap(), Err(Closed));
    // The last value is still there.
    assert_eq!(receiver.wait_for(|value| *value == 1).await, Ok(1));
}
