use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::zone::{Policy, Tally, ZoneState, assess, is_counted, zone_of};
use super::node;

const POLICY: Policy = Policy { rate: 0.1, reduced_rate: 0.01, large: 50, threshold: 0.55 };

#[test]
fn deprecated_labels_take_precedence() {
    #[rustfmt::skip]
    let table = [
        // labels                                                                                                 zone
        ("",                                                                                                      ""),
        ("topology.kubernetes.io/zone:=z",                                                                        ":\0:z"),
        ("topology.kubernetes.io/region:=r",                                                                      "r:\0:"),
        ("topology.kubernetes.io/region:=r topology.kubernetes.io/zone:=z",                                       "r:\0:z"),
        ("topology.kubernetes.io/zone:=z failure-domain.beta.kubernetes.io/zone:=old",                            ":\0:old"),
        ("topology.kubernetes.io/region:=r failure-domain.beta.kubernetes.io/zone:=old",                          "r:\0:old"),
        ("failure-domain.beta.kubernetes.io/region:=old topology.kubernetes.io/region:=r topology.kubernetes.io/zone:=z", "old:\0:z"),
    ];
    for (labels, want) in table {
        assert_eq!(zone_of(&node(labels)), want, "{labels}");
    }
    assert!(is_counted(&node("")) && !is_counted(&node("node.kubernetes.io/exclude-disruption:=")));
}

#[test]
fn the_state_of_a_zone_follows_from_the_share_of_nodes_that_are_not_ready() {
    use ZoneState::{FullDisruption, Normal, PartialDisruption};
    #[rustfmt::skip]
    let table = [
        // ready  unready  state               rate
        (     0,       0,  Normal,             0.1),
        (     1,       0,  Normal,             0.1),
        (     0,       1,  FullDisruption,     0.1),
        (     0,      60,  FullDisruption,     0.1),
        (     1,       2,  Normal,             0.1), // few
        (     2,       3,  PartialDisruption,  0.0), // small
        (     3,       3,  Normal,             0.1), // under 55 %
        (     9,      11,  PartialDisruption,  0.0), // 55 %
        (    20,      30,  PartialDisruption,  0.0), // 50 nodes are not many
        (    20,      31,  PartialDisruption,  0.01),
        (   100,      50,  Normal,             0.1),
    ];
    for (ready, unready, state, rate) in table {
        let tally = Tally { ready, unready };
        assert_eq!(POLICY.state(tally), state, "{tally:?}");
        // Another, healthy zone, so that not all are down.
        let tallies = BTreeMap::from([("a".into(), tally), ("b".into(), Tally { ready: 1, unready: 0 })]);
        assert_eq!(assess(&tallies, &POLICY).rates["a"], rate, "{tally:?}");
    }
}

#[test]
fn zones_without_counted_nodes_do_not_influence_the_others() {
    let down = Tally { ready: 0, unready: 2 };
    let partial = Tally { ready: 1, unready: 5 };
    let uncounted = Tally::default();
    #[rustfmt::skip]
    let table = [
        // zones                      no node is ready
        (vec![],                      false),
        (vec![uncounted],                false),
        (vec![down],                  true),
        (vec![down, down],            true),
        (vec![down, uncounted],          true),
        (vec![down, partial],          false),
    ];
    for (zones, want) in table {
        let tallies = zones.iter().enumerate().map(|(n, tally)| (format!("{n}").into(), *tally)).collect();
        let assessment = assess(&tallies, &POLICY);
        assert_eq!(assessment.no_node_ready, want, "{zones:?}");
        assert!(!want || assessment.rates.values().all(|rate| *rate == 0.0), "{assessment:?}");
        assert_eq!(assessment.rates.len(), zones.len(), "every zone has a rate");
    }
}

proptest! {
    #[test]
    fn no_node_is_tainted_while_all_zones_are_fully_disrupted(unready in proptest::collection::vec(1usize..200, 1..6)) {
        let down = unready.iter().enumerate().map(|(n, unready)| (format!("{n}").into(), Tally { ready: 0, unready: *unready }));
        let assessment = assess(&down.collect(), &POLICY);
        prop_assert!(assessment.no_node_ready && assessment.rates.values().all(|rate| *rate == 0.0));
    }

    #[test]
    fn no_zone_is_faster_than_the_rate_of_a_healthy_one(
        zones in proptest::collection::vec((0usize..200, 0usize..200), 0..6),
    ) {
        let tallies = zones.iter().enumerate().map(|(n, (ready, unready))| (format!("{n}").into(), Tally { ready: *ready, unready: *unready }));
        let tallies: BTreeMap<_, _> = tallies.collect();
        let assessment = assess(&tallies, &POLICY);
        prop_assert!(assessment.rates.values().all(|rate| *rate <= POLICY.rate));
        prop_assert_eq!(assessment.no_node_ready, tallies.values().any(|t| t.size() > 0) && tallies.values().all(|t| t.ready == 0));
    }
}
