//! Signals that are set once and awaited by many: shutdown, and the beginning of leadership.

use flyball_latest as latest;
use tokio::time::Instant;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Signal(latest::Receiver<bool>);

#[derive(Debug, Clone)]
pub struct SignalSender(latest::Sender<bool>);

impl Signal {
    pub fn new() -> (SignalSender, Self) {
        let (sender, receiver) = latest::channel(false);
        (SignalSender(sender), Self(receiver))
    }

    /// Completes when the signal is set, or all senders are dropped.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.clone();
        async move {
            let _ = receiver.wait_for(|is_set| *is_set).await;
        }
    }

    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}

impl SignalSender {
    pub fn set(&self) {
        self.0.send_replace(true);
    }
}

/// Whether this process leads, and how current its caches must be before it acts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Leadership(latest::Receiver<Option<Since>>);

#[derive(Debug)]
pub struct LeadershipSender(latest::Sender<Option<Since>>);

/// A time since which no former leader can have written; `None` if there is no leader election.
pub type Since = Option<Instant>;

impl Leadership {
    pub fn new() -> (LeadershipSender, Self) {
        let (sender, receiver) = latest::channel(None);
        (LeadershipSender(sender), Self(receiver))
    }

    /// For a process without leader election: it acts as soon as its caches are filled.
    pub fn always() -> Self {
        let (sender, leadership) = Self::new();
        sender.0.send_replace(Some(None));
        leadership
    }

    /// Completes when this process leads, or the sender is dropped.
    pub fn wait(&self) -> impl Future<Output = Since> + Send + 'static {
        let mut receiver = self.0.clone();
        async move { receiver.wait_for(Option::is_some).await.ok().flatten().flatten() }
    }
}

impl LeadershipSender {
    /// This process leads; no former leader has written since `since`.
    pub fn set(&self, since: impl Into<Since>) {
        self.0.send_replace(Some(since.into()));
    }
}
