use flyball_api::{ObjectMeta, Timestamp};
use flyball_client::{ApiStatus, Error, StatusDetails};

use super::graph::{identity, object, step};
use super::world::resource;
use crate::gc::examination::{
    Answer, Examination, OwnerAnswer, OwnerChecks, Step, Tries, blocking, is_graph_behind, is_unseen,
    owner_to_read,
};
use crate::gc::graph::{Graph, Trigger};
use crate::gc::plan::{Standing, Style};

/// The graph after these steps (see [`step`]).
pub(super) fn graph(steps: &str) -> Graph {
    let mut graph = Graph::default();
    steps.split_whitespace().for_each(|text| drop(step(&mut graph, text)));
    graph
}

#[test]
fn an_object_is_examined_by_its_state() {
    let collect = |name: &str| Examination::Collect(identity(name));
    #[rustfmt::skip]
    let table = [
        // case                                  steps            examination of x                       again
        ("not known",                            "",              Examination::Nothing,                  false),
        ("it exists",                            "x",             collect("x"),                          false),
        ("it is being deleted",                  "x:deleting",    Examination::Nothing,                  false),
        ("it waits for its dependents",          "x:foreground",  Examination::Complete(identity("x")),  false),
        ("its dependents are to be orphaned",    "x:orphan",      Examination::Nothing,                  false),
        ("it is referred to, and not shown",     "y<x",           collect("x"),                          true),
        ("it is gone, and still referred to",    "y<x ?x",        Examination::Nothing,                  false),
    ];
    for (case, steps, want, is_again) in table {
        let graph = graph(steps);
        let node = graph.get(&"x".into());
        assert_eq!((Examination::of(node), is_unseen(node)), (want, is_again), "{case}");
    }
}

#[test]
fn an_object_that_is_left_alone_is_examined_again_if_its_owners_differ_from_the_graph() {
    let graph = graph("x<a");
    let deleting = ObjectMeta { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..object("x<b") };
    #[rustfmt::skip]
    let table = [
        ("the same owners",      object("x<a"),  false),
        ("another owner",        object("x<b"),  true),
        ("no owner any more",    object("x"),    true),
        ("it is being deleted",  deleting,       false),
    ];
    for (case, seen, want) in table {
        assert_eq!(is_graph_behind(graph.get(&seen.uid), &seen), want, "{case}");
    }
    assert!(!is_graph_behind(None, &object("x")), "it is gone");
}

#[test]
fn blocking_dependents_are_examined_unless_they_are_being_deleted() {
    let graph = graph("o:foreground a<o! b<o c<o!:deleting");
    let (found, triggers) = blocking(&graph, &"o".into());
    assert_eq!(found, [identity("a"), identity("c")]);
    assert_eq!(triggers, [Trigger::Examine(identity("a").item())]);
}

/// The owners as letters: what they turn out to be (`s`olid, `a`bsent, `w`aiting), in capitals if a cache shows them. Returns which
/// were read, and the standings.
fn check(owners: &str) -> (String, String) {
    let (mut checks, mut read) =
        (OwnerChecks::new(owners.chars().map(char::is_uppercase).collect()), String::new());
    while let Some(at) = checks.next_owner() {
        let owner = owners.chars().nth(at).unwrap();
        read.push(owner);
        checks.record(
            at,
            match owner.to_ascii_lowercase() {
                's' => Standing::Solid,
                'a' => Standing::Absent,
                _ => Standing::Waiting,
            },
        );
    }
    let letter = |standing| match standing {
        Standing::Solid => 's',
        Standing::Absent => 'a',
        Standing::Waiting => 'w',
        Standing::Outlived => 'o',
    };
    (read, checks.standings().into_iter().map(letter).collect())
}

#[test]
fn owners_are_read_until_one_of_them_keeps_the_object() {
    #[rustfmt::skip]
    let table = [
        // case                                                      owners   read     standings
        ("none",                                                     "",      "",      ""),
        ("one that no cache shows",                                  "a",     "a",     "a"),
        ("one that a cache shows",                                   "S",     "S",     "s"),
        ("the cache was behind",                                     "A",     "A",     "a"),
        ("those that no cache shows are all read, and first",        "SaSs",  "as",    "sass"),
        ("the first that keeps the object ends it",                  "SAS",   "S",     "sss"),
        ("one that waits keeps nothing",                             "aWAS",  "aWAS",  "awas"),
        ("none keeps it",                                            "Aaw",   "awA",   "aaw"),
    ];
    for (case, owners, read, standings) in table {
        assert_eq!(check(owners), (read.to_owned(), standings.to_owned()), "{case}");
    }
}

/// An error about the object of this name.
fn error(code: u16, reason: &str, name: &str) -> Error {
    let details = StatusDetails { name: name.into(), ..StatusDetails::default() };
    Error::Status(Box::new(ApiStatus { code, reason: reason.into(), details, ..ApiStatus::default() }))
}

