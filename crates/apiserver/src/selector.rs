//! Label and field selectors as they appear in query strings.

use flyball_api::selector::{InvalidFieldSelector, InvalidSelector, Selector};
use serde::Deserialize as _;
use smol_str::SmolStr;

use crate::meta::names;
use crate::store::Entry;

/// A label selector, over the parser of `flyball-api`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelSelector(Selector);

impl LabelSelector {
    /// Parses `a=b,c in (x,y),!d,e`. Errors have the text of a real API server.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Selector::parse(text).map(Self).map_err(|error| complaint(&error))
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels, sorted by key, match.
    pub(crate) fn matches(&self, labels: &[(SmolStr, SmolStr)]) -> bool {
        let at = |key: &str| labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok();
        self.0.matches_with(|key| at(key).map(|at| labels[at].1.as_str()))
    }

    pub(crate) fn matches_map(&self, labels: Option<&serde_json::Map<String, serde_json::Value>>) -> bool {
        self.0.matches_with(|key| labels?.get(key)?.as_str())
    }

    /// The object form (`matchLabels`, `matchExpressions`); `None` selects nothing.
    pub(crate) fn from_object(selector: &serde_json::Value) -> Option<Self> {
        let selector = flyball_api::LabelSelector::deserialize(selector).ok()?;
        selector.compile().ok().map(Self)
    }
}

impl Default for LabelSelector {
    fn default() -> Self {
        Self(Selector::everything())
    }
}

fn complaint(error: &InvalidSelector) -> String {
    let about = |place: &str, value: &str, fault: &str| {
        format!("unable to parse requirement: {place}: Invalid value: {value:?}: {fault}")
    };
    let first = |faults: Vec<String>| faults.into_iter().next().unwrap_or_default();
    match error {
        InvalidSelector::Key { key } => about("<nil>", key, &first(names::qualified_name(key))),
        InvalidSelector::Value { key, value, .. } => {
            about(&format!("values[0][{key}]"), value, &first(names::label_value(value)))
        }
        InvalidSelector::NotAnInteger { value, .. } => {
            about("values[0]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
        }
        other => other.to_string(),
    }
}

/// The source of a value for a field selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Name,
    Namespace,
    Field(usize),
    /// A field of a custom resource, as a JSON pointer.
    Pointer(String),
}

/// The selectable fields of a kind, besides name and namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offered<'a> {
    Builtin(&'a [&'static str]),
    /// The paths in a definition's `selectableFields` (`.spec.color`).
    Custom(&'a [SmolStr]),
}

impl Offered<'_> {
    fn place(self, field: &str) -> Result<Place, String> {
        let unsupported = || format!("field label not supported: {field}");
        match self {
            Self::Builtin([]) => Err(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
            Self::Builtin(names) => {
                names.iter().position(|name| *name == field).map(Place::Field).ok_or_else(unsupported)
            }
            Self::Custom(paths) => {
                let is_offered = paths.iter().any(|path| path.strip_prefix('.') == Some(field));
                is_offered
                    .then(|| Place::Pointer(format!("/{}", field.replace('.', "/"))))
                    .ok_or_else(unsupported)
            }
        }
    }
}

/// The fields that a selector requires to have one value; none if it cannot be read, which is said later.
pub(crate) fn required(text: &str) -> Vec<(String, String)> {
    let Ok(selector) = text.parse::<flyball_api::FieldSelector>() else { return Vec::new() };
    let equal = selector.terms().filter(|(_, equal, _)| *equal);
    equal.map(|(field, _, value)| (field.to_owned(), value.to_owned())).collect()
}

/// A field selector, resolved against the selectable fields of a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldSelector(Vec<(Place, bool, SmolStr)>);

impl FieldSelector {
    /// Parses `a=b,c!=d`.
    pub(crate) fn parse(text: &str, offered: Offered<'_>) -> Result<Self, String> {
        let selector: flyball_api::FieldSelector = text.parse().map_err(|error: InvalidFieldSelector| {
            format!("invalid selector: '{text}'; can't understand '{}'", error.term)
        })?;
        let mut out = Vec::new();
        for (field, equal, value) in selector.terms() {
            let place = match field {
                "metadata.name" => Place::Name,
                "metadata.namespace" => Place::Namespace,
                other => offered.place(other)?,
            };
            out.push((place, equal, value.into()));
        }
        Ok(Self(out))
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a condition on the name.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.0.push((Place::Name, true, name.into()));
        self
    }

    /// Whether a stored object satisfies it.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.0.iter().all(|(place, equal, wanted)| {
            let is_equal = match place {
                Place::Name => entry.key.name == *wanted,
                Place::Namespace => entry.key.namespace == *wanted,
                Place::Field(at) => entry.facets.fields.get(*at).is_some_and(|found| found == wanted),
                Place::Pointer(pointer) => scalar(entry.value().pointer(pointer)) == wanted.as_str(),
            };
            is_equal == *equal
        })
    }
}

/// The text of a selectable field; empty if it is absent.
fn scalar(value: Option<&serde_json::Value>) -> String {
    match value {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_select() {
        let labels =
            [("app".into(), "web".into()), ("n".into(), "5".into()), ("tier".into(), "front".into())];
        #[rustfmt::skip]
        let table = [
            ("", true), ("app=web", true), ("app==web,tier=front", true), ("app!=web", false), ("x!=y", true),
            ("app in (db, web)", true), ("app notin (db,web)", false), ("tier", true), ("!tier", false), ("!x,app", true),
            ("n>4", true), ("n<5", false), ("app=", false),
        ];
        for (text, want) in table {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), want, "{text}");
        }
        for text in ["a===b", "=b", "a in b", "a in (x", "a b", "-bad", "a=b c"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_know_what_a_kind_offers() {
        assert_eq!(
            FieldSelector::parse("foo=1", Offered::Builtin(&["bar"])).unwrap_err(),
            "field label not supported: foo"
        );
        assert!(FieldSelector::parse("bar!=1,metadata.name=x", Offered::Builtin(&["bar"])).is_ok());
        assert!(FieldSelector::parse("bar", Offered::Builtin(&["bar"])).is_err());
    }
}
