use flyball_api::ObjectMeta;
use flyball_cache::{MetaChange, Origin};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::gc::graph::{Graph, Trigger};
use crate::gc::identity::{Identity, Kind};

const KIND: &str = "Thing";

fn kind(kind: &str) -> Kind {
    Kind::new("v1".into(), kind.into())
}

/// `name`, `namespace/name` or `/name` (cluster-scoped), each with `@uid` where that is not the name; the namespace
/// is `n` where none is given.
pub(super) fn identity(text: &str) -> Identity {
    let (path, uid) = text.split_once('@').unwrap_or((text, ""));
    let (namespace, name) = path.split_once('/').unwrap_or(("n", path));
    Identity {
        kind: kind(KIND),
        namespace: namespace.into(),
        name: name.into(),
        uid: if uid.is_empty() { name } else { uid }.into(),
    }
}

/// `object<owner<owner! :word`: `!` marks a blocking reference; words are `foreground`, `orphan`, `deleting`.
pub(super) fn object(text: &str) -> ObjectMeta {
    let (text, word) = text.split_once(':').unwrap_or((text, ""));
    let mut parts = text.trim().split('<');
    let Identity { namespace, name, uid, .. } = identity(parts.next().unwrap_or_default());
    let owners: Vec<Value> = parts
        .map(|owner| {
            let Identity { name, uid, .. } = identity(owner.trim_end_matches('!'));
            json!({"apiVersion": "v1", "kind": KIND, "name": name, "uid": uid, "blockOwnerDeletion": owner.ends_with('!')})
        })
        .collect();
    let mut meta = json!({"name": name, "namespace": namespace, "uid": uid, "ownerReferences": owners, "resourceVersion": "1"});
    if !word.is_empty() {
        meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        meta["finalizers"] = match word {
            "foreground" => json!(["foregroundDeletion"]),
            "orphan" => json!(["orphan"]),
            _ => json!([]),
        };
    }
    serde_json::from_value(meta).unwrap()
}

/// One step: `-x` is gone, `?x` the server does not know, `.` the kind is no longer followed, `*` it is
/// known by now, `^x y` it is followed in another version, whose cache shows x and y, else `x` is shown.
pub(super) fn step(graph: &mut Graph, text: &str) -> Vec<Trigger> {
    let change = |old, new| MetaChange { old, new, origin: Origin::Watch };
    match text.split_at(1) {
        ("-", text) => graph.observe(&kind(KIND), &change(Some(&object(text)), None)),
        ("?", text) => graph.absent(&identity(text)),
        (".", _) => graph.unfollow(&kind(KIND)),
        ("^", shown) => {
            let (old, new) = (kind(KIND), Kind::new("v2".into(), KIND.into()));
            graph.succeed(&old, &new);
            graph.unshown(&new, |identity| shown.split(' ').any(|name| name == identity.name))
        }
        ("*", _) => graph.known(&[kind(KIND)]),
        _ => graph.observe(&kind(KIND), &change(None, Some(&object(text)))),
    }
}

fn shown(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Examine(item) => format!("examine {}", item.uid),
        Trigger::ExamineLater(item) => format!("examine {} later", item.key),
        Trigger::Orphan(item) => format!("orphan {}", item.uid),
        Trigger::Misplaced { dependent, reference } => {
            format!("misplaced {}<{}", dependent.uid, reference.uid)
        }
    }
}

