use flyball_api::{Key, ResourceType};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::client::{Client, ClientOptions};
use crate::error::Error;
use crate::fake::{fake, ok};

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);

fn fence() -> Fence {
    Fence::new(FenceClock::Tokio(Instant::now()))
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_open_until_a_time() {
    let fence = fence();
    assert_eq!(fence.check(), Ok(()), "who was never elected is not stopped");
    fence.hold_until(fence.now() + Duration::from_secs(10));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(fence.check(), Ok(()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((fence.check(), fence.refused()), (Err(Fenced), 1));
    fence.breached().await;
    fence.hold_until(fence.now() + Duration::MAX);
    assert!(fence.is_open(), "a time beyond the clock's range never comes");
    fence.close();
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_fence_expires_without_a_write_unless_it_is_extended() {
    let (fence, start) = (fence(), Instant::now());
    assert_eq!(fence.left(), None);
    fence.hold_until(fence.now() + Duration::from_secs(10));
    let extended = fence.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(4)).await;
        extended.hold_until(extended.now() + Duration::from_secs(10));
    });
    fence.expired().await;
    assert_eq!((start.elapsed().as_secs(), fence.left(), fence.refused()), (14, Some(Duration::ZERO), 0));
}

#[test]
fn the_clock_of_a_running_machine_moves() {
    let fence = Fence::new(FenceClock::Boot);
    let first = fence.now();
    assert!(first > FenceTime(0));
    while fence.now() == first {}
    fence.hold_until(fence.now() + Duration::from_secs(3600));
    assert!(fence.is_open());
    fence.hold_until(first);
    assert!(!fence.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_write_is_checked_after_it_waited_for_the_rate_limit() {
    let fence = fence();
    fence.hold_until(fence.now() + Duration::from_secs(5));
    let (transport, log) = fake(|_, _| ok(r#"{"metadata":{"name":"a"}}"#));
    // One request now, the next after ten seconds.
    let options =
        ClientOptions { qps: 0.1, burst: 1, fence: Some(fence.clone()), ..ClientOptions::default() };
    let client = Client::new(transport, options);
    let body = json!({"metadata": {"name": "a"}});
    client.create_dynamic(&PODS, "n", &body).await.unwrap();
    let refused = client.create_dynamic(&PODS, "n", &body).await.unwrap_err();
    assert!(matches!(&refused, Error::Fenced { what, .. } if what.contains("pods")), "{refused}");
    assert!(!refused.outcome_unknown(), "it was not sent");
    assert_eq!((log.len(), fence.refused()), (1, 1));
    client.get_dynamic(&PODS, &Key::new("n", "a")).await.unwrap();
    assert_eq!(log.len(), 2, "reads pass");
}

#[tokio::test(start_paused = true)]
async fn a_repetition_of_a_write_is_checked_again() {
    let fence = fence();
    fence.hold_until(fence.now() + Duration::from_secs(5));
    let (transport, log) = fake(|_, _| crate::fake::Act::RetryAfter(429, 6));
    let client = Client::new(transport, ClientOptions { fence: Some(fence), ..ClientOptions::default() });
    let refused = client.create_dynamic(&PODS, "n", &json!({"metadata": {"name": "a"}})).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })));
    assert_eq!(log.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn buffered_data_is_not_sent_after_one_of_the_fences_has_closed() {
    for closed in 0..2 {
        let fences = vec![fence(), fence()];
        buffered_data_is_not_sent_after(&fences[closed], fences.clone()).await;
    }
}

async fn buffered_data_is_not_sent_after(fence: &Fence, fences: Vec<Fence>) {
    let (near, far) = tokio::io::duplex(64);
    let mut near = FencedIo::new(near, fences);
    near.write_all(b"in time").await.unwrap();
    fence.close();
    let refused = near.write_all(b"too late").await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    drop(near);
    let mut far = far;
    let mut heard = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut far, &mut heard).await.unwrap();
    assert_eq!(heard, "in time");
}
