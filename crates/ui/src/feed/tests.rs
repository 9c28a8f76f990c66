use std::sync::Arc;
use std::time::Duration;

use flyball_api::Key;
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Body, Client, ClientOptions, Transport, TransportError};
use flyball_runtime::decisions::{Decision, DecisionLog, Outcome, Subject};
use flyball_runtime::{Clock, Health, Insight};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::runtime::Handle;

use super::{BATCH_EVERY, BATCHES, Feed, VIEWERS};
use crate::sources::Sources;

/// Nobody is there.
struct Nowhere;

impl Transport for Nowhere {
    fn send(
        &self,
        _: http::Request<bytes::Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        futures::future::pending().boxed()
    }

    fn host(&self) -> &str {
        "nowhere"
    }
}

fn feed(stream_lasts: Duration) -> (Arc<Feed>, DecisionLog) {
    let client = Client::new(Arc::new(Nowhere), ClientOptions::default());
    let decisions = DecisionLog::default();
    let sources = Sources {
        component: "test",
        clock: Clock::system(),
        informers: Informers::new(client.clone(), InformerOptions::default()),
        insight: Insight::default(),
        health: Health::default(),
        decisions: decisions.clone(),
        client,
        leads: Arc::new(|| None),
        acts: None,
        stream_lasts,
    };
    (Feed::new(sources, Handle::current()), decisions)
}

fn decide(log: &DecisionLog, name: &str) {
    log.record(Decision {
        id: 0,
        time: Clock::system().now(),
        controller: "job-controller",
        owner: "ns/a".into(),
        action: "create",
        target: Subject::new("Pod", &Key::new("ns", name)),
        subresource: "".into(),
        why: "it is missing".into(),
        outcome: Outcome::Done,
        took_ms: Duration::ZERO,
    });
}

fn read(message: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(message).unwrap();
    let events = text.split("\n\n").filter(|event| !event.is_empty());
    events.map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn the_feed_runs_only_while_somebody_looks() {
    let (feed, log) = feed(LONG);
    assert!(!feed.is_running());
    let (one, other) = (feed.join(), feed.join());
    assert!(feed.is_running());
    drop(one);
    assert!(feed.is_running());
    drop(other);
    assert!(!feed.is_running());
    decide(&log, "unseen");
    let again = feed.join();
    assert!(feed.is_running());
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_gets_what_there_is_and_then_what_happens() {
    let (feed, log) = feed(LONG);
    decide(&log, "before");
    let mut messages = Box::pin(feed.join().messages());
    let first = read(&messages.next().await.unwrap());
    assert_eq!(first[0]["begin"]["component"], "test");
    let last = read(&messages.next().await.unwrap());
    assert_eq!(last[0]["lines"][0]["decision"]["target"]["name"], "before");
    assert_eq!(last[1]["complete"], true);
    decide(&log, "after");
    let batch = read(&messages.next().await.unwrap());
    assert_eq!(batch[0]["lines"][0]["decision"]["target"]["name"], "after");
    let quiet = read(&messages.next().await.unwrap());
    assert!(quiet[0]["now"].is_number() && quiet[0].get("lines").is_none(), "a sign of life: {quiet:?}");
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_is_too_slow_loses_its_stream() {
    let (feed, _log) = feed(LONG);
    let mut messages = Box::pin(feed.join().messages());
    for _ in 0..2 {
        messages.next().await.unwrap();
    }
    tokio::time::sleep(BATCH_EVERY * (2 * BATCHES as u32)).await;
    assert_eq!(read(&messages.next().await.unwrap())[0]["end"], "too slow");
    assert!(messages.next().await.is_none());
    drop(messages);
    assert!(!feed.is_running());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_its_time_and_the_newest_viewers_stay() {
    let (feed, _log) = feed(BATCH_EVERY * 8);
    let ends = async |messages: &mut (dyn futures::Stream<Item = bytes::Bytes> + Unpin)| loop {
        let message = read(&messages.next().await.unwrap()).remove(0);
        if let Some(why) = message["end"].as_str() {
            return why.to_owned();
        }
    };
    let mut all: Vec<_> = (0..=VIEWERS).map(|_| Box::pin(feed.join().messages())).collect();
    assert_eq!(
        read(&all[0].next().await.unwrap())[0]["end"],
        "there are too many viewers",
        "and nothing else"
    );
    assert_eq!(ends(&mut all[1]).await, "renew");
}

/// Streams that nobody reads, each of a viewer that has displaced another.
#[tokio::test(start_paused = true)]
async fn the_feed_runs_until_the_last_stream_has_ended_also_of_viewers_that_have_to_go() {
    let (feed, _log) = feed(LONG);
    let mut all: Vec<_> = (0..3 * VIEWERS).map(|_| feed.join()).collect();
    let last = all.remove(0);
    drop(all);
    assert!(feed.is_running(), "one is left, which has to go");
    let last: Vec<_> = last.messages().collect().await;
    assert_eq!(read(&last[0])[0]["end"], "there are too many viewers");
    assert!(!feed.is_running());
}
