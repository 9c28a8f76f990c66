//! What upstream's checker says of several hundred expressions about one custom kind, recorded from its own code.

use std::sync::Arc;

use serde::Deserialize;

use super::super::kinds::Kind;
use super::super::plan::warnings;
use super::super::policy::{MatchConstraints, Spec, Validation, Variable};
use super::super::schema::Document;
use super::super::variables::{ObjectType, Params};

#[derive(Deserialize)]
struct Case {
    expression: String,
    #[serde(default)]
    variables: Vec<(String, String)>,
    #[serde(default)]
    has_params: bool,
    #[serde(default)]
    warning: String,
}

#[test]
fn warnings_are_those_of_upstream() {
    let document: Document = serde_json::from_str(include_str!("widget.json")).unwrap();
    let kind = Kind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
    let named = |name| {
        let (of, objects) = document.object_type(&kind, name).unwrap().unwrap();
        ObjectType { of, objects: Arc::new(objects) }
    };
    let (widget, other_widget) = (named("Widget1"), named("Widget2"));
    let mut wrong = String::new();
    for line in include_str!("expressions.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let variable = |(name, expression): (String, String)| Variable { name: name.into(), expression };
        let spec = Spec {
            param_kind: None,
            match_constraints: MatchConstraints::default(),
            validations: vec![Validation { expression: case.expression.clone(), ..Default::default() }],
            variables: case.variables.into_iter().map(variable).collect(),
        };
        let params = if case.has_params { Params::Known(other_widget.clone()) } else { Params::None };
        let found = warnings(&spec, &[(kind.clone(), widget.clone())], &params);
        let found: String = found.iter().map(|warning| warning.warning.as_str()).collect();
        let found = found.replace("Widget1", "Widget").replace("Widget2", "Widget");
        if found != case.warning {
            wrong += &format!("{}\n--- upstream\n{}--- ours\n{found}\n", case.expression, case.warning);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
