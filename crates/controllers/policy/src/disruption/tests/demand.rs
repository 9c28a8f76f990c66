use serde_json::json;

use super::{budget, pods};
use crate::disruption::demand::{Demand, Required, owners_of};

#[test]
fn bounds_become_numbers() {
    #[rustfmt::skip]
    let table = [
        // spec                          pods  scale  expected  desired
        (json!({"minAvailable": 2}),        3,     9,        3,       2),
        (json!({"minAvailable": 0}),        3,     9,        3,       0),
        (json!({"minAvailable": 5}),        0,     0,        0,       5),
        (json!({"minAvailable": "50%"}),    3,     5,        5,       3), // rounded up
        (json!({"minAvailable": "0%"}),     3,     5,        5,       0),
        (json!({"minAvailable": "100%"}),   3,     5,        5,       5),
        (json!({"minAvailable": "1%"}),     1,     1,        1,       1),
        (json!({"maxUnavailable": 1}),      3,     5,        5,       4),
        (json!({"maxUnavailable": 9}),      3,     5,        5,       0),
        (json!({"maxUnavailable": "30%"}),  3,     5,        5,       3), // 1.5 may be missing: 2
        (json!({"maxUnavailable": "100%"}), 3,     5,        5,       0),
        (json!({}),                         3,     5,        0,       0),
    ];
    for (spec, pods, scale, expected, desired) in table {
        let budget = budget(spec.clone(), json!({}));
        let demand = Demand::of(&budget.spec);
        assert_eq!(demand.required(pods, scale), Ok(Required { expected, desired }), "{spec}");
        let depends = spec.get("maxUnavailable").is_some() || spec["minAvailable"].is_string();
        assert_eq!(demand.needs_scale(), depends, "{spec}");
    }
}

#[test]
fn an_invalid_percentage_is_named_in_the_error() {
    let budget = budget(json!({"minAvailable": "some"}), json!({}));
    let refused = Demand::of(&budget.spec).required(1, 1).unwrap_err().to_string();
    assert!(refused.contains("\"some\""), "{refused}");
}

#[test]
fn every_owner_is_listed_once() {
    let pods = pods("a:of-x b c:of-y d:of-x e");
    let found = owners_of(&pods);
    let owners: Vec<_> =
        found.owners.iter().map(|(owner, pod)| (&*owner.name, &*pod.metadata.name)).collect();
    assert_eq!((owners, found.unmanaged), (vec![("x", "a"), ("y", "c")], vec!["b", "e"]));
}
