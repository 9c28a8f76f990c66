//! The fields of a policy's spec that are needed to check it.

use serde::Deserialize;
use smol_str::SmolStr;

use super::kinds::Kind;

/// The spec of a ValidatingAdmissionPolicy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) param_kind: Option<ParamKind>,
    pub(crate) match_constraints: MatchConstraints,
    pub(crate) validations: Vec<Validation>,
    pub(crate) variables: Vec<Variable>,
}

/// The kind of the parameters of a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ParamKind {
    pub(crate) api_version: SmolStr,
    pub(crate) kind: SmolStr,
}

impl ParamKind {
    /// The kind, if the version can be parsed.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let (group, version) = match self.api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => return None,
            Some((group, version)) => (group, version),
            None => ("", self.api_version.as_str()),
        };
        let kind = Kind { group: group.into(), version: version.into(), kind: self.kind.clone() };
        (kind != Kind::default()).then_some(kind)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MatchConstraints {
    pub(crate) resource_rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) api_groups: Vec<SmolStr>,
    pub(crate) api_versions: Vec<SmolStr>,
    pub(crate) resources: Vec<SmolStr>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Validation {
    pub(crate) expression: String,
    pub(crate) message_expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Variable {
    pub(crate) name: SmolStr,
    pub(crate) expression: String,
}
