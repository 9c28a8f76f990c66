//! The schedule of faults, from a seed.

use std::time::Duration;

use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The controller manager is killed and started again. Of two, the leader is, and the standby takes over.
    KillManager,
    /// The leader is stopped (SIGSTOP) for longer than its lease, and continues while the standby leads.
    FreezeLeader,
    /// The API server is stopped (SIGTERM), and started again.
    RestartApiServer,
    /// The API server is killed, and started again.
    KillApiServer,
    /// etcd is killed and started again, on the same data.
    KillEtcd,
}

/// How often each fault happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frequencies {
    pub(super) length: Duration,
    pub(super) kills: usize,
    pub(super) freezes: usize,
    pub(super) apiserver_restarts: usize,
    pub(super) etcd_restarts: usize,
}

/// The faults of a run by time since its start.
pub(super) fn schedule(frequencies: Frequencies, seed: u64) -> Vec<(Duration, Fault)> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut faults = Vec::new();
    let mut spread = |count: usize, fault: &dyn Fn(usize) -> Fault| {
        for n in 0..count {
            // One at a random time in each of `count` equal slots: not periodic, and no long pauses.
            let at = (n as f64 + random.random::<f64>()) / count as f64;
            faults.push((frequencies.length.mul_f64(at), fault(n)));
        }
    };
    spread(frequencies.kills, &|_| Fault::KillManager);
    spread(frequencies.apiserver_restarts, &|n| match n % 2 {
        0 => Fault::KillApiServer,
        _ => Fault::RestartApiServer,
    });
    spread(frequencies.etcd_restarts, &|_| Fault::KillEtcd);
    spread(frequencies.freezes, &|_| Fault::FreezeLeader);
    faults.sort_by_key(|(at, _)| *at);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREQUENCIES: Frequencies = Frequencies {
        length: Duration::from_secs(600),
        kills: 200,
        freezes: 3,
        apiserver_restarts: 10,
        etcd_restarts: 1,
    };

    #[test]
    fn everything_happens_as_often_as_planned_and_within_the_run() {
        let faults = schedule(FREQUENCIES, 7);
        let count = |wanted: &[Fault]| faults.iter().filter(|(_, t)| wanted.contains(t)).count();
        assert_eq!(count(&[Fault::KillManager]), 200);
        assert_eq!(count(&[Fault::KillApiServer]), 5);
        assert_eq!(count(&[Fault::RestartApiServer]), 5);
        assert_eq!(count(&[Fault::KillEtcd]), 1);
        assert_eq!(count(&[Fault::FreezeLeader]), 3);
        assert!(faults.is_sorted_by_key(|(at, _)| *at));
        assert!(faults.iter().all(|(at, _)| *at <= FREQUENCIES.length));
    }

    #[test]
    fn a_seed_decides_the_schedule() {
        assert_eq!(schedule(FREQUENCIES, 7), schedule(FREQUENCIES, 7));
        assert_ne!(schedule(FREQUENCIES, 7), schedule(FREQUENCIES, 8));
    }
}
