use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, Selector};
use serde_json::json;
use smol_str::SmolStr;

use super::{hpa, pods};
use crate::horizontal::decision::{ScaleError, SelectorError};
use crate::horizontal::selections::{Selections, ambiguous, parse};

#[test]
fn autoscalers_of_the_same_pods_are_found() {
    let (one, two) = (Key::new("ns", "one"), Key::new("ns", "two"));
    let pods = pods("a b");
    let mut selections = Selections::default();
    let x = Selector::parse("app=x").unwrap();
    let set = |selections: &Selections| -> Vec<SmolStr> {
        selections.selecting("ns", &pods).into_iter().cloned().collect()
    };
    selections.add(&one);
    selections.add(&two);
    assert!(set(&selections).is_empty(), "before the first sync no pods are selected");
    selections.set(&two, &x);
    selections.set(&one, &Selector::parse("app in (x, y)").unwrap());
    assert_eq!(set(&selections), ["one", "two"]);
    assert!(matches!(selections.check("ns", "app=x", &pods), Err(SelectorError::Ambiguous(_))));
    assert_eq!(selections.check("ns", "app=x", &[]), Ok(()), "without pods there is no conflict");
    selections.add(&one);
    assert_eq!(set(&selections), ["one", "two"], "a change of the spec keeps the selector");
    selections.remove(&one);
    assert_eq!(set(&selections), ["two"]);
    selections.set(&one, &x);
    assert_eq!(set(&selections), ["two"], "a deleted autoscaler selects nothing");
    selections.add(&Key::new("other", "three"));
    selections.set(&Key::new("other", "three"), &x);
    assert_eq!(set(&selections), ["two"], "another namespace does not matter");
}

/// kubernetes/kubernetes#139111
#[test]
fn the_cost_of_a_check_does_not_grow_with_the_number_of_autoscalers() {
    let compared = |autoscalers: usize| {
        let mut selections = Selections::default();
        for number in 0..autoscalers {
            let key = Key::new("ns", format!("hpa-{number}"));
            selections.add(&key);
            selections.set(&key, &Selector::parse(&format!("app=web-{number},tier=web")).unwrap());
        }
        let labels = json!({"app": "web-0", "tier": "web", "pod-template-hash": "abc"});
        let pod = |number| json!({"metadata": {"name": format!("pod-{number}"), "labels": labels}});
        let pods: Vec<_> =
            (0..100).map(|number| Arc::new(serde_json::from_value(pod(number)).unwrap())).collect();
        assert_eq!(selections.selecting("ns", &pods), ["hpa-0"]);
        selections.compared.get()
    };
    assert_eq!((compared(10), compared(1000)), (1, 1));
}

#[test]
fn any_selector_is_found_by_the_labels_of_its_pods() {
    let pods = |labels: serde_json::Value| {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"labels": labels}})).unwrap();
        vec![Arc::new(pod)]
    };
    let selectors = ["app=x", "app=x,tier=longest", "app in (x, y)", "app!=z", "!gone", "app=z", "tier"];
    let mut selections = Selections::default();
    for selector in selectors {
        let key = Key::new("ns", selector);
        selections.add(&key);
        // The last one counts.
        for selector in ["other=one", "other", selector] {
            selections.set(&key, &Selector::parse(selector).unwrap());
        }
    }
    for labels in [
        json!({"app": "x"}),
        json!({"app": "x", "tier": "longest"}),
        json!({"app": "z", "gone": "no"}),
        json!({"other": "one"}),
        json!({}),
    ] {
        let pods = pods(labels);
        let matches = |selector: &&str| Selector::parse(selector).unwrap().matches(&pods[0].metadata.labels);
        let mut want: Vec<&str> = selectors.into_iter().filter(matches).collect();
        want.sort_unstable();
        assert_eq!(selections.selecting("ns", &pods), want, "{:?}", pods[0].metadata.labels);
    }
}

#[test]
fn the_message_lists_autoscalers_as_go_prints_them() {
    let names = [&SmolStr::new_static("one"), &SmolStr::new_static("two")];
    let want = "pods by selector app=x are controlled by multiple HPAs: [ns/one ns/two]";
    assert_eq!(ambiguous("app=x", "ns", &names), want);
}

#[test]
fn a_selector_that_is_empty_or_cannot_be_parsed_is_refused() {
    assert!(parse("app=x").is_ok());
    assert_eq!(parse(""), Err(SelectorError::Missing));
    let Err(SelectorError::Invalid(message)) = parse("app in") else { panic!("it was accepted") };
    let doing = "couldn't convert selector into a corresponding internal selector object: ";
    assert!(message.starts_with(doing), "{message}");
}

#[test]
fn an_unreadable_scale_is_reported_with_what_was_attempted() {
    let hpa = hpa(json!({}), json!({}));
    #[rustfmt::skip]
    let table = [
        // case                  error                                       whole text                                                             of the spec
        ("its API version",      ScaleError::of_target("E".into()),          "invalid API version in scale target reference: E",                    true),
        ("its kind",             ScaleError::of_kind("E".into()),            "unable to determine resource for scale target reference: E",          false),
        ("its scale",            ScaleError::of_scale(&hpa, "E".into()),     "failed to query scale subresource for Deployment/ns/web: E",          false),
    ];
    for (case, error, text, is_spec_error) in table {
        assert_eq!((error.message.as_str(), error.error.as_str()), ("E", text), "{case}");
        assert_eq!(error.is_spec_error, is_spec_error, "{case}");
    }
}
