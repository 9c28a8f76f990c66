//! Label selectors: the object form of specs, the text form of queries, and the compiled form that matches.

mod field;
mod parse;

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::{Labels, names};

pub use field::{FieldSelector, InvalidFieldSelector};

/// A selector in a spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One expression of a [`LabelSelector`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    pub key: SmolStr,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: SmolStr,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<SmolStr>,
}

/// Why a selector cannot be used. The texts about the object form are upstream's: events and conditions quote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    #[error("{operator:?} is not a valid label selector operator")]
    Operator { operator: SmolStr },
    #[error("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    #[error("values: Invalid value: {}: values set must be empty for exists and does not exist", serde_json::json!(values))]
    UnexpectedValues { values: Vec<SmolStr> },
    #[error("key: Invalid value: {key:?}: {}", names::QUALIFIED_NAME)]
    Key { key: SmolStr },
    #[error("values[{at}][{key}]: Invalid value: {value:?}: {}", names::LABEL_VALUE)]
    Value {
        key: SmolStr,
        value: SmolStr,
        /// Its place in the list of values.
        at: usize,
    },
    /// `<` and `>` compare integers.
    #[error("{value:?}, which label {key:?} is compared with, is not an integer that a label can hold")]
    NotAnInteger { key: SmolStr, value: SmolStr },
    #[error("{place}found '{found}'{expected}")]
    Syntax {
        /// Where, if inside a requirement.
        place: &'static str,
        /// The unexpected token; empty at the end of the text.
        found: SmolStr,
        expected: &'static str,
    },
    /// A requirement that has no object form.
    #[error("{operator:?} {}", if *operator == "!=" { "is not a valid label selector operator" } else { "isn't supported in label selectors" })]
    NotForObjects { operator: &'static str },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Match);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Match {
    Nothing,
    /// All must hold; none matches everything. Sorted by key, as upstream prints them.
    All(Box<[Requirement]>),
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: SmolStr,
    test: Test,
}

/// Value lists are sorted and without duplicates. `Is` and `In` differ only in how they are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    Is(SmolStr),
    IsDouble(SmolStr),
    IsNot(SmolStr),
    In(Box<[SmolStr]>),
    NotIn(Box<[SmolStr]>),
    Above(i64),
    Below(i64),
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[SmolStr], value: &str| values.iter().any(|v| v == value);
        let integer = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Is(wanted) | Test::IsDouble(wanted) => value == Some(wanted.as_str()),
            Test::IsNot(unwanted) => value != Some(unwanted.as_str()),
            Test::In(values) => value.is_some_and(|v| among(values, v)),
            Test::NotIn(values) => !value.is_some_and(|v| among(values, v)),
            Test::Above(bound) => integer().is_some_and(|number| number > *bound),
            Test::Below(bound) => integer().is_some_and(|number| number < *bound),
        }
    }

    /// The values that labels are compared with as text.
    fn values(&self) -> &[SmolStr] {
        match self {
            Test::Is(value) | Test::IsDouble(value) | Test::IsNot(value) => std::slice::from_ref(value),
            Test::In(values) | Test::NotIn(values) => values,
            Test::Exists | Test::Absent | Test::Above(_) | Test::Below(_) => &[],
        }
    }
}

impl Requirement {
    /// Refuses keys and values that no label can have.
    fn checked(key: SmolStr, test: Test) -> Result<Self, InvalidSelector> {
        if !names::is_qualified_name(&key) {
            return Err(InvalidSelector::Key { key });
        }
        if let Some(at) = test.values().iter().position(|value| !names::is_label_value(value)) {
            return Err(InvalidSelector::Value { value: test.values()[at].clone(), key, at });
        }
        Ok(Self { key, test })
    }
}

impl Selector {
    /// Matches every set of labels.
    pub fn everything() -> Self {
        Self(Match::All(Box::default()))
    }

    /// Matches no set of labels.
    pub fn nothing() -> Self {
        Self(Match::Nothing)
    }

    /// Matches objects with all of `labels`: the form of Services and ReplicationControllers.
    pub fn from_labels(labels: &Labels) -> Self {
        let equal =
            |(key, value): (&str, &str)| Requirement { key: key.into(), test: Test::Is(value.into()) };
        Self(Match::All(labels.iter().map(equal).collect()))
    }

