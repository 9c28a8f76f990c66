//! Keeps one controller running: starts it, hears when it panics, and sets it up anew, by itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::alarm::Place;
use crate::context::Context;
use crate::descriptor::{Start, StartError};
use crate::health::Health;
use crate::signal::{Mandate, Signal};
use crate::tasks::{Running, Tasks};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A controller that went this long without a panic is trusted again. More than the longest pause: one that panics
/// as soon as it is set up never is.
const TRUSTED_AFTER: Duration = Duration::from_secs(600);

/// What the supervisor of a controller goes by.
#[derive(Clone)]
pub struct Orders {
    /// Given once this process leads. Until then caches and queues fill, but nothing is done: a standby is warm.
    pub leading: Mandate,
    /// Given when everything shall end.
    pub shutdown: Signal,
    /// How long running syncs may take to finish then, and before a controller is set up anew.
    pub grace: Duration,
    /// Where to tell how the controller is.
    pub health: Health,
}

/// Runs a controller until shutdown.
///
/// A panic in a sync is that key's business. After any other the controller is set up anew: what was sent is waited
/// for, then `start` is called again and its triggers are shown the whole store. The context stays, and with it the
/// barrier: what the last run wrote is still awaited. One that keeps panicking is set up ever less often. Between that, what is left of
/// it goes on, so that an object on which a trigger panics costs the others nothing.
pub async fn supervise(cx: Arc<Context>, start: Start, orders: Orders) {
    let (name, Orders { leading, shutdown, grace, health }) = (cx.name, orders);
    let mut pace = Pace::new();
    loop {
        let began = Instant::now();
        cx.alarm.reset();
        let tasks = match set_up(&cx, start, &health) {
            Ok(tasks) => tasks,
            Err(StartError::NotNeeded(why)) => {
                tracing::info!(controller = name, why, "controller is not started");
                return;
            }
            Err(StartError::Misconfigured(why)) => {
                tracing::error!(controller = name, why, "controller cannot start");
                health.ill(name, why);
                return;
            }
        };
        let renewal = renewal(&cx, &mut pace, began, &health);
        tokio::pin!(renewal);
        let running = tokio::select! {
            running = stand_by(tasks, &leading) => Some(running),
            () = &mut renewal => None,
            () = shutdown.given() => return,
        };
        if let Some(running) = running {
            tracing::info!(controller = name, tasks = running.len(), "controller runs");
            health.well(name);
            tokio::select! {
                () = renewal => {}
                () = shutdown.given() => {}
            }
            running.drain(grace).await;
        }
        if shutdown.is_given() {
            return;
        }
        tracing::warn!(controller = name, "setting the controller up anew");
    }
}

/// Sets a controller up. `None` if it panicked meanwhile: nothing of it is left then.
fn set_up(cx: &Arc<Context>, start: Start, health: &Health) -> Result<Option<Tasks>, StartError> {
    let mut tasks = Tasks::new(cx.clone(), health);
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| {
        cx.tempt(Place::Start, &cx.name);
        start(cx.clone(), &mut tasks)
    }));
    match started {
        Ok(started) => started.map(|()| Some(tasks)),
        Err(panic) => {
            cx.alarm.ring(Place::Start, &cx.name, &*panic);
            Ok(None)
        }
    }
}

/// Waits for leadership and full caches, then starts what was set up.
async fn stand_by(tasks: Option<Tasks>, leading: &Mandate) -> Running {
    let Some(tasks) = tasks else { return std::future::pending().await };
    let since = leading.given().await;
    tasks.start(since).await
}

/// Completes when a run that began at `began` is to give way to another: after a panic, though not too soon.
async fn renewal(cx: &Context, pace: &mut Pace, began: Instant, health: &Health) {
    let place = cx.alarm.rings().await;
    health.panicked(cx.name, place);
    let due = pace.next(began, Instant::now());
    tokio::time::sleep_until(due).await;
}

/// How soon after it was set up a controller may be set up again.
struct Pace {
    pause: Duration,
}

impl Pace {
    fn new() -> Self {
        Self { pause: FIRST_PAUSE }
    }

    /// When to set up again what was set up at `began` and panicked at `panicked`.
    fn next(&mut self, began: Instant, panicked: Instant) -> Instant {
        if panicked.duration_since(began) >= TRUSTED_AFTER {
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

    use super::Pace;

    #[test]
    fn what_keeps_panicking_is_set_up_ever_less_often_until_it_is_trusted_again() {
        let mut pace = Pace::new();
        #[rustfmt::skip]
        let table = [
            // ran for, then how long until it is set up anew
            (1000, 0),
            (0, 2), (0, 4), (1, 7), (0, 16), (20, 12), (100, 0), (0, 128), (0, 256), (0, 300), (299, 1), (599, 0), (0, 300),
            (600, 0),
            (0, 2),
        ];
        for (ran, want) in table {
            let began = Instant::now();
            let panicked = began + Duration::from_secs(ran);
            let due = pace.next(began, panicked);
            assert_eq!(due.duration_since(panicked).as_secs(), want, "after {ran} s");
        }
    }
}
