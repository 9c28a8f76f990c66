//! Keeps one controller running: starts it, notices when it panics, and starts it again, by itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::Context;
use crate::descriptor::{Start, StartError};
use crate::health::Health;
use crate::quarantine::{Quarantine, panic_text};
use crate::tasks::{Running, Tasks};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A controller that ran this long without a panic is trusted again.
const TRUSTED_AFTER: Duration = Duration::from_secs(300);
/// How long after a restart `/healthz` goes on telling of it: longer than a probe's period, so that it is seen.
const TOLD_FOR: Duration = Duration::from_secs(15);

/// The word that everything shall end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Gives that word.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<bool>);

impl Shutdown {
    /// The word and the hand that gives it.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// Waits for the word. A handle that was dropped counts as given.
    pub async fn wait(&mut self) {
        let _ = self.0.wait_for(|given| *given).await;
    }
}

impl ShutdownHandle {
    /// Gives the word.
    pub fn shut_down(&self) {
        self.0.send_replace(true);
    }
}

/// How a run of a controller ended.
enum Ended {
    ShutDown,
    Panicked,
}

/// Runs the controller `name` until shutdown. A panic in it is caught and counted, it restarts after a pause
/// that grows, and nobody else notices. `grace` is how long running syncs may take to finish at the end.
pub async fn supervise(
    name: &'static str,
    start: Start,
    context: impl Fn() -> Arc<Context>,
    health: Health,
    mut shutdown: Shutdown,
    grace: Duration,
) {
    let quarantine = Quarantine::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let cx = context();
        let began = Instant::now();
        let mut tasks = Tasks::new(cx.clone(), quarantine.clone());
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
            running = tasks.start() => run(name, running, &health, &mut shutdown, grace).await,
            () = shutdown.wait() => Ended::ShutDown,
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
            () = shutdown.wait() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn run(
    name: &'static str,
    mut running: Running,
    health: &Health,
    shutdown: &mut Shutdown,
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
            () = shutdown.wait() => {
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
