//! A word that is given once and heard by many: the end, or the beginning of leadership.

use tokio::sync::watch;

/// Hears the word. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Signal(watch::Receiver<bool>);

/// Gives the word.
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
    /// Gives the word.
    pub fn give(&self) {
        self.0.send_replace(true);
    }
}
