use std::collections::BTreeSet;

use super::*;
use crate::version::CURRENT;

fn at(minor: u32) -> Versions {
    Versions::emulating(Minor::new(1, minor))
}

#[test]
fn the_table_is_in_order_and_names_gates_that_exist() {
    assert!(TABLE.is_sorted_by_key(|gate| gate.name), "the look-up is a binary search");
    for gate in TABLE {
        assert!(gate.at(Versions::default()).is_some(), "{}", gate.name);
        assert!(gate.needs.iter().all(|other| find(other).is_some()), "{}", gate.name);
    }
}

/// Every gate of the table is read by some code (`xtask/src/never.rs` looks for it), or there is a reason why none does.
#[test]
fn every_gate_is_read_or_has_a_reason_not_to_be() {
    let read: BTreeSet<&str> = Gate::ALL.iter().map(|gate| gate.name()).collect();
    let listed: Vec<&str> = UNREAD.iter().flat_map(|(_, gates)| gates.iter().copied()).collect();
    for gate in TABLE {
        let is_read = read.contains(gate.name) || GROUPS.contains(&gate.name);
        assert_ne!(
            is_read,
            without_effect(gate.name).is_some(),
            "{}: add it to one of the lists in read.rs",
            gate.name
        );
    }
    for name in read.iter().chain(&listed) {
        assert!(find(name).is_some(), "{name} is no longer a gate");
    }
    let mut seen = read.clone();
    for name in listed {
        assert!(seen.insert(name), "{name} is listed twice");
    }
    for name in &read {
        let oldest = find(name).unwrap().at(Versions::emulating(OLDEST));
        assert!(
            !oldest.is_some_and(|spec| spec.locked),
            "{name} has one value in every version: do not read it"
        );
    }
}

#[test]
fn a_gate_is_what_it_was_in_the_emulated_version() {
    let with = |minor, setting: &str| Gates::emulating(at(minor), &[setting]);
    #[rustfmt::skip]
    let table = [
        // version  set                              gate                      on
        (36,        "",                              Gate::JobManagedBy,       true),
        (34,        "JobManagedBy=false",            Gate::JobManagedBy,       false),
        (34,        "",                              Gate::ComponentFlagz,     false),
        (35,        "AllAlpha=true",                 Gate::ComponentFlagz,     true),
        (36,        "AllBeta=false",                 Gate::ComponentFlagz,     false),
        (35,        "AllBeta=false",                 Gate::JobManagedBy,       true),
        (34,        "AllBeta=false",                 Gate::JobManagedBy,       false),
        (33,        "",                              Gate::DynamicResourceAllocation, false),
        (34,        "",                              Gate::DynamicResourceAllocation, true),
        (35,        "",                              Gate::DRAResourcePoolStatus, false),
        (35,        "AllAlpha=true",                 Gate::DRAResourcePoolStatus, false),
    ];
    for (minor, setting, gate, on) in table {
        assert_eq!(with(minor, setting).unwrap().enabled(gate), on, "1.{minor} {setting:?} {gate:?}");
    }
    let names = |minor| with(minor, "").unwrap().all().map(|(name, ..)| name).collect::<Vec<_>>();
    assert!(names(36).contains(&"WorkloadWithJob") && !names(35).contains(&"WorkloadWithJob"));
    // As many as upstream's metrics show.
    assert_eq!([names(36).len(), names(34).len()], [242, 191]);
}

#[test]
fn a_default_may_depend_on_the_rest_of_the_control_plane() {
    use history::{gate, since};
    const GATE: History = gate(
        "Skewed",
        &[since(1, 35, Stage::Beta, false), since(1, 35, Stage::Beta, true).compatible_with(1, 35)],
    );
    let default = |emulated, min_compatibility| {
        let versions = Versions {
            emulated: Minor::new(1, emulated),
            min_compatibility: Minor::new(1, min_compatibility),
        };
        GATE.at(versions).map(|spec| spec.default)
    };
    assert_eq!([default(36, 34), default(36, 35), default(34, 33)], [Some(false), Some(true), None]);
}

#[test]
fn values_are_read_as_upstream_reads_them() {
    #[rustfmt::skip]
    let table = [
        // given                                          gate                             on
        ("",                                              Gate::ComponentFlagz,            true),
        ("ComponentFlagz=false",                          Gate::ComponentFlagz,            false),
        ("ComponentFlagz=false,ComponentFlagz=T",         Gate::ComponentFlagz,            true),
        ("kube:StorageVersionAPI=true",                   Gate::StorageVersionAPI,         true),
        (":StorageVersionAPI=true",                       Gate::StorageVersionAPI,         true),
        (" StorageVersionAPI = true ,",                   Gate::StorageVersionAPI,         true),
        ("AllAlpha=true",                                 Gate::StorageVersionAPI,         true),
        ("AllAlpha=true,StorageVersionAPI=false",         Gate::StorageVersionAPI,         false),
        ("StorageVersionAPI=false,AllAlpha=true",         Gate::StorageVersionAPI,         false),
        ("AllBeta=false",                                 Gate::ComponentFlagz,            false),
        ("AllBeta=true",                                  Gate::StorageVersionAPI,         false),
        ("DynamicResourceAllocation=true",                Gate::DynamicResourceAllocation, true),
    ];
    for (given, gate, on) in table {
        match Gates::parse(&[given]) {
            Ok(gates) => assert_eq!(gates.enabled(gate), on, "{given:?}"),
            Err(errors) => panic!("{given:?}: {errors:?}"),
        }
    }
    assert!(!Gates::parse(&["AllAlpha=true"]).unwrap().is_on("AllBeta"));
    assert_eq!(Gates::default().versions().emulated, CURRENT);
}

#[test]
fn refusals_name_the_culprit() {
    #[rustfmt::skip]
    let table = [
        ("Nonsense=true",                     "there is no feature gate \"Nonsense\""),
        ("ComponentFlags=true",               "there is no feature gate \"ComponentFlags\"; did you mean ComponentFlagz?"),
        ("DynamicResourceAllocation=false",   "feature gate DynamicResourceAllocation is locked to true in version 1.36"),
        ("ComponentFlagz",                    "\"ComponentFlagz\" is not of the form Name=true or Name=false"),
        ("ComponentFlagz=maybe",              "\"ComponentFlagz=maybe\" is not of the form Name=true or Name=false"),
        ("wardle:X=true",                     "feature gates of component \"wardle\" cannot be set here; the only component is \"kube\""),
        ("ComponentFlagz=true,kube:AllBeta=true", "feature gates are given both with and without the prefix \"kube:\"; use one form for all"),
        ("DRAWorkloadResourceClaims=true",    "feature gate DRAWorkloadResourceClaims is on, but needs GenericWorkload, off"),
    ];
    for (given, want) in table {
        let errors = Gates::parse(&[given]).unwrap_err();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [want], "{given:?}");
    }
}
