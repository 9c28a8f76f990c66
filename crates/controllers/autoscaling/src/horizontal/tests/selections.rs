use flyball_api::{Key, Selector};
use smol_str::SmolStr;

use super::pods;
use crate::horizontal::selections::{Selections, ambiguous};

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

#[test]
fn the_message_lists_autoscalers_as_go_prints_them() {
    let names = [&SmolStr::new_static("one"), &SmolStr::new_static("two")];
    let want = "pods by selector app=x are controlled by multiple HPAs: [ns/one ns/two]";
    assert_eq!(ambiguous("app=x", "ns", &names), want);
}
