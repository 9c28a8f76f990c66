//! Thousands of expressions with their results in the real API server's environment: value, error, cost, or why it is refused.
//! `tools/controlplane/cel` writes the expected results; `exceptions.txt` lists the expressions whose results differ here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_cel::authz::{Authorize, Decision, Question, ResourceCheck, Subject};
use flyball_cel::{Checker, Env, Opaque, PER_CALL_LIMIT, Program, Refusal, Type, Value};
use serde::Deserialize;
use smol_str::SmolStr;

#[derive(Debug, Deserialize)]
struct Answer {
    expression: String,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    refused: String,
    cost: Option<u64>,
}

/// Decides as the authorizer of `tools/controlplane/cel`.
struct ByName;

impl Authorize for ByName {
    fn decide(&self, question: &Question<'_>) -> Decision {
        let user = |subject: &Subject| match subject {
            Subject::Requester => "someone".to_owned(),
            Subject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        };
        let words = match question {
            Question::Path { subject, verb, path } => {
                format!("{} {verb} {path}      ", user(subject))
            }
            Question::Resource { subject, verb, of } => {
                let ResourceCheck { group, resource, subresource, namespace, name, .. } = of;
                let user = user(subject);
                let mut words =
                    format!("{user} {verb}  {group} * {resource} {subresource} {namespace} {name}");
                if of.field_selector == "a=b" {
                    words += " a=b";
                }
                if of.label_selector == "x in (y,z)" {
                    words += " x in (y,z)";
                }
                words
            }
        };
        let is_allowed = words.contains("allowed");
        let error = (!is_allowed && words.contains("broken")).then(|| "the authorizer is broken".to_owned());
        Decision { is_allowed, reason: words, error }
    }
}

/// Our result of an expression: type, value, error, refusal, cost.
fn ours(expression: &str, env: &Env, variables: &BTreeMap<SmolStr, serde_json::Value>) -> [String; 5] {
    let program = match Program::compile(expression, env) {
        Ok(program) => program,
        Err(refusal) => {
            let why = match &refusal {
                Refusal::Compilation(report) => report.clone(),
                Refusal::Program(_) => refusal.to_string(),
            };
            return [String::new(), String::new(), String::new(), why, String::new()];
        }
    };
    let mut bound: BTreeMap<SmolStr, Value<'_>> =
        variables.iter().map(|(name, data)| (name.clone(), Value::of(data))).collect();
    let authorizer = Opaque::Authorizer(Checker::of_requester(Arc::new(ByName)));
    bound.insert("authorizer".into(), Value::Opaque(authorizer));
    let evaluation = program.evaluate(&bound, PER_CALL_LIMIT);
    let (value, error) = match evaluation.outcome {
        Ok(value) => (value.to_string(), String::new()),
        Err(error) => (String::new(), error.to_string()),
    };
    [program.result_type().to_string(), value, error, String::new(), evaluation.cost.to_string()]
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn expressions_give_what_the_real_server_gives() {
    let variables: BTreeMap<SmolStr, serde_json::Value> =
        serde_json::from_str(include_str!("data/variables.json")).unwrap();
    let mut env = Env::default();
    for name in variables.keys() {
        env.variable(name.clone(), Type::Dyn);
    }
    env.variable("authorizer", Type::Object("kubernetes.authorization.Authorizer".into()));
    let exceptions: BTreeSet<&str> = lines(include_str!("data/exceptions.txt")).collect();

    let (mut compared, mut different, mut excused) = (0, Vec::new(), BTreeSet::new());
    for line in include_str!("data/answers.jsonl").lines() {
        let answer: Answer = serde_json::from_str(line).unwrap();
        let expression = answer.expression.as_str();
        let cost = answer.cost.map_or(String::new(), |cost| cost.to_string());
        // The checker has other names for some types than values have.
        let of = answer.r#type.replace("google.protobuf.Timestamp", "timestamp");
        let of = of.replace("google.protobuf.Duration", "duration").replace("null_type", "null");
        let theirs = [of, answer.value, answer.error, answer.refused, cost];
        let ours = ours(expression, &env, &variables);
        compared += 1;
        let is_same = if theirs[3].is_empty() { theirs == ours } else { theirs[3] == ours[3] };
        match (is_same, exceptions.contains(expression)) {
            (false, false) => different.push(format!("{expression}\n  theirs {theirs:?}\n  ours   {ours:?}")),
            (false, true) => {
                excused.insert(expression.to_owned());
            }
            (true, _) => {}
        }
    }
    let needless: Vec<_> = exceptions.iter().filter(|known| !excused.contains(**known)).collect();
    assert!(
        different.is_empty(),
        "{} of {compared} differ:\n{}",
        different.len(),
        different
            .iter()
            .take(if std::env::var_os("ALL").is_some() { 9999 } else { 40 })
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(needless.is_empty(), "no exception any more: {needless:?}");
    assert!(compared > 1000, "only {compared} expressions");
}
