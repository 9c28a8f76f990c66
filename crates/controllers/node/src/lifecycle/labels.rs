//! Deprecated labels, which are kept equal to those that replaced them. Pure.

use flyball_api::Labels;
use serde_json::{Map, Value, json};

/// Each label and its deprecated name.
const DEPRECATED: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The patch that sets the deprecated labels; `None` if they are right.
pub fn patch(labels: &Labels) -> Option<Value> {
    let stale = DEPRECATED.iter().filter_map(|(label, deprecated)| {
        let value = labels.get(label)?;
        (labels.get(deprecated) != Some(value)).then(|| ((*deprecated).to_owned(), json!(value)))
    });
    let stale: Map<String, Value> = stale.collect();
    (!stale.is_empty()).then(|| json!({"metadata": {"labels": stale}}))
}
