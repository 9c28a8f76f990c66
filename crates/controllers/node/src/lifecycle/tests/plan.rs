use proptest::prelude::*;

use super::super::invariants::check;
use super::super::plan::{Action, View, plan};
use super::super::status::Ready;
use super::node;

#[derive(Debug, Clone, Copy, Default)]
struct Case {
    owed: bool,
    waits: bool,
    dark: bool,
}

const CALM: Case = Case { owed: false, waits: false, dark: false };
const OWED: Case = Case { owed: true, ..CALM };
const WAITS: Case = Case { waits: true, ..CALM };
const DARK: Case = Case { dark: true, ..CALM };

fn planned(taints: &str, observed: Ready, current: Option<Ready>, case: Case) -> String {
    let node = node(taints);
    let view = View { node: &node, observed, current, owed: case.owed, waits: case.waits, dark: case.dark };
    let actions = plan(&view);
    check(&view, &actions).unwrap();
    let show = |action: &Action| match action {
        Action::Welcome => "welcome",
        Action::AwaitTaint => "await",
        Action::SwapTaint => "swap",
        Action::Tell => "tell",
        Action::MarkPods => "mark",
    };
    actions.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_follows_from_a_look_at_a_node() {
    use Ready::{False, True, Unknown};
    const NR: &str = "not-ready:NoExecute";
    const UR: &str = "unreachable:NoExecute";
    #[rustfmt::skip]
    let table = [
        // case                                      taints  was      is             cluster  plan
        ("all is well",                              "",     True,    Some(True),    CALM,    ""),
        ("never reported, and still has time",       "",     Unknown, None,          CALM,    ""),
        ("never reported, and is given up",          "",     Unknown, Some(Unknown), CALM,    "await"),
        ("falls silent",                             "",     True,    Some(Unknown), CALM,    "await tell mark"),
        ("is silent",                                UR,     Unknown, Some(Unknown), CALM,    ""),
        ("is silent, and waits for its taint",       "",     Unknown, Some(Unknown), WAITS,   "await"),
        ("says that it is not ready",                "",     False,   Some(False),   CALM,    "await"),
        ("said that it is not ready, falls silent",  NR,     False,   Some(Unknown), CALM,    "swap"),
        ("comes back, not ready",                    UR,     False,   Some(False),   CALM,    "swap"),
        ("comes back, ready",                        UR,     True,    Some(True),    CALM,    "welcome"),
        ("comes back before its turn",               "",     True,    Some(True),    WAITS,   "welcome"),
        ("some pods are not marked yet",             UR,     Unknown, Some(Unknown), OWED,    "mark"),
        ("pods were owed, and it is ready again",    "",     True,    Some(True),    OWED,    ""),
        ("falls silent as the last one",             "",     True,    Some(Unknown), DARK,    "tell mark"),
        ("all are silent, it was evicted",           UR,     Unknown, Some(Unknown), DARK,    "welcome"),
        ("all are silent",                           "",     Unknown, Some(Unknown), DARK,    ""),
        ("none is ready, and it fares differently",  UR,     False,   Some(False),   DARK,    "welcome"),
    ];
    for (case, taints, observed, current, cluster, want) in table {
        assert_eq!(planned(taints, observed, current, cluster), want, "{case}");
    }
}

fn any_ready() -> impl Strategy<Value = Ready> {
    prop_oneof![Just(Ready::True), Just(Ready::False), Just(Ready::Unknown)]
}

proptest! {
    #[test]
    fn every_plan_keeps_the_invariants(
        tainted in (any::<bool>(), any::<bool>(), any::<bool>()),
        observed in any_ready(),
        current in proptest::option::of(any_ready()),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let mut taints = String::new();
        for (has, taint) in [(tainted.0, "not-ready:NoExecute "), (tainted.1, "unreachable:NoExecute "), (tainted.2, "own:NoExecute")] {
            if has {
                taints.push_str(taint);
            }
        }
        planned(&taints, observed, current, Case { owed: flags.0, waits: flags.1, dark: flags.2 });
    }
}
