//! Label selectors: the object form of specs, the text form of queries, and the compiled form that matches.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::Labels;
use crate::de::null_default;

/// A selector as it stands in a spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with exactly these values.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,
    /// Further requirements, all of which must hold.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One expression of a [`LabelSelector`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// The label looked at.
    pub key: SmolStr,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: SmolStr,
    /// What the label is compared with.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<SmolStr>,
}

/// Why a selector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// The object form knows four operators.
    #[error("{operator:?} is not a label selector operator (In, NotIn, Exists, DoesNotExist)")]
    Operator {
        /// As given.
        operator: SmolStr,
    },
    /// `In` and `NotIn` compare with something.
    #[error("the selector on label {key:?} must list at least one value")]
    NoValues {
        /// The label.
        key: SmolStr,
    },
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("the selector on label {key:?} must not list values")]
    UnexpectedValues {
        /// The label.
        key: SmolStr,
    },
}

/// A compiled selector.
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

/// Value lists are sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Box<[SmolStr]>),
    NotIn(Box<[SmolStr]>),
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[SmolStr], value: &str| values.iter().any(|v| v == value);
        match self {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|v| among(values, v)),
            Test::NotIn(values) => !value.is_some_and(|v| among(values, v)),
        }
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

    /// Matches what carries all of `labels`: the form Services and ReplicationControllers use.
    pub fn from_labels(labels: &Labels) -> Self {
        let equal = |(key, value): (&str, &str)| Requirement {
            key: key.into(),
            test: Test::In(Box::new([value.into()])),
        };
        Self(Match::All(labels.iter().map(equal).collect()))
    }

    /// Compiles the object form. An absent selector matches nothing, an empty one everything.
    pub fn from_object(selector: Option<&LabelSelector>) -> Result<Self, InvalidSelector> {
        let Some(selector) = selector else { return Ok(Self::nothing()) };
        let mut requirements = match Self::from_labels(&selector.match_labels).0 {
            Match::All(requirements) => requirements.into_vec(),
            Match::Nothing => vec![],
        };
        for expression in &selector.match_expressions {
            requirements.push(Requirement { key: expression.key.clone(), test: expression.test()? });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(Match::All(requirements.into())))
    }

    /// Whether `labels` satisfy it.
    pub fn matches(&self, labels: &Labels) -> bool {
        match &self.0 {
            Match::Nothing => false,
            Match::All(requirements) => requirements.iter().all(|r| r.test.holds(labels.get(&r.key))),
        }
    }

    /// Whether it asks for nothing. Upstream treats such selectors with care where they would match too much.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Match::All(requirements) if requirements.is_empty())
    }
}

impl LabelSelector {
    /// Whether it has no requirement, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// The compiled form.
    pub fn compile(&self) -> Result<Selector, InvalidSelector> {
        Selector::from_object(Some(self))
    }
}

impl LabelSelectorRequirement {
    fn test(&self) -> Result<Test, InvalidSelector> {
        let values = || {
            let mut values = self.values.clone();
            values.sort();
            values.dedup();
            values.into_boxed_slice()
        };
        let key = || self.key.clone();
        match (self.operator.as_str(), self.values.is_empty()) {
            ("In", false) => Ok(Test::In(values())),
            ("NotIn", false) => Ok(Test::NotIn(values())),
            ("In" | "NotIn", true) => Err(InvalidSelector::NoValues { key: key() }),
            ("Exists", true) => Ok(Test::Exists),
            ("DoesNotExist", true) => Ok(Test::Absent),
            ("Exists" | "DoesNotExist", false) => Err(InvalidSelector::UnexpectedValues { key: key() }),
            _ => Err(InvalidSelector::Operator { operator: self.operator.clone() }),
        }
    }
}
