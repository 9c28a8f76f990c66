//! Simulated nodes on the machines of a simulated cloud: a machine that appears in its file starts and registers its Node, one that
//! stops or vanishes is off. What becomes of the Node then is up to the controllers of the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_api::node::Node;
use flyball_client::{Error, ListParams};
use flyball_cloud::simulated::{Machine, MachineState, Simulated};
use flyball_runtime::Signal;
use smol_str::SmolStr;

use super::node;
use super::power::{Power, SwitchError, switch};
use super::sync::enter;
use crate::writer::Writer;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// What a machine was when it was last looked at: whether it ran.
type Known = BTreeMap<SmolStr, bool>;

/// What has happened to a machine since it was last looked at.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It runs: its kubelet registers it, if it has no Node, and sends heartbeats.
    Starts(SmolStr),
    /// It is off or gone: there is no kubelet.
    Ends(SmolStr),
}

fn steps(known: &Known, machines: &[Machine]) -> (Vec<Step>, Known) {
    let now: Known = machines
        .iter()
        .map(|machine| (machine.name.clone(), machine.state == MachineState::Running))
        .collect();
    let gone = known.keys().filter(|name| !now.contains_key(*name)).cloned().map(Step::Ends);
    let changed = now.iter().filter(|(name, runs)| known.get(*name) != Some(runs));
    let changed =
        changed.map(|(name, runs)| if *runs { Step::Starts(name.clone()) } else { Step::Ends(name.clone()) });
    (gone.chain(changed).collect(), now)
}

/// The machines of a simulated cloud, and their nodes.
pub struct Machines {
    writer: Writer,
    cloud: Simulated,
    known: Known,
}

impl Machines {
    /// Registers the nodes of all machines that run.
    pub async fn start(writer: Writer, cloud: Simulated) -> Result<Self, Error> {
        let mut machines = Self { writer, cloud, known: Known::new() };
        machines.follow_once().await?;
        Ok(machines)
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.known.values().filter(|runs| **runs).count()
    }

    /// Follows the file until `stop`.
    pub async fn run(mut self, stop: Signal) {
        let mut turn = tokio::time::interval(PERIOD);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return,
                _ = turn.tick() => {}
            }
            if let Err(error) = self.follow_once().await {
                tracing::error!(%error, "simulated machines do not follow their file; trying again");
            }
        }
    }

    async fn follow_once(&mut self) -> Result<(), Error> {
        let machines = self.cloud.config().machines.unwrap_or_default();
        let (steps, now) = steps(&self.known, &machines);
        for step in &steps {
            match step {
                Step::Starts(name) => {
                    if let Some(machine) = machines.iter().find(|machine| machine.name == *name) {
                        self.register(machine).await?;
                        self.switch(name, Power::On).await?;
                    }
                }
                Step::Ends(name) => self.switch(name, Power::Off).await?,
            }
        }
        self.known = now;
        Ok(())
    }

    async fn register(&self, machine: &Machine) -> Result<(), Error> {
        let nodes = self.writer.client().list::<Node>(None, &ListParams::default()).await?;
        if nodes.items.iter().any(|node| node.metadata.name == machine.name) {
            return Ok(());
        }
        let ranges: BTreeSet<SmolStr> =
            nodes.items.iter().flat_map(|node| node.spec.pod_cidrs.iter().cloned()).collect();
        let free = (1..u16::MAX).find(|n| !ranges.contains(node::range(*n).as_str())).unwrap_or(u16::MAX);
        enter(&self.writer, &node::manifest_of_machine(machine, free)).await
    }

    async fn switch(&self, name: &str, power: Power) -> Result<(), Error> {
        match switch(self.writer.client(), name, power).await {
            Err(SwitchError::Request { source, .. }) if !source.is_not_found() => Err(source),
            // A machine that is off has no Node yet, or none any more.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_start_and_end_as_the_file_changes() {
        #[rustfmt::skip]
        let table = [
            // case                 before        now           steps
            ("all are new",         "",           "a !b",       "+a -b"),
            ("nothing changes",     "a !b",       "a !b",       ""),
            ("one stops",           "a b",        "a !b",       "-b"),
            ("one starts",          "a !b",       "a b",        "+b"),
            ("one vanishes",        "a b",        "a",          "-b"),
            ("one appears",         "a",          "a b",        "+b"),
        ];
        let machines = |text: &str| -> Vec<Machine> {
            let machine = |word: &str| Machine {
                name: word.trim_start_matches('!').into(),
                state: if word.starts_with('!') { MachineState::Stopped } else { MachineState::Running },
                ..Machine::default()
            };
            text.split_whitespace().map(machine).collect()
        };
        for (case, before, now, want) in table {
            let (_, known) = steps(&Known::new(), &machines(before));
            let (steps, _) = steps(&known, &machines(now));
            let shown: Vec<String> = steps
                .iter()
                .map(|step| match step {
                    Step::Starts(name) => format!("+{name}"),
                    Step::Ends(name) => format!("-{name}"),
                })
                .collect();
            assert_eq!(shown.join(" "), want, "{case}");
        }
    }
}