#[test]
fn a_change_triggers_the_examination_of_the_objects_that_it_concerns() {
    #[rustfmt::skip]
    let table = [
        // case                                              steps                                  triggers of the last
        ("an owner that exists is not examined",              "a; b<a",                              ""),
        ("one that is not shown is examined",                 "b<a",                                 "examine a"),
        ("only once",                                         "b<a; c<a",                            ""),
        ("and not when it is shown as referred to",           "b<a; a",                              ""),
        ("dependents of an owner that is gone",               "a; b<a; c<a; -a",                     "examine b, examine c"),
        ("dependents of an owner that never existed",         "b<a; ?a",                             "examine b"),
        ("an owner shown later and gone",                     "b<a; a; ?a",                          "examine b"),
        ("an object is gone only once",                       "a; -a; -a",                           ""),
        ("foreground: dependents, then the owner",            "a; b<a; c<a!; a:foreground",          "examine b, examine c, examine a"),
        ("and only when it begins",                           "a; b<a; a:foreground; a:foreground",  ""),
        ("a dependent of an owner that waits already",        "a:foreground; b<a!",                  "examine b"),
        ("the last one that blocks its owner",                "a; b<a!; c<a; a:foreground; -b<a!",   "examine a"),
        ("one of several does not",                           "a; b<a!; c<a!; a:foreground; -b<a!",  ""),
        ("a reference that no longer blocks",                 "a; b<a!; a:foreground; b<a",          "examine a"),
        ("a reference that is removed",                       "a; b<a!; a:foreground; b",            "examine a"),
        ("not if the owner does not wait",                    "a; b<a!; b",                          ""),
        ("orphans",                                           "a; b<a; a:orphan",                    "orphan a"),
        ("only once",                                         "a; b<a; a:orphan; a:orphan",          ""),
        ("orphans at the start",                              "a:orphan",                            "orphan a"),
        ("a new owner",                                       "a; b<a; b<a<c",                       "examine c"),
        ("one owner less",                                    "a; c; b<a<c; b<c",                    "examine b"),
        ("a user removes the last owner",                     "a; b<a; b",                           ""),
        ("the same owner by another name",                    "a; b<a; b<x@a",                       "examine b"),
        ("background deletion has no effect yet",             "a; b<a; a:deleting",                  ""),
        ("owner in another namespace",                        "m/a; b<a",                            "misplaced b<a, examine b"),
        ("found out later",                                   "b<a; m/a",                            "misplaced b<a, examine b"),
        ("cluster-scoped owners are for all namespaces",      "/a; b<a; m/c<a",                      ""),
        ("also when they are shown late",                     "b<a; /a",                             ""),
        ("owner of another name",                             "x@a; b<y@a",                          "examine b"),
        ("found out later, of another name",                  "b<y@a; x@a",                          "examine b"),
        ("supposed by two, in two namespaces",                "b<a; m/c<a",                          "examine c"),
        ("supposed by a cluster-scoped one first",            "/b<a; c<a",                           "examine c"),
        ("the next supposition is tried",                     "b<x@a; c<y@a; ?x@a",                  "examine b, examine n/y later"),
        ("and the first one again",                           "b<x@a; c<y@a; ?x@a; ?y@a",            "examine c, examine n/x later"),
        ("in the other namespace",                            "b<a; m/c<a; ?a",                      "examine b, examine m/a later"),
        ("a wrong name of an owner that exists",              "x@a; b<y@a; ?y@a",                    "examine b"),
        ("its own owner",                                     "a<a",                                 ""),
        ("its own owner, gone",                               "a<a; -a<a",                           ""),
        ("a kind becomes known",                              "a; b<a; c<x; d<y; *",                 "examine x, examine y"),
        ("a kind is followed no more",                        "a; b<a; .",                           "examine a"),
        ("and is shown again",                                "a; b<a; .; a",                        ""),
        ("and an unwatched object does not block",            "a; b<a!; a:foreground; .",            "examine a"),
        ("a new dependent of an owner that is gone",          "a; b<a; -a; c<a",                     "examine c"),
        ("also if the server has said so",                    "b<a; ?a; c<a",                        "examine c"),
        ("the absence is applied once",                       "b<a; ?a; ?a",                         ""),
        ("a vanished owner is not virtual",                   "a; b<a; -a; *",                       ""),
        ("a vanished owner that is shown again",              "a; b<a; -a; a; c<a",                  ""),
        ("another version, all is shown",                     "a; b<a!; a:foreground; ^a b",         ""),
        ("one was gone meanwhile",                            "a; b<a!; a:foreground; ^a",           "examine b"),
        ("also one that was on its way",                      "a; b<a!:deleting; ^a",                "examine b"),
        ("a restore has undone its deletion",                 "a; b<a; -a; b<a:deleting; b<a",       "examine b"),
    ];
    for (case, steps, want) in table {
        let mut graph = Graph::default();
        let triggers = steps.split("; ").fold(vec![], |_, text| step(&mut graph, text));
        let triggers: Vec<String> = triggers.iter().map(shown).collect();
        assert_eq!(triggers.join(", "), want, "{case}");
    }
}

#[test]
fn nothing_is_left_of_what_is_gone() {
    let mut graph = Graph::default();
    for text in ["a", "b<a", "c<b<a!", "d<x", "-b<a", "-a", "-c<b<a!", "?b", "?a", "-d<x", "?x"] {
        step(&mut graph, text);
    }
    assert!(graph.is_empty(), "{graph:?}");
}

#[test]
fn siblings_share_the_list_of_their_owners() {
    let mut graph = Graph::default();
    for text in ["a", "b<a!", "c<a!"] {
        step(&mut graph, text);
    }
    let owners = |name: &str| graph.get(&name.into()).unwrap().owners.clone();
    assert!(std::ptr::eq(owners("b").as_ptr(), owners("c").as_ptr()));
    assert_eq!(identity("b").to_string(), "[v1/Thing, namespace: n, name: b, uid: b]");
    let _: SmolStr = identity("/b").namespace;
}

