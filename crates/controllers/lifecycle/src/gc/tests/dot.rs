use super::graph::step;
use crate::gc::dot::dot;
use crate::gc::graph::Graph;

fn graph(steps: &[&str]) -> Graph {
    let mut graph = Graph::default();
    for text in steps {
        step(&mut graph, text);
    }
    graph
}

#[test]
fn owners_and_dependents_are_drawn_and_no_other_objects() {
    let page = dot(&graph(&["a:foreground", "b<a", "lonely"]), &[]);
    let want = r#"strict digraph full {
  // Node definitions.
  "a" [
    label="uid=a\nnamespace=n\nThing.v1/a\nbeingDeleted,deletingDependents\n"
    group=""
    version="v1"
    kind="Thing"
    namespace="n"
    name="a"
    uid="a"
    missing="false"
    beingDeleted="true"
    deletingDependents="true"
    virtual="false"
  ];
  "b" [
    label="uid=b\nnamespace=n\nThing.v1/b\n"
    group=""
    version="v1"
    kind="Thing"
    namespace="n"
    name="b"
    uid="b"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="false"
  ];
  // Edge definitions.
  "b" -> "a";
}
"#;
    assert_eq!(page, want);
    assert_eq!(dot(&graph(&["lonely"]), &[]), "strict digraph full {\n}\n");
}

#[test]
fn all_objects_that_are_connected_with_one_are_drawn_with_it() {
    let graph = graph(&["a", "b<a", "c<b", "d<missing", "x", "y<x"]);
    let drawn = |uids: &[&str]| {
        let uids: Vec<_> = uids.iter().map(|uid| (*uid).into()).collect();
        let page = dot(&graph, &uids);
        let edges: Vec<&str> = page.lines().filter(|line| line.contains("->")).map(str::trim).collect();
        edges.join(" ")
    };
    assert_eq!(drawn(&["c"]), r#""b" -> "a"; "c" -> "b";"#);
    assert_eq!(drawn(&["x", "d"]), r#""d" -> "missing"; "y" -> "x";"#);
    assert_eq!(drawn(&["nobody"]), "");
    assert!(dot(&graph, &[]).contains("virtual=\"true\""), "an owner that no cache has shown");
}
