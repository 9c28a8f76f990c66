//! Labels that have an older twin, which is kept equal. Pure.

use flyball_api::Labels;
use serde_json::{Map, Value, json};

/// Each label and its twin of old.
const TWINS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The patch that makes each twin equal to its label; `None` if they are.
pub fn patch(labels: &Labels) -> Option<Value> {
    let stale = TWINS.iter().filter_map(|(label, twin)| {
        let value = labels.get(label)?;
        (labels.get(twin) != Some(value)).then(|| ((*twin).to_owned(), json!(value)))
    });
    let stale: Map<String, Value> = stale.collect();
    (!stale.is_empty()).then(|| json!({"metadata": {"labels": stale}}))
}
