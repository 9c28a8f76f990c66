use flyball_api::{ObjectMeta, Uid};
use serde_json::{Value, json};

use crate::gc::patches;

fn meta(value: Value) -> ObjectMeta {
    serde_json::from_value(value).unwrap()
}

fn reference(uid: &str, block: Option<bool>) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid});
    if let Some(block) = block {
        reference["blockOwnerDeletion"] = json!(block);
    }
    reference
}

#[test]
fn references_are_removed_from_exactly_the_object_that_was_seen() {
    let object = meta(
        json!({"uid": "u", "resourceVersion": "7", "ownerReferences": [reference("a", None), reference("b", None)]}),
    );
    let (a, b) = (Uid::from("a"), Uid::from("b"));
    assert_eq!(
        patches::release(&object.uid, std::slice::from_ref(&a)),
        json!({"metadata": {"uid": "u", "ownerReferences": [{"$patch": "delete", "uid": "a"}]}}),
    );
    assert_eq!(
        patches::release_plainly(&object, std::slice::from_ref(&a)),
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": [reference("b", None)]}}),
    );
    assert_eq!(
        patches::release_plainly(&object, &[a, b]),
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": null}}),
    );
}

#[test]
fn owners_are_unblocked_and_nothing_else_about_them_changes() {
    let object = meta(json!({"uid": "u", "resourceVersion": "7",
        "ownerReferences": [reference("a", Some(true)), reference("b", None)]}));
    assert_eq!(
        patches::unblock(&object),
        json!({"metadata": {"uid": "u", "ownerReferences": [reference("a", Some(false))]}}),
    );
    assert_eq!(
        patches::unblock_plainly(&object),
        json!({"metadata": {"uid": "u", "resourceVersion": "7",
            "ownerReferences": [reference("a", Some(false)), reference("b", Some(false))]}}),
    );
}

#[test]
fn a_finalizer_is_removed_only_if_it_is_there() {
    let object = meta(json!({"uid": "u", "resourceVersion": "7", "finalizers": ["x", "orphan"]}));
    let patch = |finalizers: Value| {
        Some(json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}}))
    };
    assert_eq!(patches::without_finalizer(&object, "orphan"), patch(json!(["x"])));
    assert_eq!(patches::without_finalizer(&object, "foregroundDeletion"), None);
    let last = meta(json!({"uid": "u", "resourceVersion": "7", "finalizers": ["orphan"]}));
    assert_eq!(patches::without_finalizer(&last, "orphan"), patch(Value::Null));
}
