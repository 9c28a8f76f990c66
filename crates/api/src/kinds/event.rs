//! Events as the recorder writes them.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::skip;
use crate::object_reference::ObjectReference;
use crate::{ObjectMeta, Timestamp, resource, time};

/// A v1 Event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    pub metadata: ObjectMeta,
    pub involved_object: ObjectReference,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
    #[serde(skip_serializing_if = "skip::default")]
    pub source: EventSource,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub first_timestamp: Option<Timestamp>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "skip::zero")]
    pub count: i32,
    /// `Normal` or `Warning`.
    #[serde(rename = "type", skip_serializing_if = "SmolStr::is_empty")]
    pub type_: SmolStr,
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub event_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<EventSeries>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub action: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectReference>,
    #[serde(rename = "reportingComponent")]
    pub reporting_controller: SmolStr,
    pub reporting_instance: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventSource {
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub component: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub host: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventSeries {
    #[serde(skip_serializing_if = "skip::zero")]
    pub count: i32,
    #[serde(with = "time::micros_opt", skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Timestamp>,
}

resource!(Event, "", "v1", "events", "Event", namespaced);