#[test]
fn an_error_says_something_about_the_object_or_nothing() {
    #[rustfmt::skip]
    let table = [
        ("no error",                       None,                                            Answer::Done),
        ("it has changed",                 Some(error(409, "Conflict", "x")),               Answer::Conflict),
        ("it does not exist",              Some(error(404, "NotFound", "x")),               Answer::Missing),
        ("its resource is not served",     Some(error(404, "NotFound", "")),                Answer::Failed),
        ("something else does not exist",  Some(error(404, "NotFound", "y")),               Answer::Failed),
        ("no strategic merge patches",     Some(error(415, "UnsupportedMediaType", "")),    Answer::Unsupported),
        ("forbidden",                      Some(error(403, "Forbidden", "x")),              Answer::Failed),
    ];
    for (case, error, want) in table {
        assert_eq!(Answer::of(error.as_ref(), "x"), want, "{case}");
    }
}

#[test]
fn an_owner_is_gone_only_if_the_server_says_so_about_this_object() {
    let standing = |standing| Some(OwnerAnswer::Standing(standing));
    let (missing, unserved) = (|| Err(error(404, "NotFound", "o")), || Err(error(404, "NotFound", "")));
    #[rustfmt::skip]
    let table = [
        // case                                        answer                          vanished  what it says
        ("it exists",                                  Ok(object("o")),                false,    standing(Standing::Solid)),
        ("it waits for its dependents",                Ok(object("o:foreground")),     false,    standing(Standing::Waiting)),
        ("another object has its name",                Ok(object("o@other")),          false,    Some(OwnerAnswer::Gone)),
        ("it does not exist",                          missing(),                      false,    Some(OwnerAnswer::Gone)),
        ("its kind is not served, a cache saw it go",  unserved(),                     true,     standing(Standing::Absent)),
        ("its kind is not served",                     unserved(),                     false,    None),
        ("it may not be read",                         Err(error(403, "Forbidden", "o")), true,  None),
    ];
    for (case, answer, vanished, want) in table {
        assert_eq!(OwnerAnswer::of(answer, &identity("o"), vanished).ok(), want, "{case}");
    }
}

#[test]
fn an_owner_is_read_in_the_namespace_of_its_dependent() {
    let reference = object("x<o").owner_references[0].clone();
    let read = |object: &str, kind: &str| {
        let owner = owner_to_read(&identity(object), &reference, &resource(kind));
        owner.map(|owner| owner.key().to_string())
    };
    assert_eq!(read("x", "Thing").as_deref(), Some("n/o"));
    assert_eq!(read("x", "Global").as_deref(), Some("o"));
    assert_eq!(read("/x", "Global").as_deref(), Some("o"));
    assert_eq!(read("/x", "Thing"), None, "whose namespace is unknown");
}

#[test]
fn a_write_is_tried_again_with_merge_patches_or_on_the_object_as_it_is() {
    use Answer::{Conflict, Done, Failed, Missing, Unsupported};
    use Step::{End, GiveUp, ReadAgain, WithMergePatches};
    #[rustfmt::skip]
    let table = [
        // case                                    tries  first style       answers and what follows
        ("it is written",                          5, Style::Strategic, vec![(Done, End)]),
        ("it is gone",                             5, Style::Strategic, vec![(Missing, End)]),
        ("a conflict",                             5, Style::Strategic, vec![(Conflict, ReadAgain), (Done, End)]),
        ("no strategic patches",                   5, Style::Strategic, vec![(Unsupported, WithMergePatches), (Done, End)]),
        ("both, and the style begins anew",        5, Style::Strategic, vec![(Unsupported, WithMergePatches), (Conflict, ReadAgain), (Unsupported, WithMergePatches)]),
        ("it keeps changing",                      2, Style::Strategic, vec![(Conflict, ReadAgain), (Conflict, GiveUp)]),
        ("one try",                                1, Style::Strategic, vec![(Failed, GiveUp)]),
        ("no merge patches either",                2, Style::Merge,     vec![(Unsupported, ReadAgain), (Unsupported, GiveUp)]),
    ];
    for (case, tries, first, steps) in table {
        let mut tries = Tries::new(tries, first);
        for (answer, want) in steps {
            assert_eq!(tries.record(answer, None), want, "{case}");
        }
    }
}

#[test]
fn a_refused_deletion_is_compared_with_the_live_object_only() {
    let mut tries = Tries::new(5, Style::Strategic);
    tries.record(Answer::Conflict, None);
    assert!(tries.refused().is_none(), "the cached object may have been stale");
    tries.record(Answer::Conflict, Some(&object("x<o")));
    assert_eq!(tries.refused().map(|refused| refused.name.as_str()), Some("x"));
}
