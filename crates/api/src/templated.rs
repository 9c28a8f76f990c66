//! Specs with a pod template. Most of such a spec is the template, and most updates of the object leave it as it is: it is kept once,
//! shared with earlier versions of the object, and the spec has only the JSON around it.

use std::fmt;
use std::ops::Deref;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{PodTemplate, RawJson};

/// A spec with a field `template`.
pub trait HasTemplate {
    fn template(&self) -> &PodTemplate;
}

/// A parsed spec together with its JSON, like [`WithRaw`](crate::WithRaw). It serialises to exactly that JSON.
#[derive(Clone)]
pub struct Templated<T> {
    parsed: T,
    /// The JSON before that of the template.
    before: Box<str>,
    /// The JSON after that of the template; `None` if the template has none there.
    after: Option<Box<str>>,
}

impl<T: DeserializeOwned + HasTemplate> Templated<T> {
    /// Parses `raw` and keeps it.
    pub fn new(raw: &RawJson) -> Result<Self, serde_json::Error> {
        Self::parse(raw.as_str())
    }

    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let parsed: T = serde_json::from_str(text)?;
        // If the same text is there several times, any of them will do.
        let (before, after) = match text.split_once(parsed.template().raw().as_str()) {
            Some((before, after)) => (before, Some(after.into())),
            None => (text, None),
        };
        let before = before.into();
        Ok(Self { parsed, before, after })
    }

    /// The same with some fields changed, unknown ones kept.
    pub fn edited(&self, change: impl FnOnce(&mut Value)) -> Result<Self, serde_json::Error> {
        let mut value = self.raw().to_value();
        change(&mut value);
        Self::new(&RawJson::from_value(&value))
    }
}

impl<T: HasTemplate> Templated<T> {
    /// The whole JSON, put together again.
    pub fn raw(&self) -> RawJson {
        let text = match &self.after {
            Some(after) => [&self.before, self.parsed.template().raw().as_str(), after].concat(),
            None => self.before.to_string(),
        };
        // It was valid when it was taken apart.
        RawJson::parse(&text).unwrap_or_default()
    }
}

/// The default JSON is the empty object, so that it can be sent.
impl<T: Default> Default for Templated<T> {
    fn default() -> Self {
        Self { parsed: T::default(), before: "{}".into(), after: None }
    }
}

impl<T> Deref for Templated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.parsed
    }
}

/// Equality is that of the canonical JSON.
impl<T: HasTemplate> PartialEq for Templated<T> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = (&self.before, &self.after) == (&other.before, &other.after)
            && self.parsed.template() == other.parsed.template();
        is_same || self.raw() == other.raw()
    }
}

impl<T: HasTemplate> Eq for Templated<T> {}

impl<T: fmt::Debug> fmt::Debug for Templated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parsed.fmt(f)
    }
}

impl<T: HasTemplate> Serialize for Templated<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned + HasTemplate> Deserialize<'de> for Templated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(json.get()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::replica_set::ReplicaSetSpec;
    use crate::{Deployment, ReplicaSet};

    type Spec = Templated<ReplicaSetSpec>;

    const TEXT: &str = r#"{ "replicas":3, "template": {"spec":{"x":1.50, "nodeName":"n"} ,"metadata":{"labels":{"a":"b"}}},"new" :true}"#;

    fn spec(text: &str) -> Spec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_json_is_put_together_exactly() {
        for text in [
            TEXT,
            "{}",
            r#"{"replicas":1}"#,
            r#"{"template":null,"replicas":1}"#,
            r#"{"template":{}}"#,
            r#"{"a":{},"template":{},"b":{}}"#,
            r#" {"a":{"template":{"spec":1}},"template" : { } } "#,
            r#"{"note":"\"template\":{}","template":{"metadata":{"labels":{"ü":"\u00fc"}}},"zz":"ü"}"#,
        ] {
            assert_eq!(serde_json::to_string(&spec(text)).unwrap(), text.trim(), "{text}");
        }
        assert_eq!(serde_json::to_string(&Spec::default()).unwrap(), "{}");
    }

    #[test]
    fn both_parts_are_read() {
        let spec = spec(TEXT);
        assert_eq!((spec.replicas, spec.template.spec.node_name.as_str()), (Some(3), "n"));
        assert_eq!(spec.template.metadata.labels.get("a"), Some("b"));
        assert_eq!(spec.raw().to_value()["new"], true);
        let edited = spec.edited(|spec| spec["replicas"] = json!(4)).unwrap();
        assert_eq!(edited.replicas, Some(4));
        assert_eq!(edited.raw().to_value()["new"], true);
        for wrong in [r#"{"replicas":"x"}"#, r#"{"template":{"metadata":1}}"#, r#"{"template":7}"#] {
            assert!(serde_json::from_str::<Spec>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_template_is_kept_once_for_all_versions_of_an_object() {
        let version = |version: u32, replicas: u32| -> ReplicaSet {
            let template = r#"{"metadata":{"labels":{"only":"here, in this test"}}}"#;
            serde_json::from_str(&format!(
                r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"spec":{{"replicas":{replicas},"template":{template}}}}}"#
            ))
            .unwrap()
        };
        let first = version(1, 3);
        let digest = first.spec.template.revision_digest();
        let (status, scaled) = (version(2, 3), version(3, 4));
        assert!(PodTemplate::ptr_eq(&first.spec.template, &status.spec.template));
        assert!(PodTemplate::ptr_eq(&first.spec.template, &scaled.spec.template));
        assert_eq!(scaled.spec.template.known_revision(), Some(digest), "not computed again");
        assert_eq!(first.spec, status.spec);
        assert_ne!(first.spec, scaled.spec);
    }

    #[test]
    fn equality_is_that_of_the_canonical_form() {
        assert_eq!(
            spec(r#"{"replicas":1,"template":{"a":1}}"#),
            spec(r#"{"template": {"a":1}, "replicas":1}"#)
        );
        assert_ne!(
            spec(r#"{"replicas":1,"template":{"a":1}}"#),
            spec(r#"{"replicas":1,"template":{"a":2}}"#)
        );
        let deployment: Deployment =
            serde_json::from_value(json!({"metadata": {}, "spec": {"template": {"spec": {}}}})).unwrap();
        assert_eq!(serde_json::to_value(&deployment).unwrap()["spec"], json!({"template": {"spec": {}}}));
    }

    proptest! {
        #[test]
        fn any_spec_keeps_its_bytes(before in "[ \\n]{0,3}", key in "[a-zü\"]{0,6}", label in "\\PC{0,8}", after in any::<bool>()) {
            let other = |value: u32| format!("{before}{}:{value}", Value::from(format!("k{key}")));
            let template = json!({"metadata": {"labels": {"x": label}}});
            let text = match after {
                true => format!("{{{},{before}\"template\":{template}}}", other(1)),
                false => format!("{{{before}\"template\":{template},{}}}", other(2)),
            };
            prop_assert_eq!(serde_json::to_string(&spec(&text)).unwrap(), text);
        }
    }
}
