//! Removes what may be secret from an object before it is kept.
//!
//! Texts that only people and containers read are replaced by a keyed digest. The key is never stored, so nobody can try guesses
//! against it; within one recording equal texts have equal digests, so templates that are equal stay equal.

use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Map, Value};

/// What is left of an annotation that repeats the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The domains of annotations that components of Kubernetes and ours read; values of all others are replaced.
const KNOWN_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "flyball.dev"];
/// Fields with texts that may hold secrets, wherever they are. Under each of them all texts are replaced.
const TEXTS: [&str; 3] = ["command", "args", "volumeAttributes"];
/// Fields that are lists of `name` and `value`.
const NAMED_VALUES: [&str; 2] = ["env", "httpHeaders"];

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no random numbers for a key")]
pub struct NoRandomness;

/// Redacts all objects of one recording.
#[derive(Debug)]
pub struct Redactor {
    key: Key,
}

impl Redactor {
    /// With a new key, which is gone when this is dropped.
    pub fn new() -> Result<Self, NoRandomness> {
        let random = ring::rand::SystemRandom::new();
        Ok(Self { key: Key::generate(HMAC_SHA256, &random).map_err(|_| NoRandomness)? })
    }

    /// With a given key: for recordings that repeat exactly.
    pub fn with_key(key: &[u8]) -> Self {
        Self { key: Key::new(HMAC_SHA256, key) }
    }

    /// Removes what may be secret from an object. Of a kind that is not `known` only the metadata stays.
    pub fn redact(&self, object: &mut Value, known: bool) {
        let Some(fields) = object.as_object_mut() else { return };
        if !known {
            fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        if fields.get("kind").is_some_and(|kind| kind == "ConfigMap" || kind == "Secret") {
            fields.retain(|name, _| !matches!(name.as_str(), "data" | "binaryData" | "stringData"));
        }
        self.walk(object);
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    self.field(name, value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item)),
            _ => {}
        }
    }

    fn field(&self, name: &str, value: &mut Value) {
        match value {
            Value::Object(annotations) if name == "annotations" => self.annotations(annotations),
            // What a container has left in its termination log.
            Value::Object(ended) if name == "terminated" => drop(ended.remove("message")),
            // Parameters of a device's driver.
            Value::Object(opaque) if name == "opaque" => {
                opaque.insert("parameters".to_owned(), Value::Object(Map::new()));
            }
            Value::Array(items) if NAMED_VALUES.contains(&name) => {
                let values = items.iter_mut().filter_map(|item| item.get_mut("value"));
                values.for_each(|value| self.texts(value));
            }
            Value::Object(options) if name == "flexVolume" => {
                if let Some(options) = options.get_mut("options") {
                    self.texts(options);
                }
            }
            value if TEXTS.contains(&name) => self.texts(value),
            value => self.walk(value),
        }
    }

    fn annotations(&self, annotations: &mut Map<String, Value>) {
        annotations.remove(LAST_APPLIED);
        let foreign = annotations.iter_mut().filter(|(name, _)| !is_known(name));
        foreign.for_each(|(_, value)| self.texts(value));
    }

    /// Replaces all texts in a value.
    fn texts(&self, value: &mut Value) {
        match value {
            Value::String(text) if !text.is_empty() => *text = self.digest(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.texts(value)),
            _ => {}
        }
    }

    fn digest(&self, text: &str) -> String {
        let signed = sign(&self.key, text.as_bytes());
        let digits = signed.as_ref().iter().take(8).map(|byte| format!("{byte:02x}"));
        digits.fold("redacted-".to_owned(), |all, digit| all + &digit)
    }
}

/// Whether an annotation is one that components read.
fn is_known(name: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else { return false };
    KNOWN_DOMAINS
        .iter()
        .any(|known| domain.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLANTED: &str = "hunter2";

    fn template() -> Value {
        json!({
            "metadata": {"annotations": {"example.com/token": PLANTED, "flyball.dev/cpu": "100m"}},
            "spec": {
                "initContainers": [{"name": "i", "args": [PLANTED]}],
                "containers": [{
                    "name": "c", "image": "x", "command": ["sh", "-c", PLANTED],
                    "env": [{"name": "PASSWORD", "value": PLANTED}, {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
                    "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": PLANTED}]}},
                    "lifecycle": {"preStop": {"exec": {"command": [PLANTED]}}},
                }],
                "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": PLANTED}}},
                            {"name": "f", "flexVolume": {"driver": "d", "options": {"key": PLANTED}}}],
            },
        })
    }

    #[test]
    fn no_planted_secret_is_left_anywhere() {
        let objects = [
            ("Deployment", true, json!({"spec": {"template": template()}})),
            ("ControllerRevision", true, json!({"data": {"spec": {"template": template()}}})),
            ("ConfigMap", true, json!({"data": {"a": PLANTED}, "binaryData": {"b": PLANTED}})),
            ("Secret", true, json!({"data": {"a": PLANTED}, "stringData": {"b": PLANTED}})),
            ("Widget", false, json!({"spec": {"anything": PLANTED}})),
            (
                "Pod",
                true,
                json!({"status": {"containerStatuses": [{"state": {"terminated": {"message": PLANTED}}}]}}),
            ),
            ("CronJob", true, json!({"spec": {"jobTemplate": {"spec": {"template": template()}}}})),
            (
                "Service",
                true,
                json!({"metadata": {"annotations": {LAST_APPLIED: PLANTED, "a": PLANTED, "notk8s.io/a": PLANTED}}}),
            ),
        ];
        let redactor = Redactor::new().unwrap();
        for (kind, known, mut object) in objects {
            object["kind"] = json!(kind);
            redactor.redact(&mut object, known);
            assert!(!object.to_string().contains(PLANTED), "{object}");
            assert_eq!(object["kind"], kind);
        }
    }

    #[test]
    fn equal_templates_stay_equal_and_different_ones_different() {
        let (redactor, other) = (Redactor::with_key(b"a"), Redactor::with_key(b"b"));
        let redacted = |redactor: &Redactor, env: &str| {
            let mut object =
                json!({"kind": "Pod", "spec": {"containers": [{"env": [{"name": "A", "value": env}]}]}});
            redactor.redact(&mut object, true);
            object
        };
        assert_eq!(redacted(&redactor, "x"), redacted(&redactor, "x"));
        assert_ne!(redacted(&redactor, "x"), redacted(&redactor, "y"));
        assert_ne!(redacted(&redactor, "x"), redacted(&other, "x"), "another recording has another key");
    }

    #[test]
    fn what_components_read_stays() {
        let kept = json!({
            "kind": "Pod",
            "metadata": {"annotations": {"flyball.dev/cpu": "100m", "deployment.kubernetes.io/revision": "3"}},
            "spec": {"containers": [{"name": "c", "image": "x", "env": [{"name": "A"}]}], "nodeName": "n"},
        });
        let mut object = kept.clone();
        Redactor::with_key(b"a").redact(&mut object, true);
        assert_eq!(object, kept);
    }
}
