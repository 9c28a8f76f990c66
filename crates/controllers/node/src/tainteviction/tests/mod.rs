mod plan;
mod triggers;

use flyball_api::pod::Pod;
use flyball_api::taint::{Taint, Toleration};
use serde_json::{Value, json};

/// `"a b:NoSchedule c=v"`: taints by key, with effect `NoExecute` unless another is named.
pub(super) fn taints(text: &str) -> Vec<Taint> {
    let one = |word: &str| {
        let (word, effect) = word.split_once(':').unwrap_or((word, "NoExecute"));
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        Taint { key: key.into(), value: value.into(), effect: effect.into(), time_added: None }
    };
    text.split_whitespace().map(one).collect()
}

/// `"a b@30 * a=v c:NoSchedule"`: tolerations by key (`*` for all), for so many seconds, of any effect unless named.
pub(super) fn tolerations(text: &str) -> Vec<Toleration> {
    let one = |word: &str| {
        let (word, seconds) = word.split_once('@').map_or((word, None), |(word, n)| (word, n.parse().ok()));
        let (word, effect) = word.split_once(':').unwrap_or((word, ""));
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        Toleration {
            key: if key == "*" { "".into() } else { key.into() },
            operator: if value.is_some() { "Equal".into() } else { "Exists".into() },
            value: value.unwrap_or_default().into(),
            effect: effect.into(),
            toleration_seconds: seconds,
        }
    };
    text.split_whitespace().map(one).collect()
}

pub(super) fn pod(more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "uid-1", "generation": 3},
        "spec": {"nodeName": "n"},
    });
    json_patch(&mut pod, more);
    serde_json::from_value(pod).unwrap()
}

fn json_patch(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                json_patch(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more,
    }
}
