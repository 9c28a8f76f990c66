use flyball_api::job::{PodFailurePolicy, SuccessPolicy};
use serde_json::{Value, json};

use super::world::pod;
use crate::job::failure_policy::{Meaning, meaning};
use crate::job::indexes::Indexes;
use crate::job::success_policy::met;

#[test]
fn the_first_matching_rule_decides_the_effect_of_a_failure() {
    let codes = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
    let disrupted = |action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let of = |container: &str| json!({"action": "Ignore", "onExitCodes": {"containerName": container, "operator": "In", "values": [1]}});
    let counts = |by_rule| Meaning::Counts { by_rule };
    let lost = |message: &str| Meaning::FailsJob(message.to_owned());
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<Value>, &str, Meaning)> = vec![
        ("no rules",              vec![],                                          "a:failed,exit=1",   counts(false)),
        ("another code",          vec![codes("Ignore", "In", &[2])],               "a:failed,exit=1",   counts(false)),
        ("ignored",               vec![codes("Ignore", "In", &[1, 2])],            "a:failed,exit=1",   Meaning::Ignored),
        ("counted by rule",       vec![codes("Count", "In", &[1])],                "a:failed,exit=1",   counts(true)),
        ("index lost",            vec![codes("FailIndex", "NotIn", &[2])],         "a:failed,exit=1",   Meaning::FailsIndex),
        ("success never matches", vec![codes("Ignore", "NotIn", &[2])],            "a:failed,exit=0",   counts(false)),
        ("container meant",       vec![of("c")],                                   "a:failed,exit=1",   Meaning::Ignored),
        ("container not meant",   vec![of("other")],                               "a:failed,exit=1",   counts(false)),
        ("by condition",          vec![disrupted("Ignore")],                       "a:failed,disrupted", Meaning::Ignored),
        ("unknown action",        vec![codes("Dance", "In", &[1]), codes("Count", "In", &[1])], "a:failed,exit=1", counts(true)),
        ("lost by code",          vec![disrupted("Ignore"), codes("FailJob", "In", &[42])], "a:failed,exit=42",
            lost("Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 1")),
        ("lost by condition",     vec![disrupted("FailJob")],                      "a:failed,disrupted",
            lost("Pod ns/a has condition DisruptionTarget matching FailJob rule at index 0")),
    ];
    for (case, rules, failed, want) in table {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
        assert_eq!(meaning(Some(&policy), &pod(failed)), want, "{case}");
    }
}

#[test]
fn a_success_rule_requires_indexes_or_a_number_of_them() {
    #[rustfmt::skip]
    let table = [
        // case                         rules                                                                    succeeded  met
        ("all of the named",            json!([{"succeededIndexes": "0,2-3"}]),                                  "0,2,3",   Some(0)),
        ("not all of the named",        json!([{"succeededIndexes": "0,2-3"}]),                                  "0,1,2",   None),
        ("enough of the named",         json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]),             "0,1,2",   Some(0)),
        ("too few of the named",        json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]),             "1,2,5",   None),
        ("enough of any",               json!([{"succeededCount": 2}]),                                          "5,6",     Some(0)),
        ("the second rule",             json!([{"succeededIndexes": "9"}, {"succeededCount": 1}]),               "5",       Some(1)),
        ("named beyond completions",    json!([{"succeededIndexes": "20"}]),                                     "5",       None),
        ("nothing has succeeded",       json!([{"succeededCount": 0}]),                                          "",        None),
    ];
    for (case, rules, succeeded, want) in table {
        let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
        let want = want.map(|rule: usize| format!("Matched rules at index {rule}"));
        assert_eq!(met(Some(&policy), &Indexes::parse(succeeded, 10), 10), want, "{case}");
    }
    assert_eq!(met(None, &Indexes::parse("0-9", 10), 10), None);
}
