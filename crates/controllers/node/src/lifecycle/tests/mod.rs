mod eviction_queue;
mod health;
mod lease_watch;
mod plan;
mod response;
mod round;
mod taints;
mod zone;

use flyball_api::condition::Condition;
use flyball_api::taint::Taint;
use flyball_api::{Node, Timestamp};

pub(super) fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// `"Ready=False MemoryPressure=True not-ready:NoExecute x:NoSchedule cordoned kubernetes.io/os:=linux"`: conditions,
/// taints, whether it is cordoned, and labels.
pub(super) fn node(text: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = "n".into();
    let (mut conditions, mut taints, mut labels) = (vec![], vec![], vec![]);
    for word in text.split_whitespace() {
        if word == "cordoned" {
            node.spec.unschedulable = true;
        } else if let Some((key, value)) = word.split_once(":=") {
            labels.push((key.to_owned(), value.to_owned()));
        } else if let Some((type_, status)) = word.split_once('=') {
            let (type_, status) = (type_.into(), status.into());
            conditions.push(Condition { type_, status, ..Condition::default() });
        } else if let Some((key, effect)) = word.split_once(':') {
            let key = format!("node.kubernetes.io/{key}").into();
            taints.push(Taint { key, effect: effect.into(), ..Taint::default() });
        }
    }
    node.status.conditions = conditions.into();
    node.spec.taints = taints.into();
    node.metadata.labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    node
}
