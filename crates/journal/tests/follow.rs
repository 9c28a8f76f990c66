//! A journal that follows a decision log.

#![allow(clippy::unwrap_used)] // a test

use std::time::Duration;

use flyball_api::{Key, Timestamp};
use flyball_journal::{Journal, Limits, read};
use flyball_runtime::Clock;
use flyball_runtime::decisions::{Decision, DecisionLog, Outcome, Subject};

const LIMITS: Limits = Limits { size: 64 << 20, age: Duration::from_secs(7 * 86_400) };

fn decision(n: u64) -> Decision {
    let name = format!("web-6d4cf56db6-{n:05}");
    Decision {
        id: 0,
        time: Timestamp::from_microsecond(1_772_366_400_000_000 + i64::try_from(n).unwrap() * 731).unwrap(),
        controller: "replicaset-controller",
        owner: "shop/web-6d4cf56db6".into(),
        action: "create",
        target: Subject::new("Pod", &Key::new("shop", name.as_str())),
        subresource: "".into(),
        why: "the ReplicaSet has fewer pods than it should have".into(),
        outcome: Outcome::Done,
        took_ms: Duration::from_micros(1200),
    }
}

fn clock() -> Clock {
    Clock::virtual_from(Timestamp::from_second(1_772_366_400).unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_the_log_forgets_is_found_in_the_journal_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let log = DecisionLog::default();
    let journal = Journal::follow(&log, folder.path(), LIMITS, clock()).unwrap();
    for n in 0..10_000 {
        log.record(decision(n));
        if n % 500 == 0 {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let names = |log: &DecisionLog, limit| {
        let found = log.all(limit, |decision| decision.target.name.ends_with("00"));
        found.iter().map(|decision| decision.target.name[15..].parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let all: Vec<u64> = (0..10_000).step_by(100).collect();
    assert_eq!(names(&log, 1000), all, "each once, in order, from memory and from disk");
    assert_eq!(names(&log, 3), [9700, 9800, 9900], "the latest");
    assert_eq!(log.forgotten(), 0, "nothing is forgotten");
    log.record(decision(10_000));
    journal.finish().await;
    assert_eq!(read(folder.path()).unwrap().len(), 10_001, "the last one was written at the end");

    let log = DecisionLog::default();
    let clock = Clock::virtual_from(Timestamp::from_second(1_772_370_000).unwrap());
    let journal = Journal::follow(&log, folder.path(), LIMITS, clock).unwrap();
    assert_eq!(names(&log, 1000).len(), 101);
    log.record(decision(10_100));
    assert_eq!(names(&log, 1000).last(), Some(&10_100));
    journal.finish().await;
}

/// Not an assertion about this machine: the numbers are for docs/operations.md (`--release -- --ignored --nocapture`).
#[tokio::test(start_paused = true)]
#[ignore = "measures"]
async fn what_a_decision_costs() {
    const COUNT: u64 = 200_000;
    let folder = tempfile::tempdir().unwrap();
    let log = DecisionLog::default();
    let journal = Journal::follow(&log, folder.path(), LIMITS, clock()).unwrap();
    let begun = std::time::Instant::now();
    for n in 0..COUNT {
        log.record(decision(n));
        if n % 200 == 0 {
            tokio::task::yield_now().await;
        }
    }
    journal.finish().await;
    let took = begun.elapsed();
    let size: u64 =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    // What is more than the writer can take is left out, so only what was written counts.
    let lines = read(folder.path()).unwrap().len();
    let count = lines as f64;
    println!(
        "{:.2} µs and {:.1} bytes a decision ({lines} lines)",
        took.as_secs_f64() * 1e6 / count,
        size as f64 / count
    );
}