    /// Compiles the object form. An absent selector matches nothing, an empty one everything.
    pub fn from_object(selector: Option<&LabelSelector>) -> Result<Self, InvalidSelector> {
        let Some(selector) = selector else { return Ok(Self::nothing()) };
        let mut requirements =
            Vec::with_capacity(selector.match_labels.len() + selector.match_expressions.len());
        for (key, value) in selector.match_labels.iter() {
            requirements.push(Requirement::checked(key.into(), Test::Is(value.into()))?);
        }
        for expression in &selector.match_expressions {
            requirements.push(Requirement::checked(expression.key.clone(), expression.test()?)?);
        }
        Ok(Self::all(requirements))
    }

    /// Parses the text form of queries: `a=b,c in (x,y),!d`.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        parse::requirements(text).map(Self::all)
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(Match::All(requirements.into()))
    }

    /// Whether `labels` satisfy it.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_with(|key| labels.get(key))
    }

    /// The same for labels that are kept elsewhere: `get` gives the value of a key.
    pub fn matches_with<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Match::Nothing => false,
            Match::All(requirements) => requirements.iter().all(|r| r.test.holds(get(&r.key))),
        }
    }

    /// The labels that whatever it matches has with exactly this value: enough to look candidates up by.
    pub fn required(&self) -> impl Iterator<Item = (&str, &str)> {
        let requirements: &[Requirement] = match &self.0 {
            Match::Nothing => &[],
            Match::All(requirements) => requirements,
        };
        requirements.iter().filter_map(|requirement| match &requirement.test {
            Test::Is(value) | Test::IsDouble(value) => Some((requirement.key.as_str(), value.as_str())),
            _ => None,
        })
    }

    /// The object form, if there is one.
    pub fn to_object(&self) -> Result<LabelSelector, InvalidSelector> {
        let requirements: &[Requirement] = match &self.0 {
            Match::Nothing => &[],
            Match::All(requirements) => requirements,
        };
        let mut object = LabelSelector::default();
        for Requirement { key, test } in requirements {
            let (operator, values) = match test {
                Test::Is(value) | Test::IsDouble(value) => {
                    object.match_labels = object.match_labels.with(key, value);
                    continue;
                }
                Test::In(values) => ("In", values.to_vec()),
                Test::NotIn(values) => ("NotIn", values.to_vec()),
                Test::Exists => ("Exists", vec![]),
                Test::Absent => ("DoesNotExist", vec![]),
                Test::IsNot(_) => return Err(InvalidSelector::NotForObjects { operator: "!=" }),
                Test::Above(_) => return Err(InvalidSelector::NotForObjects { operator: "gt" }),
                Test::Below(_) => return Err(InvalidSelector::NotForObjects { operator: "lt" }),
            };
            let (key, operator) = (key.clone(), SmolStr::new_static(operator));
            object.match_expressions.push(LabelSelectorRequirement { key, operator, values });
        }
        Ok(object)
    }

    pub fn is_nothing(&self) -> bool {
        matches!(self.0, Match::Nothing)
    }

    /// Whether it has no requirement, and so matches everything.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Match::All(requirements) if requirements.is_empty())
    }
}

/// The text form, as upstream prints it. Nothing and everything both print as the empty text.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Match::All(requirements) = &self.0 else { return Ok(()) };
        for (i, requirement) in requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => f.write_str(key),
            Test::Absent => write!(f, "!{key}"),
            Test::Is(value) => write!(f, "{key}={value}"),
            Test::IsDouble(value) => write!(f, "{key}=={value}"),
            Test::IsNot(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Test::Above(bound) => write!(f, "{key}>{bound}"),
            Test::Below(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

impl LabelSelector {
    /// Whether it has no requirement, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    pub fn compile(&self) -> Result<Selector, InvalidSelector> {
        Selector::from_object(Some(self))
    }
}

impl LabelSelectorRequirement {
    fn test(&self) -> Result<Test, InvalidSelector> {
        match (self.operator.as_str(), self.values.is_empty()) {
            ("In", false) => Ok(Test::In(sorted(self.values.clone()))),
            ("NotIn", false) => Ok(Test::NotIn(sorted(self.values.clone()))),
            ("In" | "NotIn", true) => Err(InvalidSelector::NoValues),
            ("Exists", true) => Ok(Test::Exists),
            ("DoesNotExist", true) => Ok(Test::Absent),
            ("Exists" | "DoesNotExist", false) => {
                Err(InvalidSelector::UnexpectedValues { values: self.values.clone() })
            }
            _ => Err(InvalidSelector::Operator { operator: self.operator.clone() }),
        }
    }
}

fn sorted(mut values: Vec<SmolStr>) -> Box<[SmolStr]> {
    values.sort();
    values.dedup();
    values.into()
}

#[cfg(test)]
mod tests;
