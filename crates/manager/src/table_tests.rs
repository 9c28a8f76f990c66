use std::collections::BTreeSet;

use flyball_runtime::gates;

use super::*;
use crate::KUBE_CONTROLLER_MANAGER;

const UPSTREAM: &str = include_str!("../../../docs/parity/controllers.tsv");

#[test]
fn names_aliases_defaults_gates_and_identities_are_upstreams() {
    let rows: Vec<Vec<&str>> = UPSTREAM.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 52);
    let is_upstreams = |name: &str| rows.iter().any(|row| row[0] == name);
    let names = CONTROLLERS.iter().map(|c| c.name);
    let unknown: Vec<_> = names.filter(|name| !is_upstreams(name) && !OURS.contains(name)).collect();
    assert!(
        unknown.is_empty(),
        "upstream has no {unknown:?}; CONTRIBUTING.md says how to try a controller of our own"
    );
    for row in rows {
        let c = KUBE_CONTROLLER_MANAGER
            .controller(row[0])
            .unwrap_or_else(|| panic!("{} is not in the table", row[0]));
        assert_eq!(c.aliases.join(","), row[1], "{}", c.name);
        assert_eq!(c.on_by_default, row[2] == "yes", "{}", c.name);
        assert!(c.gates.iter().all(|gate| row[3].contains(gate.name())), "{}", c.name);
        assert_eq!(c.gates.is_empty(), row[3] == "none", "{}", c.name);
        assert_eq!(c.start.is_none(), row[4] == "yes", "{}", c.name);
        assert_eq!(c.identity, Some(row[6]).filter(|account| !account.starts_with('(')), "{}", c.name);
    }
}

#[test]
fn names_are_unique_and_every_gate_exists() {
    let mut seen = BTreeSet::new();
    for c in CONTROLLERS {
        for name in c.aliases.iter().chain([&c.name]) {
            assert!(seen.insert(*name), "{name} is taken twice");
        }
        let rules = c.watches.iter().chain(c.reads).chain(c.writes);
        let of_rules = rules.filter_map(|rule| rule.gate.as_ref());
        assert!(c.watches.iter().all(|rule| rule.is_informer()), "{}: a read is not a watch", c.name);
        for gate in of_rules {
            assert!(gates::find(gate).is_some(), "{gate}");
        }
    }
}
