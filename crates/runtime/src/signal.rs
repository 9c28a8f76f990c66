//! A word that is given once and heard by many: the end, or the beginning of leadership.

use tokio::sync::watch;
use tokio::time::Instant;

/// Hears the word. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Signal(watch::Receiver<bool>);

#[derive(Debug, Clone)]
pub struct Giver(watch::Sender<bool>);

impl Signal {
    /// A word not yet given, and who can give it.
    pub fn new() -> (Giver, Self) {
        let (sender, receiver) = watch::channel(false);
        (Giver(sender), Self(receiver))
    }

    /// A word that has been given already.
    pub fn already() -> Self {
        let (giver, signal) = Self::new();
        giver.give();
        signal
    }

    /// Waits for the word. If nobody is left who could give it, it counts as given.
    pub fn given(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.clone();
        async move {
            let _ = receiver.wait_for(|given| *given).await;
        }
    }

    /// Whether the word has been given.
    pub fn is_given(&self) -> bool {
        *self.0.borrow()
    }
}

impl Giver {
    pub fn give(&self) {
        self.0.send_replace(true);
    }
}

/// Whether this process leads, and how fresh its caches must be before it acts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mandate(watch::Receiver<Option<Since>>);

/// Gives a [`Mandate`].
#[derive(Debug)]
pub struct Mandator(watch::Sender<Option<Since>>);

/// A moment since which no former leader can have written; none if there never was one.
pub type Since = Option<Instant>;

impl Mandate {
    /// A mandate not yet given, and who can give it.
    pub fn new() -> (Mandator, Self) {
        let (sender, receiver) = watch::channel(None);
        (Mandator(sender), Self(receiver))
    }

    /// That of a process which stands for no election: it acts as soon as its caches are filled.
    pub fn always() -> Self {
        let (mandator, mandate) = Self::new();
        mandator.0.send_replace(Some(None));
        mandate
    }

    /// Waits for it. If nobody is left who could give it, there is nothing to wait for.
    pub fn given(&self) -> impl Future<Output = Since> + Send + 'static {
        let mut receiver = self.0.clone();
        async move {
            match receiver.wait_for(Option::is_some).await {
                Ok(given) => given.flatten(),
                Err(_) => None,
            }
        }
    }
}

impl Mandator {
    /// This process leads; no former leader has written since `since`.
    pub fn give(&self, since: Instant) {
        self.0.send_replace(Some(Some(since)));
    }
}
