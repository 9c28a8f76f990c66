//! The graph as `/debug/controllers/garbage-collector-controller/graph` shows it: in the DOT language.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use flyball_api::{OwnerReference, Uid};

use super::graph::{Graph, Node};

/// One object on the page.
struct Vertex<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// `None` for an owner that is referred to and not in the graph.
    node: Option<&'a Node>,
}

/// All owners and dependents; with `uids`, only these objects and those that are connected with them.
pub fn dot(graph: &Graph, uids: &[Uid]) -> String {
    let mut vertices: BTreeMap<&Uid, Vertex<'_>> = BTreeMap::new();
    let mut edges: BTreeSet<(&Uid, &Uid)> = BTreeSet::new();
    for node in chosen(graph, uids) {
        if node.has_vanished() || node.owners.is_empty() && node.dependents.is_empty() {
            continue;
        }
        let uid = &node.identity.uid;
        vertices.insert(uid, Vertex::known(node));
        for owner in node.owners.iter() {
            edges.insert((uid, &owner.uid));
            if graph.get(&owner.uid).is_none_or(Node::has_vanished) {
                vertices.entry(&owner.uid).or_insert_with(|| Vertex::missing(owner));
            }
        }
    }
    let mut page = "strict digraph full {\n".to_owned();
    if !vertices.is_empty() {
        page.push_str("  // Node definitions.\n");
    }
    for (uid, vertex) in &vertices {
        vertex.write(&mut page, uid);
    }
    if !edges.is_empty() {
        page.push_str("  // Edge definitions.\n");
    }
    for (from, to) in edges {
        let _ = writeln!(page, "  \"{from}\" -> \"{to}\";");
    }
    page.push_str("}\n");
    page
}

/// The requested nodes and, step by step, their owners and dependents.
fn chosen<'a>(graph: &'a Graph, uids: &[Uid]) -> Vec<&'a Node> {
    if uids.is_empty() {
        return graph.iter().collect();
    }
    let mut found: BTreeMap<&Uid, &Node> = BTreeMap::new();
    let mut next: Vec<&Node> = uids.iter().filter_map(|uid| graph.get(uid)).collect();
    while let Some(node) = next.pop() {
        if found.insert(&node.identity.uid, node).is_some() {
            continue;
        }
        let neighbours = node.owners.iter().map(|owner| &owner.uid).chain(node.dependents.iter());
        next.extend(neighbours.filter_map(|uid| graph.get(uid)));
    }
    found.into_values().collect()
}

impl<'a> Vertex<'a> {
    fn known(node: &'a Node) -> Self {
        let identity = &node.identity;
        Self {
            api_version: &identity.kind.api_version,
            kind: &identity.kind.kind,
            namespace: &identity.namespace,
            name: &identity.name,
            node: Some(node),
        }
    }

    fn missing(owner: &'a OwnerReference) -> Self {
        let OwnerReference { api_version, kind, name, .. } = owner;
        Self { api_version, kind, namespace: "", name, node: None }
    }

    fn write(&self, page: &mut String, uid: &Uid) {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let Self { kind, namespace, name, .. } = self;
        let is = |state: fn(&Node) -> bool| self.node.is_some_and(state);
        let states = [
            ("beingDeleted", is(|node| node.deleting)),
            ("deletingDependents", is(|node| node.waiting)),
            ("virtual", is(|node| !node.is_observed())),
            ("missingFromGraph", self.node.is_none()),
        ];
        let qualified =
            if group.is_empty() { format!("{kind}.{version}") } else { format!("{kind}.{version}.{group}") };
        let mut label = format!("uid={uid}\nnamespace={namespace}\n{qualified}/{name}\n");
        let holding: Vec<&str> = states.iter().filter(|(_, holds)| *holds).map(|(state, _)| *state).collect();
        if !holding.is_empty() {
            let _ = writeln!(label, "{}", holding.join(","));
        }
        let [deleting, waiting, is_virtual, missing] = states.map(|(_, holds)| holds.to_string());
        let uid_text = uid.to_string();
        let attributes = [
            ("label", label.as_str()),
            ("group", group),
            ("version", version),
            ("kind", kind),
            ("namespace", namespace),
            ("name", name),
            ("uid", &uid_text),
            ("missing", &missing),
            ("beingDeleted", &deleting),
            ("deletingDependents", &waiting),
            ("virtual", &is_virtual),
        ];
        let _ = writeln!(page, "  \"{uid}\" [");
        for (name, value) in attributes {
            let _ = writeln!(page, "    {name}={value:?}");
        }
        page.push_str("  ];\n");
    }
}
