//! Which nodes a pod may run on: node selectors and required node affinity. Taints are not considered here. Pure.

use flyball_api::de::null_default;
use flyball_api::{Labels, Node, RawJson, names};
use serde::Deserialize;
use smol_str::SmolStr;

/// The field by which a term can name a node.
const NAME: &str = "metadata.name";

/// Terms of which one must hold; a selector without any selects nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    #[serde(deserialize_with = "null_default")]
    pub node_selector_terms: Vec<Term>,
}

/// Requirements that must all hold; a term without any holds for no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Term {
    #[serde(deserialize_with = "null_default")]
    pub match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "null_default")]
    pub match_fields: Vec<Requirement>,
}

/// A requirement on one label or field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: SmolStr,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`; for fields only the first two are valid.
    pub operator: SmolStr,
    /// The values that it is compared with.
    #[serde(deserialize_with = "null_default")]
    pub values: Vec<SmolStr>,
}

impl NodeSelector {
    /// Whether a node with this name and these labels is selected. A term that makes no sense selects nothing, and
    /// does not keep the others from it.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(name, labels))
    }
}

impl Term {
    /// Whether a node with this name and these labels matches the term.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.holds(name, labels) == Some(true)
    }

    /// Whether the term holds; `None` if it makes no sense.
    fn holds(&self, name: &str, labels: &Labels) -> Option<bool> {
        let mut holds = !(self.match_expressions.is_empty() && self.match_fields.is_empty());
        for requirement in &self.match_expressions {
            holds &= requirement.holds_for_label(labels.get(&requirement.key))?;
        }
        for requirement in &self.match_fields {
            holds &= requirement.holds_for_field(if requirement.key == NAME { name } else { "" })?;
        }
        Some(holds)
    }
}

impl Requirement {
    fn holds_for_label(&self, label: Option<&str>) -> Option<bool> {
        let (listed, is_listed) = (!self.values.is_empty(), label.is_some_and(|label| self.lists(label)));
        let is_valid = names::is_qualified_name(&self.key)
            && self.values.iter().all(|value| names::is_label_value(value));
        match self.operator.as_str() {
            _ if !is_valid => None,
            "In" if listed => Some(is_listed),
            "NotIn" if listed => Some(!is_listed),
            "Exists" if !listed => Some(label.is_some()),
            "DoesNotExist" if !listed => Some(label.is_none()),
            "Gt" => self.bound().map(|bound| number(label).is_some_and(|number| number > bound)),
            "Lt" => self.bound().map(|bound| number(label).is_some_and(|number| number < bound)),
            _ => None,
        }
    }

    fn holds_for_field(&self, field: &str) -> Option<bool> {
        match (self.operator.as_str(), self.values.as_slice()) {
            ("In", [value]) => Some(field == value),
            ("NotIn", [value]) => Some(field != value),
            _ => None,
        }
    }

    fn lists(&self, label: &str) -> bool {
        self.values.iter().any(|value| value == label)
    }

    /// The single number that `Gt` and `Lt` compare with.
    fn bound(&self) -> Option<i64> {
        let [value] = self.values.as_slice() else { return None };
        value.parse().ok()
    }
}

