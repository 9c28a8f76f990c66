use flyball_api::EndpointSlice;
use serde_json::json;

use crate::addresses::Family;
use crate::endpointslice::metrics::tally;
use crate::endpointslice::packing::Changes;

/// The slices of one family, from `PORT:ENDPOINTS` each.
fn slices(text: &str) -> Vec<EndpointSlice> {
    let slice = |word: &str| {
        let (port, count) = word.split_once(':').unwrap();
        let ports = port.parse::<u16>().ok().map(|port| json!({"port": port}));
        let endpoints = vec![json!({"addresses": ["10.0.0.1"]}); count.parse().unwrap()];
        let slice = json!({"addressType": "IPv4", "ports": Vec::from_iter(ports), "endpoints": endpoints});
        serde_json::from_value(slice).unwrap()
    };
    text.split_whitespace().map(slice).collect()
}

#[test]
fn slices_are_counted_by_family_and_ports() {
    #[rustfmt::skip]
    let table = [
        // case                                       IPv4              IPv6           endpoints  slices  desired
        ("no endpoints: a placeholder",               "-:0",            None,                 (0,      1,      1)),
        ("a full slice",                              "80:3",           None,                 (3,      1,      1)),
        ("spread over more slices than needed",       "80:2 80:1",      None,                 (3,      2,      1)),
        ("more than fit into one",                    "80:3 80:1",      None,                 (4,      2,      2)),
        ("each set of ports has its own slices",      "80:1 81:1",      None,                 (2,      2,      2)),
        ("two families",                              "80:2",           Some("80:2"),         (4,      2,      2)),
        ("a placeholder in each",                     "-:0",            Some("-:0"),          (0,      2,      2)),
    ];
    for (case, v4, v6, want) in table {
        let changes = |text: &str| Changes { create: slices(text), ..Changes::default() };
        let families = [Some((Family::V4, changes(v4))), v6.map(|v6| (Family::V6, changes(v6)))];
        let tally = tally(&families.into_iter().flatten().collect::<Vec<_>>(), 3, None);
        assert_eq!((tally.endpoints, tally.slices, tally.desired), want, "{case}");
    }
}
