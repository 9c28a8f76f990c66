//! The writer of the scheduler, the nodes and the disks: one identity, and an entry in the decision log for each write.

use std::sync::Arc;

use flyball_api::{Key, Resource, Timestamp};
use flyball_client::{Client, Error};
use flyball_runtime::Clock;
use flyball_runtime::decisions::{Decision, DecisionLog, Outcome, Subject};
use flyball_runtime::events::Recorder;
use smol_str::{SmolStr, format_smolstr};

#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    client: Client,
    events: Recorder,
    decisions: DecisionLog,
    clock: Clock,
}

/// One write and its reason.
pub(crate) struct Write<'a> {
    pub(crate) action: &'static str,
    pub(crate) key: &'a Key,
    pub(crate) subresource: &'static str,
    pub(crate) why: String,
}

impl Writer {
    /// `name` is the component in the decision log.
    pub fn new(
        name: &'static str,
        client: Client,
        events: Recorder,
        decisions: DecisionLog,
        clock: Clock,
    ) -> Self {
        Self { inner: Arc::new(Inner { name, client, events, decisions, clock }) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    pub(crate) fn events(&self) -> &Recorder {
        &self.inner.events
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Sends a write to an object of type `T` and records its outcome.
    pub(crate) async fn write<T: Resource, O>(
        &self,
        write: Write<'_>,
        request: impl Future<Output = Result<O, Error>>,
    ) -> Result<O, Error> {
        let time = self.now();
        let begun = tokio::time::Instant::now();
        let answer = request.await;
        let Write { action, key, subresource, why } = write;
        let outcome = match &answer {
            Ok(_) => Outcome::Done,
            Err(error @ Error::Status(_)) => Outcome::Refused(error.to_string()),
            Err(error) if error.outcome_unknown() => Outcome::Unknown(error.to_string()),
            Err(error) => Outcome::NotSent(error.to_string()),
        };
        self.inner.decisions.record(Decision {
            id: 0,
            time,
            controller: self.inner.name,
            owner: format_smolstr!("{key}"),
            action,
            target: Subject::new(T::TYPE.kind, key),
            subresource: SmolStr::new_static(subresource),
            why: why.into(),
            outcome,
            took_ms: begun.elapsed(),
        });
        answer
    }
}
