use std::sync::Arc;

use proptest::prelude::*;

use super::super::invariants::check;
use super::super::response::{Taint, View, respond};
use super::super::status::Ready;
use super::node;

#[derive(Debug, Clone, Copy, Default)]
struct Case {
    pods_pending: bool,
    is_queued: bool,
    no_node_ready: bool,
}

const PLAIN: Case = Case { pods_pending: false, is_queued: false, no_node_ready: false };
const PENDING: Case = Case { pods_pending: true, ..PLAIN };
const QUEUED: Case = Case { is_queued: true, ..PLAIN };
const NONE_READY: Case = Case { no_node_ready: true, ..PLAIN };

fn response(taints: &str, before: Ready, after: Option<Ready>, case: Case) -> String {
    let Case { pods_pending, is_queued, no_node_ready } = case;
    let view = View { node: Arc::new(node(taints)), before, after, pods_pending, is_queued, no_node_ready };
    let response = respond(&view);
    check(&view, &response).unwrap();
    let taint = match response.taint {
        Taint::Keep => None,
        Taint::Clear => Some("clear"),
        Taint::Queue => Some("queue"),
        Taint::Replace => Some("replace"),
    };
    let event = response.became_not_ready.then_some("event");
    let mark = response.marks_pods.then_some("mark");
    taint.into_iter().chain(event).chain(mark).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_response_follows_from_readiness_before_and_after_the_check() {
    use Ready::{False, True, Unknown};
    const NR: &str = "not-ready:NoExecute";
    const UR: &str = "unreachable:NoExecute";
    #[rustfmt::skip]
    let table = [
        // case                                           taints  before   after          cluster      response
        ("ready",                                         "",     True,    Some(True),    PLAIN,       ""),
        ("never reported, within its grace period",       "",     Unknown, None,          PLAIN,       ""),
        ("never reported, declared lost",                 "",     Unknown, Some(Unknown), PLAIN,       "queue"),
        ("declared lost",                                 "",     True,    Some(Unknown), PLAIN,       "queue event mark"),
        ("lost and tainted",                              UR,     Unknown, Some(Unknown), PLAIN,       ""),
        ("lost and queued",                               "",     Unknown, Some(Unknown), QUEUED,      "queue"),
        ("reports that it is not ready",                  "",     False,   Some(False),   PLAIN,       "queue"),
        ("was not ready, is declared lost",               NR,     False,   Some(Unknown), PLAIN,       "replace"),
        ("was lost, reports that it is not ready",        UR,     False,   Some(False),   PLAIN,       "replace"),
        ("was lost, is ready",                            UR,     True,    Some(True),    PLAIN,       "clear"),
        ("ready again before it was tainted",             "",     True,    Some(True),    QUEUED,      "clear"),
        ("some pods are not marked yet",                  UR,     Unknown, Some(Unknown), PENDING,     "mark"),
        ("some pods are not marked, but it is ready",     "",     True,    Some(True),    PENDING,     ""),
        ("the last ready node is declared lost",          "",     True,    Some(Unknown), NONE_READY,  "event mark"),
        ("no node is ready, this one is tainted",         UR,     Unknown, Some(Unknown), NONE_READY,  "clear"),
        ("no node is ready",                              "",     Unknown, Some(Unknown), NONE_READY,  ""),
        ("no node is ready, this one has the other taint", UR,    False,   Some(False),   NONE_READY,  "clear"),
    ];
    for (case, taints, before, after, cluster, want) in table {
        assert_eq!(response(taints, before, after, cluster), want, "{case}");
    }
}

fn any_ready() -> impl Strategy<Value = Ready> {
    prop_oneof![Just(Ready::True), Just(Ready::False), Just(Ready::Unknown)]
}

proptest! {
    #[test]
    fn every_response_keeps_the_invariants(
        tainted in (any::<bool>(), any::<bool>(), any::<bool>()),
        before in any_ready(),
        after in proptest::option::of(any_ready()),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let mut taints = String::new();
        for (has, taint) in [(tainted.0, "not-ready:NoExecute "), (tainted.1, "unreachable:NoExecute "), (tainted.2, "own:NoExecute")] {
            if has {
                taints.push_str(taint);
            }
        }
        let case = Case { pods_pending: flags.0, is_queued: flags.1, no_node_ready: flags.2 };
        response(&taints, before, after, case);
    }
}
