//! What one entry costs besides the object: at 150,000 pods every byte counts.

use std::sync::Arc;

use serde_json::json;

use super::Widget;
use crate::{Index, Store, by_controller};

const BY_NODE: Index<Widget> = Index::new("node", |widget, emit| emit(&widget.node));

/// 50,000 objects in 100 namespaces on 500 nodes, ten to an owner, under two indexes besides the built-in one.
#[test]
fn an_entry_with_two_indexes_costs_less_than_120_bytes() {
    const OBJECTS: usize = 50_000;
    let store = Store::<Widget>::new();
    store.install(&BY_NODE);
    store.install(&by_controller());
    for n in 0..OBJECTS {
        let owner = json!({"apiVersion": "v1", "kind": "Set", "name": "s", "uid": format!("owner-{}", n / 10), "controller": true});
        let meta = json!({"name": format!("w-{n}"), "namespace": format!("ns-{}", n % 100), "ownerReferences": [owner]});
        let object = json!({"metadata": meta, "node": format!("node-{}", n % 500)});
        store.put(&Arc::new(serde_json::from_value(object).unwrap()));
    }
    assert_eq!(store.count_by(&by_controller(), "owner-7"), 10);
    let each = store.overhead_bytes() / OBJECTS;
    assert!(each < 120, "{each} bytes");
}
