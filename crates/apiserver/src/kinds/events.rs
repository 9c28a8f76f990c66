//! Events: one store, two versions. `events.k8s.io/v1` has other names for most fields; core `v1` is stored.

use jiff::Timestamp;
use serde_json::Value;

use super::apps::prints;
use super::json::Json;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Strategy};

/// `v1` Event.
pub(super) struct Core;
/// `events.k8s.io/v1` Event, stored as core.
pub(super) struct V1;

/// Field in `events.k8s.io/v1`, field in core `v1`.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

const SELECTABLE: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const SELECTABLE_V1: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "source",
    "type",
];

fn selectable_values(event: &Value) -> Vec<String> {
    let value = |path: &&str| match *path {
        "source" if event.has("source.component") => event.text("source.component").to_owned(),
        "source" => event.text("reportingComponent").to_owned(),
        path => event.text(path).to_owned(),
    };
    SELECTABLE.iter().map(value).collect()
}

impl Strategy for Core {
    fn validate_create(&self, event: &Value) -> Vec<Cause> {
        validate::events::core(event)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn field_labels(&self) -> &'static [&'static str] {
        SELECTABLE
    }

    fn field_values(&self, event: &Value) -> Vec<String> {
        selectable_values(event)
    }

    prints!(print::EVENT);
}

impl Strategy for V1 {
    fn to_storage(&self, mut event: Value) -> Value {
        event.put("apiVersion", "v1");
        for (new, core) in RENAMED {
            if let Some(value) = event.pull(new) {
                event.put(core, value);
            }
        }
        event
    }

    fn serve(&self, mut event: Value) -> Value {
        event.put("apiVersion", "events.k8s.io/v1");
        for (new, core) in RENAMED {
            if let Some(value) = event.pull(core) {
                event.put(new, value);
            }
        }
        super::reshape(&mut event);
        event
    }

    fn validate_create(&self, event: &Value) -> Vec<Cause> {
        validate::events::v1(event)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn field_labels(&self) -> &'static [&'static str] {
        SELECTABLE_V1
    }

    fn field_values(&self, event: &Value) -> Vec<String> {
        selectable_values(event)
    }

    prints!(print::EVENT);
}