/// A large cluster has hundreds of thousands of nodes, most of them pods with one owner.
#[test]
fn a_node_costs_little_more_than_its_names() {
    let (mut graph, kind) = (Graph::default(), kind(KIND));
    let reference = json!({"apiVersion": "v1", "kind": KIND, "name": "owner", "uid": "owner"});
    for number in 0..50_000 {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "name": format!("pod-{number}"), "namespace": "n", "uid": format!("pod-{number}"), "ownerReferences": [reference],
        }))
        .unwrap();
        graph.observe(&kind, &MetaChange { old: None, new: Some(&meta), origin: Origin::Watch });
    }
    let each = graph.bytes() / graph.len();
    assert!(each <= 112 + 2 * 9 + 1, "{each} bytes");
}

/// An owner must not be let go while the kind of a dependent moves to another version.
#[test]
fn another_version_of_a_kind_blocks_as_the_one_before_did() {
    let mut graph = Graph::default();
    for text in ["a", "b<a!", "c<a!", "a:foreground", "^a b"] {
        step(&mut graph, text);
    }
    let blocking = |graph: &Graph| -> Vec<String> {
        graph
            .blocking(&"a".into())
            .map(|node| format!("{} {}", node.identity.kind.api_version, node.identity.uid))
            .collect()
    };
    assert_eq!(blocking(&graph), ["v2 b", "v2 c"]);
    // The server confirms what the cache of the new version does not show.
    let gone = Identity { kind: Kind::new("v2".into(), KIND.into()), ..identity("c") };
    assert_eq!(graph.absent(&gone), []);
    assert_eq!(blocking(&graph), ["v2 b"]);
}

#[test]
fn a_reference_may_have_its_kind_in_lower_case() {
    let refers = |kind: &str| -> ObjectMeta {
        let owner = json!({"apiVersion": "v1", "kind": kind, "name": "x", "uid": "x"});
        serde_json::from_value(json!({"name": "a", "namespace": "n", "uid": "a", "ownerReferences": [owner]}))
            .unwrap()
    };
    for (name, want) in [("thing", 1), ("THING", 0)] {
        let mut graph = Graph::default();
        graph
            .observe(&kind(KIND), &MetaChange { old: None, new: Some(&refers(name)), origin: Origin::Watch });
        assert_eq!(graph.known(&[kind(KIND)]).len(), want, "{name}");
    }
}

#[test]
fn a_deletion_that_was_seen_is_remembered_while_objects_refer_to_the_owner() {
    let reference = |api_version: &str, kind: &str, name: &str, uid: &str| flyball_api::OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: None,
        block_owner_deletion: None,
    };
    #[rustfmt::skip]
    let table = [
        // case                                  steps             reference                              from  vanished
        ("while it is there",                     "a; b<a",         reference("v1", KIND, "a", "a"),       "n",  false),
        ("no cache has shown it",                  "b<a",            reference("v1", KIND, "a", "a"),       "n",  false),
        ("gone",                                  "a; b<a; -a",     reference("v1", KIND, "a", "a"),       "n",  true),
        ("the server said so",                    "b<a; ?a",        reference("v1", KIND, "a", "a"),       "n",  true),
        ("by another version",                    "a; b<a; -a",     reference("v2", KIND, "a", "a"),       "n",  true),
        ("by another group",                      "a; b<a; -a",     reference("x/v1", KIND, "a", "a"),     "n",  false),
        ("by its kind in lower case",             "a; b<a; -a",     reference("v1", "thing", "a", "a"),    "n",  true),
        ("by another kind",                       "a; b<a; -a",     reference("v1", "Other", "a", "a"),    "n",  false),
        ("by another name",                       "a; b<a; -a",     reference("v1", KIND, "x", "a"),       "n",  false),
        ("another incarnation",                   "a; b<a; -a",     reference("v1", KIND, "a", "x"),       "n",  false),
        ("from another namespace",                "a; b<a; -a",     reference("v1", KIND, "a", "a"),       "m",  false),
        ("from a cluster-scoped object",          "a; b<a; -a",     reference("v1", KIND, "a", "a"),       "",   false),
        ("cluster-scoped, from a namespace",      "/a; b<a; -/a",   reference("v1", KIND, "a", "a"),       "n",  true),
        ("no longer followed is not gone",        "a; b<a; .",      reference("v1", KIND, "a", "a"),       "n",  false),
        ("back again",                            "a; b<a; -a; a",  reference("v1", KIND, "a", "a"),       "n",  false),
        ("no object refers to it",                 "a; -a",          reference("v1", KIND, "a", "a"),       "n",  false),
        ("none any more",                          "a; b<a; -a; -b<a", reference("v1", KIND, "a", "a"),     "n",  false),
        ("nor by another owner",                  "a; c; b<a; -a; b<c", reference("v1", KIND, "a", "a"),   "n",  false),
    ];
    for (case, steps, reference, namespace, want) in table {
        let mut graph = Graph::default();
        steps.split("; ").for_each(|text| drop(step(&mut graph, text)));
        assert_eq!(graph.has_vanished(&reference, namespace), want, "{case}");
    }
}
