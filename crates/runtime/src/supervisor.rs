//! Keeps one controller running: starts it, and sets it up again after a panic, without affecting the others.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::context::Context;
use crate::descriptor::{Start, StartError};
use crate::health::Health;
use crate::panics::Place;
use crate::signal::{Leadership, Signal};
use crate::tasks::{Ended, Running, Tasks};

/// The least time between two setups after the first panic; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// After this long without a panic the pause starts at [`FIRST_PAUSE`] again. It is longer than the longest pause, so that
/// a controller that panics as soon as it is set up keeps its long pause.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(600);

/// What all supervisors of a process share.
#[derive(Clone)]
pub struct Supervision {
    /// Until this process leads, caches and queues fill, but no worker runs.
    pub leading: Leadership,
    pub shutdown: Signal,
    /// How long running syncs may take to finish, at shutdown and before a controller is set up again.
    pub grace: Duration,
    pub health: Health,
}

/// Runs a controller until shutdown.
///
/// A panic in a sync affects its key only. After any other panic the controller is set up again: pending requests
/// finish, then `start` is called and the triggers run for every object in the stores. The context and its barrier are
/// kept, so that keys still wait until the cache shows the writes of the previous run. A controller that keeps
/// panicking is set up less and less often. In between, its other tasks keep running, so that an object on which a
/// trigger panics does not affect other objects.
///
/// Returns how its last run has ended.
pub async fn supervise(cx: Arc<Context>, start: Start, supervision: Supervision) -> Ended {
    let (name, Supervision { leading, shutdown, grace, health }) = (cx.name, supervision);
    let (mut backoff, mut ended) = (SetupBackoff::new(), Ended::Orderly);
    let mut pause = start_pause(cx.config.generic.controller_start_interval, name);
    loop {
        let began = Instant::now();
        cx.panics.reset();
        let tasks = match set_up(&cx, start, &health) {
            Ok(tasks) => tasks,
            Err(StartError::NotNeeded(why)) => {
                tracing::info!(controller = name, why, "controller is not started");
                return ended;
            }
            Err(StartError::Misconfigured(why)) => {
                tracing::error!(controller = name, why, "controller cannot start");
                health.unhealthy(name, why);
                return ended;
            }
        };
        let next_setup = next_setup(&cx, &mut backoff, began, &health);
        tokio::pin!(next_setup);
        let running = tokio::select! {
            biased;
            running = start_when_leading(tasks, &leading, pause) => Some(running),
            () = &mut next_setup => None,
            () = shutdown.wait() => return ended,
        };
        if let Some(running) = running {
            tracing::info!(controller = name, tasks = running.len(), "controller started");
            pause = Duration::ZERO;
            health.healthy(name);
            tokio::select! {
                biased;
                () = next_setup => {}
                () = shutdown.wait() => {}
            }
            ended = running.drain(grace).await;
        }
        if shutdown.is_set() {
            return ended;
        }
        // Nothing is too late yet.
        ended = ended.min(Ended::WritesUnknown);
        tracing::warn!(controller = name, "setting up the controller again");
    }
}

/// Sets a controller up. Returns `None` if `start` panicked.
fn set_up(cx: &Arc<Context>, start: Start, health: &Health) -> Result<Option<Tasks>, StartError> {
    let mut tasks = Tasks::new(cx.clone(), health);
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| {
        cx.inject_panic(Place::Start, &cx.name);
        start(cx.clone(), &mut tasks)
    }));
    match started {
        Ok(started) => started.map(|()| Some(tasks)),
        Err(panic) => {
            cx.panics.report(Place::Start, &cx.name, &*panic);
            Ok(None)
        }
    }
}

/// Waits for leadership, then for the pause, then until the caches have synced, and starts the tasks. Never completes if
/// there are none, because `start` panicked.
async fn start_when_leading(tasks: Option<Tasks>, leading: &Leadership, pause: Duration) -> Running {
    let Some(tasks) = tasks else { return std::future::pending().await };
    let since = leading.wait().await;
    tokio::time::sleep(pause).await;
    tasks.start(since).await
}

/// How long after leadership a controller starts: between `--controller-start-interval` and twice as long. The name decides
/// where in between, so that controllers start one after another, and in the same order each time.
///
/// Upstream: cmd/kube-controller-manager/app/controllermanager.go, `RunControllers`, with a random number.
fn start_pause(interval: Duration, name: &str) -> Duration {
    let share = f64::from(flyball_api::hash::fnv32a(name.as_bytes())) / f64::from(u32::MAX);
    interval.saturating_add(interval.mul_f64(share))
}

/// Completes when the controller is to be set up again: after a panic, but not before the pause since `began` is over.
async fn next_setup(cx: &Context, backoff: &mut SetupBackoff, began: Instant, health: &Health) {
    let place = cx.panics.reported().await;
    health.panicked(cx.name, place);
    let due = backoff.next(began, Instant::now());
    tokio::time::sleep_until(due).await;
}

/// The least time between two setups of a controller. It doubles with each panic.
struct SetupBackoff {
    pause: Duration,
}

impl SetupBackoff {
    fn new() -> Self {
        Self { pause: FIRST_PAUSE }
    }

    /// When to set up again what was set up at `began` and panicked at `panicked`.
    fn next(&mut self, began: Instant, panicked: Instant) -> Instant {
        if panicked.duration_since(began) >= BACKOFF_RESET_AFTER {
            self.pause = FIRST_PAUSE;
        }
        let due = panicked.max(began + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{SetupBackoff, start_pause};

    #[test]
    fn controllers_start_between_the_interval_and_twice_the_interval() {
        let minute = Duration::from_secs(60);
        let names = ["job-controller", "replicaset-controller", "daemonset-controller"];
        let pauses = names.map(|name| start_pause(minute, name));
        assert!(pauses.iter().all(|pause| (minute..=2 * minute).contains(pause)), "{pauses:?}");
        assert!(pauses[0] != pauses[1] && pauses[1] != pauses[2], "{pauses:?}");
        assert_eq!(start_pause(Duration::ZERO, names[0]), Duration::ZERO);
    }

    #[test]
    fn a_controller_that_keeps_panicking_is_set_up_less_and_less_often() {
        let mut backoff = SetupBackoff::new();
        #[rustfmt::skip]
        let table = [
            // seconds from setup to panic, seconds from panic to the next setup
            (1000, 0),
            (0, 2), (0, 4), (1, 7), (0, 16), (20, 12), (100, 0), (0, 128), (0, 256), (0, 300), (299, 1), (599, 0), (0, 300),
            (600, 0),
            (0, 2),
        ];
        for (ran, want) in table {
            let began = Instant::now();
            let panicked = began + Duration::from_secs(ran);
            let due = backoff.next(began, panicked);
            assert_eq!(due.duration_since(panicked).as_secs(), want, "after {ran} s");
        }
    }
}