fn number(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

/// The part of a pod's `spec.affinity` that is about nodes and must hold; `None` if it says nothing about that.
pub fn required(affinity: Option<&RawJson>) -> Option<NodeSelector> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Affinity {
        node_affinity: Option<NodeAffinity>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct NodeAffinity {
        required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    }
    // An invalid term selects nothing: no pod is better than one on the wrong node.
    match affinity?.to::<Affinity>() {
        Ok(affinity) => affinity.node_affinity?.required_during_scheduling_ignored_during_execution,
        Err(_) => Some(NodeSelector::default()),
    }
}

/// The node that a term names, as those of daemon pods do before they are scheduled.
pub fn named_node(selector: &NodeSelector) -> Option<&SmolStr> {
    let mut fields = selector.node_selector_terms.iter().flat_map(|term| &term.match_fields);
    let by_name = fields.find(|field| field.key == NAME && field.operator == "In")?;
    match by_name.values.as_slice() {
        [name] => Some(name),
        _ => None,
    }
}

/// The requirements of a pod on the name and labels of its node.
#[derive(Debug, Clone, Default)]
pub struct NodeRequirements {
    labels: Labels,
    required: Option<NodeSelector>,
}

impl NodeRequirements {
    /// The requirements of a pod with this `nodeSelector` and this `affinity`.
    pub fn new(node_selector: &Labels, affinity: Option<&RawJson>) -> Self {
        Self { labels: node_selector.clone(), required: required(affinity) }
    }

    /// Whether a node fulfils it.
    pub fn is_met_by(&self, node: &Node) -> bool {
        let labels = &node.metadata.labels;
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.required.as_ref().is_none_or(|required| required.matches(&node.metadata.name, labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node() -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8", "x": ""}}}),
        )
        .unwrap()
    }

    fn is_met(terms: Value) -> bool {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        NodeRequirements::new(&Labels::EMPTY, Some(&RawJson::from_value(&affinity))).is_met_by(&node())
    }

    #[test]
    fn requirements_on_labels() {
        #[rustfmt::skip]
        let table = [
            // key      operator        values               holds
            ("zone",    "In",           &["a", "b"][..],     true),
            ("zone",    "In",           &["b"],              false),
            ("zone",    "In",           &[],                 false),
            ("none",    "In",           &["a"],              false),
            ("zone",    "NotIn",        &["b"],              true),
            ("zone",    "NotIn",        &["a"],              false),
            ("none",    "NotIn",        &["a"],              true),
            ("zone",    "NotIn",        &[],                 false),
            ("x",       "Exists",       &[],                 true),
            ("none",    "Exists",       &[],                 false),
            ("zone",    "Exists",       &["a"],              false),
            ("none",    "DoesNotExist", &[],                 true),
            ("zone",    "DoesNotExist", &[],                 false),
            ("cores",   "Gt",           &["4"],              true),
            ("cores",   "Gt",           &["8"],              false),
            ("cores",   "Lt",           &["9"],              true),
            ("cores",   "Lt",           &["8"],              false),
            ("zone",    "Gt",           &["4"],              false),
            ("none",    "Lt",           &["4"],              false),
            ("cores",   "Gt",           &["four"],           false),
            ("cores",   "Lt",           &["8", "9"],         false),
            ("zone",    "Like",         &["a"],              false),
            ("bad key", "DoesNotExist", &[],                 false),
            ("zone",    "NotIn",        &["no value!"],      false),
        ];
        for (key, operator, values, want) in table {
            let term = json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
            assert_eq!(is_met(term), want, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_their_parts_are_not() {
        let on = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        #[rustfmt::skip]
        let table = [
            ("no term",                       json!([]),                                                                      false),
            ("null",                          Value::Null,                                                                    false),
            ("an empty term",                 json!([{}]),                                                                    false),
            ("one of two terms",              json!([{"matchExpressions": [on("zone", "b")]}, {"matchExpressions": [on("zone", "a")]}]), true),
            ("one of two parts",              json!([{"matchExpressions": [on("zone", "a"), on("cores", "1")]}]),             false),
            ("the name",                      json!([{"matchFields": [on("metadata.name", "n1")]}]),                          true),
            ("another name",                  json!([{"matchFields": [on("metadata.name", "n2")]}]),                          false),
            ("name and label",                json!([{"matchFields": [on("metadata.name", "n1")], "matchExpressions": [on("zone", "b")]}]), false),
            ("nonsense beside sense",         json!([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, {"matchExpressions": [on("zone", "a")]}]), true),
            ("nonsense within a term",        json!([{"matchExpressions": [on("zone", "a"), {"key": "zone", "operator": "Like"}]}]), false),
        ];
        for (case, terms, want) in table {
            assert_eq!(is_met(terms), want, "{case}");
        }
    }

    #[test]
    fn node_selectors_want_every_label() {
        let wish = |pairs: &[(&str, &str)]| {
            NodeRequirements::new(&Labels::from_iter(pairs.iter().copied()), None).is_met_by(&node())
        };
        assert!(wish(&[]) && wish(&[("zone", "a")]));
        assert!(!wish(&[("zone", "b")]) && !wish(&[("zone", "a"), ("none", "")]));
    }

    #[test]
    fn what_says_nothing_about_nodes_allows_all_and_what_cannot_be_read_none() {
        let met = |affinity: Value| {
            NodeRequirements::new(&Labels::EMPTY, Some(&RawJson::from_value(&affinity))).is_met_by(&node())
        };
        assert!(met(json!({})) && met(json!({"podAntiAffinity": {}})) && met(json!({"nodeAffinity": {}})));
        assert!(!met(json!({"nodeAffinity": 5})));
    }

    #[test]
    fn an_unscheduled_daemon_pod_names_its_node() {
        let name = |terms: Value| {
            let selector: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
            named_node(&selector).map(|name| name.to_string())
        };
        assert_eq!(
            name(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])),
            Some("n1".into())
        );
        assert_eq!(
            name(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}])
            ),
            None
        );
        assert_eq!(name(json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}])), None);
    }
}
