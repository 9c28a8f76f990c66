//! Keeps one controller running: starts it, notices when it panics, and starts it again, by itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::context::Context;
use crate::descriptor::{Start, StartError};
use crate::health::Health;
use crate::quarantine::{Quarantine, panic_text};
use crate::signal::Signal;
use crate::tasks::{Running, Tasks};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A controller that ran this long without a panic is trusted again.
const TRUSTED_AFTER: Duration = Duration::from_secs(300);
/// How long after a restart `/healthz` goes on telling of it: longer than a probe's period, so that it is seen.
const TOLD_FOR: Duration = Duration::from_secs(15);

/// How a run of a controller ended.
enum Ended {
    ShutDown,
    Panicked,
}

/// What the supervisor of a controller goes by.
#[derive(Clone)]
pub struct Orders {
    /// Given once this process leads. Until then caches and queues fill, but nothing is done: a standby is warm.
    pub leading: Signal,
    /// Given when everything shall end.
    pub shutdown: Signal,
    /// How long running syncs may take to finish then.
    pub grace: Duration,
    /// Where to tell how the controller is.
    pub health: Health,
}

/// Runs the controller `name` until shutdown. A panic in it is caught and counted, it restarts after a pause
/// that grows, and nobody else notices.
pub async fn supervise(name: &'static str, start: Start, context: impl Fn() -> Arc<Context>, orders: Orders) {
    let Orders { leading, shutdown, grace, health } = orders;
    let quarantine = Quarantine::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let cx = context();
        let began = Instant::now();
        let mut tasks = Tasks::new(cx.clone(), quarantine.clone(), health.complaint(name));
        match std::panic::catch_unwind(AssertUnwindSafe(|| start(cx.clone(), &mut tasks))) {
            Ok(Ok(())) => {}
            Ok(Err(StartError::NotNeeded(why))) => {
                tracing::info!(controller = name, why, "controller is not started");
                return;
            }
            Ok(Err(StartError::Misconfigured(why))) => {
                tracing::error!(controller = name, why, "controller cannot start");
                health.ill(name, why);
                return;
            }
            Err(panic) => {
                tracing::error!(
                    controller = name,
                    panic = panic_text(&*panic),
                    "a controller panicked at its start"
                );
            }
        }
        let ended = tokio::select! {
            running = leading.given().then(|()| tasks.start()) => run(name, running, &health, &shutdown, grace).await,
            () = shutdown.given() => Ended::ShutDown,
        };
        if let Ended::ShutDown = ended {
            return;
        }
        if began.elapsed() >= TRUSTED_AFTER {
            pause = FIRST_PAUSE;
        }
        cx.metrics.controller_panicked(name);
        health.ill(name, "it panicked and is being restarted");
        tracing::warn!(controller = name, ?pause, "restarting the controller");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.given() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn run(
    name: &'static str,
    mut running: Running,
    health: &Health,
    shutdown: &Signal,
    grace: Duration,
) -> Ended {
    let recently_ill = health.checks().iter().any(|(check, state)| *check == name && state.is_err());
    let told = tokio::time::sleep(if recently_ill { TOLD_FOR } else { Duration::ZERO });
    tokio::pin!(told);
    let mut telling = true;
    tracing::info!(controller = name, tasks = running.set.len(), "controller runs");
    loop {
        tokio::select! {
            () = &mut told, if telling => {
                telling = false;
                health.well(name);
            }
            () = shutdown.given() => {
                running.close();
                let finish = async { while running.set.join_next().await.is_some() {} };
                let _ = tokio::time::timeout(grace, finish).await;
                return Ended::ShutDown;
            }
            ended = running.set.join_next(), if !running.set.is_empty() => {
                if ended.is_some_and(|ended| ended.is_err()) {
                    return Ended::Panicked;
                }
            }
        }
    }
}
