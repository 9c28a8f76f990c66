use super::*;

const UPSTREAM: &str = include_str!("../../../../docs/parity/all_feature_gates.tsv");

#[test]
fn the_table_is_upstreams() {
    let upstream: Vec<[String; 4]> = UPSTREAM
        .lines()
        .skip(1)
        .map(|line| {
            let mut columns = line.split('\t').map(str::to_owned);
            std::array::from_fn(|_| columns.next().unwrap())
        })
        .collect();
    assert_eq!(upstream.len(), 242);
    let mut ours: Vec<[String; 4]> = GATES
        .iter()
        .map(|gate| {
            let stage = match gate.stage {
                Stage::Alpha => "alpha",
                Stage::Beta => "beta",
                Stage::Ga => "GA",
                Stage::Deprecated => "deprecated",
            };
            let locked = if gate.locked { "yes" } else { "no" };
            [gate.name.to_owned(), stage.to_owned(), gate.default.to_string(), locked.to_owned()]
        })
        .collect();
    ours.sort();
    let mut upstream = upstream;
    upstream.sort();
    assert_eq!(ours, upstream);
    assert!(GATES.is_sorted_by_key(|gate| gate.name), "the look-up is a binary search");
}

#[test]
fn values_are_read_as_upstream_reads_them() {
    #[rustfmt::skip]
    let table = [
        // given                                          gate                          on
        ("",                                              "ComponentFlagz",             true),
        ("",                                              "NoSuchGate",                 false),
        ("ComponentFlagz=false",                          "ComponentFlagz",             false),
        ("ComponentFlagz=false,ComponentFlagz=T",         "ComponentFlagz",             true),
        ("kube:StorageVersionAPI=true",                   "StorageVersionAPI",          true),
        (":StorageVersionAPI=true",                       "StorageVersionAPI",          true),
        (" StorageVersionAPI = true ,",                   "StorageVersionAPI",          true),
        ("AllAlpha=true",                                 "StorageVersionAPI",          true),
        ("AllAlpha=true,StorageVersionAPI=false",         "StorageVersionAPI",          false),
        ("StorageVersionAPI=false,AllAlpha=true",         "StorageVersionAPI",          false),
        ("AllAlpha=true",                                 "AllBeta",                    false),
        ("AllBeta=false",                                 "ComponentFlagz",             false),
        ("AllBeta=true",                                  "StorageVersionAPI",          false),
        ("DynamicResourceAllocation=true",                "DynamicResourceAllocation",  true),
    ];
    for (given, gate, on) in table {
        assert_eq!(Gates::parse(&[given]).unwrap().enabled(gate), on, "{given:?}");
    }
}

#[test]
fn refusals_name_the_culprit() {
    #[rustfmt::skip]
    let table = [
        ("Nonsense=true",                     "there is no feature gate \"Nonsense\""),
        ("ComponentFlags=true",               "there is no feature gate \"ComponentFlags\"; did you mean ComponentFlagz?"),
        ("DynamicResourceAllocation=false",   "feature gate DynamicResourceAllocation is locked to true"),
        ("ComponentFlagz",                    "\"ComponentFlagz\" is not of the form Name=true or Name=false"),
        ("ComponentFlagz=maybe",              "\"ComponentFlagz=maybe\" is not of the form Name=true or Name=false"),
        ("wardle:X=true",                     "feature gates of component \"wardle\" cannot be set here; the only component is \"kube\""),
        ("ComponentFlagz=true,kube:AllBeta=true", "feature gates are given both with and without the prefix \"kube:\"; use one form for all"),
    ];
    for (given, want) in table {
        assert_eq!(Gates::parse(&[given]).unwrap_err().to_string(), want, "{given:?}");
    }
}
