use flyball_api::ResourceType;

use crate::namespace::confirmation::{Again, Emptied, give_up, is_due, listed_again, outdated};
use crate::namespace::content::{Collection, Remains};

fn emptied(plural: &str, objects: usize, interruptions: u32) -> Emptied {
    let resource = ResourceType {
        group: "".into(),
        version: "v1".into(),
        plural: plural.into(),
        kind: plural.into(),
        namespaced: true,
    };
    let collection = Collection { resource, can_list: true, can_delete_collection: true };
    Emptied { collection, remains: Remains { objects, ..Remains::default() }, interruptions }
}

fn names(all: &[Emptied]) -> Vec<&str> {
    all.iter().map(|emptied| emptied.collection.resource.plural.as_str()).collect()
}

#[test]
fn content_is_listed_again_if_a_request_failed_after_it_was_listed() {
    assert!(is_due(&[emptied("a", 0, 0), emptied("b", 0, 1)]));
    assert!(!is_due(&[emptied("a", 0, 0), emptied("b", 1, 1)]), "it is not finalized yet");
    let (current, again) = outdated(vec![emptied("a", 0, 0), emptied("b", 0, 1)], 1);
    assert_eq!((names(&current), names(&again)), (vec!["b"], vec!["a"]));
    let (_, again) = outdated(vec![emptied("a", 0, 0)], 0);
    assert!(again.is_empty(), "no request has failed");
}

#[test]
fn a_namespace_is_not_finalized_while_lists_cannot_be_confirmed() {
    let all = give_up(vec![emptied("a", 0, 0), emptied("b", 0, 1)], 1);
    assert!(all[0].remains.error.as_ref().is_some_and(|error| error.starts_with("a")));
    assert_eq!(all[1].remains, Remains::default());
}

#[test]
fn another_list_confirms_that_a_collection_is_empty_or_shows_that_its_objects_are_back() {
    let before = || emptied("a", 0, 1);
    #[rustfmt::skip]
    let table = [
        ("still empty",             Some(0), Again::Keep(emptied("a", 0, 2))),
        ("its objects are back",    Some(3), Again::Empty(before().collection)),
        ("it cannot be listed",     None,    Again::Keep(before())),
    ];
    for (case, found, want) in table {
        assert_eq!(listed_again(before(), found, 2), want, "{case}");
    }
}
