//! Runs controllers against one API server. The binaries, the playground and the simulator share it.

use std::sync::Arc;

use flyball_client::{Client, ClientOptions, Fence, Identities};
use flyball_runtime::config::ClientConnection;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Context, Ended, Guard, Shared, Supervision, supervise};
use tokio::task::JoinSet;

use crate::table::{Controller, Pace};

#[derive(Clone)]
pub struct Engine {
    shared: Shared,
    identities: Identities,
    fence: Option<Fence>,
}

impl Engine {
    /// To be called on the runtime that runs the controllers.
    pub fn new(shared: Shared, identities: Identities) -> Self {
        let shared = guarded(shared, &identities);
        Self { shared, identities, fence: None }
    }

    /// The same for controllers under another lease, with the identities whose connections its fence closes.
    pub fn under(self, fence: Fence, identities: Identities) -> Self {
        Self { fence: Some(fence), identities, ..self }
    }

    /// Runs these controllers, each with its own supervisor, until shutdown. Returns how they have ended.
    pub async fn run(
        &self,
        controllers: impl IntoIterator<Item = &'static Controller>,
        supervision: &Supervision,
    ) -> Ended {
        let mut set = JoinSet::new();
        for controller in controllers {
            let Some(start) = controller.start else { continue };
            set.spawn(supervise(self.context(controller), start, supervision.clone()));
        }
        let mut all = Ended::Orderly;
        while let Some(ended) = set.join_next().await {
            all = all.max(ended.unwrap_or(Ended::Cancelled));
        }
        all
    }

    fn context(&self, controller: &'static Controller) -> Arc<Context> {
        let identity = controller.identity.unwrap_or(self.shared.component);
        let client = match controller.identity {
            Some(account) => self.identities.client_for(account, account),
            None => self.identities.main().clone(),
        };
        let client = fenced(self.paced(client, controller.pace), self.fence.as_ref());
        // Events have their own rate limit, so that many events do not slow down the controller.
        let teller = fenced(self.identities.client_for(identity, identity), self.fence.as_ref());
        let (events, write) = Recorder::new(controller.name, self.shared.clock, teller);
        tokio::spawn(write);
        Arc::new(Context::new(controller.name, &self.shared, client, self.identities.main().clone(), events))
    }

    /// A client with the common rate limit times `pace`.
    fn paced(&self, client: Client, pace: Pace) -> Client {
        let (options, flags) = (client.options(), &self.shared.config.generic.client_connection);
        let pace = effective(pace, flags);
        let (qps, burst) = (options.qps * pace.qps, options.burst.saturating_mul(pace.burst));
        if (qps, burst) == (options.qps, options.burst) {
            return client;
        }
        client.with_options(ClientOptions { qps, burst, ..options.clone() })
    }
}

/// Adds the budget for deletions, if there is one.
fn guarded(shared: Shared, identities: &Identities) -> Shared {
    let Some(limit) =
        usize::try_from(shared.config.flyball.deletions_per_minute).ok().filter(|limit| *limit > 0)
    else {
        return shared;
    };
    // Under the manager's own identity: not every controller may record events.
    let (events, write) = Recorder::new(shared.component, shared.clock, identities.main().clone());
    tokio::spawn(write);
    let guard = Guard::new(limit, shared.clock, shared.metrics.clone(), events);
    guard.follow(&shared.informers);
    Shared { extensions: shared.extensions.clone().with(guard), ..shared }
}

/// Upstream: cmd/kube-controller-manager/app/core.go multiplies the flags. A flag of zero stands for a default that is set
/// later, without a factor.
fn effective(pace: Pace, flags: &ClientConnection) -> Pace {
    Pace {
        qps: if flags.qps == 0.0 { 1.0 } else { pace.qps },
        burst: if flags.burst == 0 { 1 } else { pace.burst },
    }
}

/// The same client with another fence, if there is one.
fn fenced(client: Client, fence: Option<&Fence>) -> Client {
    match fence {
        Some(fence) => {
            client.with_options(ClientOptions { fence: Some(fence.clone()), ..client.options().clone() })
        }
        None => client,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_times_a_flag_of_zero_is_still_zero() {
        #[rustfmt::skip]
        let table = [
            // --kube-api-qps, --kube-api-burst, factors of the namespace controller
            (20.0, 30, (20.0, 100)),
            (-1.0, 30, (20.0, 100)),
            (0.0,  30, (1.0,  100)),
            (0.0,  0,  (1.0,  1)),
        ];
        for (qps, burst, want) in table {
            let flags = ClientConnection { qps, burst, ..ClientConnection::default() };
            let pace = effective(Pace { qps: 20.0, burst: 100 }, &flags);
            assert_eq!((pace.qps, pace.burst), want, "--kube-api-qps={qps} --kube-api-burst={burst}");
        }
    }
}
