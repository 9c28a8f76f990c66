//! Flags that upstream does not have. All are off by default; docs/operations.md has what they do.

use crate::flags::{
    Effect::Controllers,
    Field::{Bool, Duration, Int32, Text},
    Flag, Section,
};

#[rustfmt::skip]
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "flyball", flags: &[
        Flag::new("flyball-deletions-per-minute", Int32(|o| &mut o.config.flyball.deletions_per_minute),
            "How many objects each controller may delete within a minute. One that has deleted more deletes nothing until \
             the annotation continue.flyball.dev/CONTROLLER of the Namespace kube-system, a time, lets it go on. 0: no limit."),
        Flag::new("flyball-journal-age", Duration(|o| &mut o.config.flyball.journal_age),
            "How long decisions are kept in the journal."),
        Flag::new("flyball-journal-dir", Text(|o| &mut o.config.flyball.journal_dir),
            "Folder in which the decisions of controllers are kept, for `flyball why` and as traces. Empty: none."),
        Flag::new("flyball-journal-size", Int32(|o| &mut o.config.flyball.journal_size),
            "Largest size of the journal, in MiB, compressed. The oldest decisions go first."),
        Flag::new("flyball-taint-eviction-respects-budgets",
            Bool(|o| &mut o.config.flyball.taint_eviction_respects_budgets),
            "Evict ready pods from tainted nodes through the eviction API, which respects PodDisruptionBudgets. Needs the \
             role in deploy/rbac-guards.yaml.").effect(Controllers(&["taint-eviction-controller"])),
        Flag::new("flyball-verify-lost-nodes", Int32(|o| &mut o.config.flyball.verify_lost_nodes),
            "If at least so many nodes seem lost at once, read their leases from the API server before they become \
             NotReady. 0: never.").effect(Controllers(&["node-lifecycle-controller"])),
    ]},
];
