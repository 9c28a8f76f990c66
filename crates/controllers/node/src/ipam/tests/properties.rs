use flyball_api::Node;
use ipnet::IpNet;
use proptest::prelude::*;

use super::{flags, node};
use crate::ipam::invariants::check;
use crate::ipam::pool::{Allocation, Pool};
use crate::ipam::settings::Settings;

/// What may happen to a cluster and to the controller.
#[derive(Debug, Clone)]
enum Step {
    /// A node is created, perhaps with podCIDRs that a user chose.
    Join {
        node: usize,
        block: Option<u64>,
    },
    Leave {
        node: usize,
    },
    /// Blocks are assigned to a node; the write may be lost.
    Assign {
        node: usize,
        arrives: bool,
    },
    /// The cache catches up with the server.
    Watch,
    TakeOver,
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..10_usize;
    prop_oneof![
        3 => (node(), prop::option::weighted(0.2, 0..8_u64)).prop_map(|(node, block)| Step::Join { node, block }),
        2 => node().prop_map(|node| Step::Leave { node }),
        6 => (node(), any::<bool>()).prop_map(|(node, arrives)| Step::Assign { node, arrives }),
        3 => Just(Step::Watch),
        1 => Just(Step::TakeOver),
    ]
}

/// A server, a cache that may be stale, and the pool.
struct World {
    settings: Settings,
    server: Vec<Node>,
    cache: Vec<Node>,
    pool: Pool,
    born: usize,
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut pool = Pool::new(&settings);
        pool.open().unwrap();
        Self { settings, server: vec![], cache: vec![], pool, born: 0 }
    }

    fn find<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
        nodes.iter().find(|node| node.metadata.name == name)
    }

    fn watch(&mut self) {
        for old in &self.cache {
            self.pool.update(Some(old), Self::find(&self.server, &old.metadata.name));
        }
        for new in self.server.iter().filter(|new| Self::find(&self.cache, &new.metadata.name).is_none()) {
            self.pool.update(None, Some(new));
        }
        self.cache = self.server.clone();
    }

    fn perform(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Join { node: n, block } => {
                let name = format!("n{n}");
                if Self::find(&self.server, &name).is_none() {
                    // A user's choice may collide with what was just assigned: that is not our fault.
                    let free = |range: &IpNet| {
                        !self
                            .server
                            .iter()
                            .any(|other| other.spec.pod_cidrs.iter().any(|held| *held == range.to_string()))
                    };
                    let ranges: Option<Vec<String>> = block.map(|block| {
                        self.settings
                            .clusters
                            .iter()
                            .map(|blocks| blocks.network(block))
                            .filter(free)
                            .map(|range| range.to_string())
                            .collect()
                    });
                    let ranges = ranges.filter(|ranges| ranges.len() == self.settings.clusters.len());
                    let mut joined = node(&name, &ranges.unwrap_or_default().join(","));
                    self.born += 1;
                    joined.metadata.uid =
                        serde_json::from_value(format!("uid-{}", self.born).into()).unwrap();
                    let chosen = !joined.spec.pod_cidrs.is_empty();
                    self.server.push(joined);
                    if chosen {
                        self.watch();
                    }
                }
            }
            Step::Leave { node } => self.server.retain(|known| known.metadata.name != format!("n{node}")),
            Step::Assign { node, arrives } => {
                let seen = Self::find(&self.cache, &format!("n{node}"))
                    .filter(|node| node.spec.pod_cidrs.is_empty());
                let Some(seen) = seen.cloned() else { return Ok(()) };
                let Allocation::Reserved(given) = self.pool.allocate(&seen) else { return Ok(()) };
                check(&self.settings, &self.server, &seen, &given)?;
                let target = self.server.iter_mut().find(|known| known.metadata.uid == seen.metadata.uid);
                if let Some(target) = target.filter(|known| *arrives && known.spec.pod_cidrs.is_empty()) {
                    target.spec.pod_cidrs = given.iter().map(|range| range.to_string().into()).collect();
                }
            }
            Step::Watch => self.watch(),
            Step::TakeOver => {
                // The new process may have a stale cache, which catches up before it allocates.
                self.pool = Pool::new(&self.settings);
                for known in &self.cache {
                    self.pool.update(None, Some(known));
                }
                self.watch();
                self.pool.open().map_err(|invalid| format!("{invalid:?}"))?;
            }
        }
        Ok(())
    }

    /// No two nodes have the same address.
    fn check(&self) -> Result<(), String> {
        self.server.iter().try_for_each(|node| {
            let ranges: Vec<IpNet> = node.spec.pod_cidrs.iter().map(|text| text.parse().unwrap()).collect();
            if ranges.is_empty() { Ok(()) } else { check(&self.settings, &self.server, node, &ranges) }
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_address_is_ever_given_to_two_nodes(
        steps in prop::collection::vec(step(), 1..60),
        cluster in prop::sample::select(vec!["10.0.0.0/21", "fd00::/61", "10.0.0.0/21,fd00::/61"]),
        services in prop::sample::select(vec!["", "10.96.0.0/12"]),
    ) {
        let mut world = World::new(flags(cluster, services, (0, 0, 0)).unwrap());
        for step in &steps {
            world.perform(step).and_then(|()| world.check()).map_err(TestCaseError::fail)?;
        }
        // When all nodes are gone, all blocks are free again.
        world.server.clear();
        world.watch();
        prop_assert!(world.pool.clusters().iter().all(|blocks| blocks.used() == 0));
    }
}
