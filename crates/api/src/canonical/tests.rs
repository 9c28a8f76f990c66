use super::*;
use serde_json::json;

#[test]
fn keys_are_sorted_at_every_depth() {
    assert_eq!(
        to_string(&json!({"b": {"z": 1, "a": [{"y": 1, "x": null}]}, "a": true})),
        r#"{"a":true,"b":{"a":[{"x":null,"y":1}],"z":1}}"#
    );
}
