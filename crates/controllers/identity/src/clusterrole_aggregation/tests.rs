//! Tables for the rules of aggregated roles, and for triggers.

use std::sync::Arc;

use flyball_api::cluster_role::{AggregationRule, ClusterRole, PolicyRule};
use flyball_api::{LabelSelector, Labels};
use flyball_cache::{Change, Origin};
use proptest::prelude::*;

use flyball_client::Patch;
use flyball_runtime::plan::Operation;

use super::plan::{applied, missing_rules, plan};
use super::triggers::role_changed;

/// `name label,label: rule rule`; an aggregated role is `name < label label`, with labels to select.
fn role(text: &str) -> Arc<ClusterRole> {
    let (head, rules) = text.split_once(':').unwrap_or((text, ""));
    let mut role = ClusterRole::default();
    let mut words = head.split_whitespace();
    role.metadata.name = words.next().unwrap().into();
    let labels: Vec<&str> = words.collect();
    let list = |labels: &[&str]| labels.iter().map(|label| (*label, "yes")).collect::<Labels>();
    match labels.split_first() {
        Some((&"<", selectors)) => {
            let selector =
                |label: &&str| LabelSelector { match_labels: list(&[*label]), ..Default::default() };
            let cluster_role_selectors = selectors.iter().map(selector).collect();
            role.aggregation_rule = Some(AggregationRule { cluster_role_selectors });
        }
        _ => role.metadata.labels = list(&labels),
    }
    let rule = |verb: &str| PolicyRule { verbs: vec![verb.into()], ..Default::default() };
    role.rules = Some(rules.split_whitespace().map(rule).collect());
    Arc::new(role)
}

fn planned(role: &ClusterRole, others: &[Arc<ClusterRole>]) -> String {
    match missing_rules(role, others).unwrap() {
        None => "settled".to_owned(),
        Some(rules) => rules.iter().map(|rule| rule.verbs[0].as_str()).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn rules_are_gathered_in_order_each_once() {
    #[rustfmt::skip]
    let table = [
        // case                               role            others                                  rules
        ("does not aggregate",                "all: x",       vec!["a one: get"],                     "settled"),
        ("settled",                           "all < one: get", vec!["a one: get"],                   "settled"),
        ("by name within a selector",         "all < one",    vec!["b one: b", "a one: a"],           "a b"),
        ("selector by selector",              "all < two one", vec!["a one: a", "b two: b"],          "b a"),
        ("each rule once, where it is first", "all < two one", vec!["a one: x y", "b two: y"],        "y x"),
        ("not from others",                   "all < one",    vec!["a two: a", "b: b"],               "settled"),
        ("tampering is undone",               "all < one: z", vec!["a one: get"],                     "get"),
        ("order is part of it",               "all < one: b a", vec!["a one: a b"],                   "a b"),
        ("nothing left to allow",             "all < one: z", vec![],                                 ""),
    ];
    for (case, subject, others, want) in table {
        let others: Vec<_> = others.into_iter().map(role).collect();
        assert_eq!(planned(&role(subject), &others), want, "{case}");
    }
}

#[test]
fn a_role_does_not_gather_from_itself() {
    let mut own = ClusterRole::clone(&role("all < one: z"));
    own.metadata.labels = [("one", "yes")].into_iter().collect();
    let own = Arc::new(own);
    assert_eq!(planned(&own, &[own.clone(), role("a one: a")]), "a");
}

#[test]
fn an_invalid_selector_is_reported_and_not_retried() {
    let mut broken = ClusterRole::clone(&role("all < one"));
    let selectors = &mut broken.aggregation_rule.as_mut().unwrap().cluster_role_selectors;
    selectors[0] = serde_json::from_str(r#"{"matchExpressions":[{"key":"a","operator":"Like"}]}"#).unwrap();
    assert!(plan(&broken, &[]).to_string().starts_with("invalid: invalid selector of ClusterRole all: "));
}

#[test]
fn rules_are_applied_by_force_under_the_controllers_name() {
    let planned = plan(&role("all < one"), &[role("a one: get")]);
    assert_eq!(planned.to_string(), "patch ClusterRole all: it must allow what the roles it selects allow");
    let writes = planned.writes();
    let Operation::Patch(Patch::Apply { manager, force, .. }) = &writes[0].operation else {
        panic!("{planned}")
    };
    assert_eq!((manager.as_str(), *force), (super::NAME, true));
}

#[test]
fn only_name_and_rules_are_applied() {
    let all = role("all < one");
    let body = applied(&all, &[]);
    assert_eq!(body["metadata"], serde_json::json!({"name": "all"}));
    assert!(body.get("rules").is_none() && body.get("aggregationRule").is_none());
    let rules = [PolicyRule { verbs: vec!["get".into()], ..Default::default() }];
    assert_eq!(applied(&all, &rules)["rules"], serde_json::json!([{"verbs": ["get"]}]));
}

#[test]
fn those_who_select_a_changed_role_look_again() {
    let all = ["x < one", "y < two"].map(role);
    #[rustfmt::skip]
    let table = [
        // case                     before             after              who looks
        ("a new role",              "",                "a one: get",      "x"),
        ("another label",           "a one: get",      "a two: get",      "x y"),
        ("other rules",             "a one: get",      "a one: list",     "x"),
        ("nothing of interest",     "a one: get",      "a one: get",      ""),
        ("gone",                    "a two: get",      "",                "y"),
        ("an aggregated one",       "x < one: z",      "x < one",         "x"),
        ("unlabelled",              "",                "a: get",          ""),
    ];
    for (case, before, after, want) in table {
        let side = |text: &str| (!text.is_empty()).then(|| role(text));
        let (old, new) = (side(before), side(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let keys: Vec<String> = role_changed(&change, &all).iter().map(ToString::to_string).collect();
        assert_eq!(keys.join(" "), want, "{case}");
    }
}

proptest! {
    /// Whatever the roles are and in whatever order the cache lists them: what is planned allows what they allow,
    /// nothing more, each rule once; and once it is there, nothing is left to do.
    #[test]
    fn what_is_gathered_is_the_union(
        labels in proptest::collection::vec((0..3usize, 0..5usize, 0..5usize), 0..8),
        seed in any::<u64>(),
    ) {
        let text = |at: usize, (label, one, two): &(usize, usize, usize)| format!("r{at} l{label}: v{one} v{two}");
        let mut others: Vec<_> = labels.iter().enumerate().map(|(at, parts)| role(&text(at, parts))).collect();
        let all = role("all < l0 l1");
        let first = missing_rules(&all, &others).unwrap();
        others.sort_by_key(|role| (role.metadata.name.len() as u64 ^ seed, std::cmp::Reverse(role.metadata.name.clone())));
        prop_assert_eq!(&first, &missing_rules(&all, &others).unwrap());
        let rules = first.unwrap_or_default();
        let mut verbs: Vec<String> = rules.iter().map(|rule| rule.verbs[0].to_string()).collect();
        verbs.sort();
        let mut want: Vec<String> = labels.iter().filter(|(label, ..)| *label < 2)
            .flat_map(|(_, one, two)| [format!("v{one}"), format!("v{two}")]).collect();
        want.sort();
        want.dedup();
        prop_assert_eq!(verbs, want);
        let mut done = ClusterRole::clone(&all);
        done.rules = Some(rules);
        prop_assert!(plan(&done, &others).writes().is_empty());
    }
}
