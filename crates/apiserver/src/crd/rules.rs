//! Runs the validation rules of schemas (`x-kubernetes-validations`), with the error messages of the real server.
//!
//! In a rule, `self` is the value at its schema and `oldSelf` its old value, where old and new can be matched. A rule that an
//! unchanged value breaks does not block an update: otherwise a new rule would make existing objects immutable.

mod faults;

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_cel::{
    Env, Fields, PER_CALL_LIMIT, Program, RUNTIME_BUDGET, Refusal, Schema, Type, Value as Cel,
};
use serde_json::Value;
use smol_str::SmolStr;

use crate::invalid::{Cause, Fault};
pub(crate) use faults::faults;

const RULES: &str = "x-kubernetes-validations";
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The limit on messages from a `messageExpression`.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The rules at one schema and below it.
#[derive(Debug)]
pub(crate) struct Rules {
    schema: Schema,
    of: String,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    values: Option<Box<Rules>>,
    items: Option<Box<Rules>>,
    all_of: Vec<Rules>,
    /// The fields that identify an entry of the list; `None` if entries have no identity.
    keys: Option<Vec<String>>,
    is_atomic: bool,
}

#[derive(Debug)]
struct Rule {
    program: Result<Program, String>,
    message_program: Option<Program>,
    rule: String,
    message: String,
    reason: Option<String>,
    field_path: String,
    takes_optional: bool,
}

impl Rule {
    /// The text of the rule in errors.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn uses_old(&self) -> bool {
        self.program.as_ref().is_ok_and(|program| program.refers_to("oldSelf"))
    }
}

/// The result of running rules.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) causes: Vec<Cause>,
    pub(crate) warnings: Vec<String>,
}

impl Rules {
    /// Compiles the rules of a schema, if it has any.
    pub(crate) fn read(schema: &Value) -> Option<Self> {
        read(schema, schema, true)
    }

    /// Runs the rules on a new object, or on a change of one.
    pub(crate) fn run(&self, object: &Value, old: Option<&Value>) -> Findings {
        let mut run = Run { findings: Findings::default(), budget: RUNTIME_BUDGET, is_over: false };
        let ratchet = Ratchet { is_same: old.map(|old| old == object), is_parent_same: None };
        run.visit(self, object, old, "", ratchet);
        run.findings
    }
}

fn read(schema: &Value, shape: &Value, is_root: bool) -> Option<Rules> {
    let text = |key: &str| schema[key].as_str().unwrap_or_default();
    let is_embedded = shape["x-kubernetes-embedded-resource"] == true;
    let typed = Schema::read(shape, "selfType", is_root || is_embedded);
    let declared = schema[RULES].as_array().map(Vec::as_slice).unwrap_or_default();
    let rules: Vec<Rule> = if declared.is_empty() { vec![] } else { compiled(declared, &typed, shape) };
    let below = |inner: &Value| read(inner, inner, false);
    let properties: BTreeMap<String, Rules> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, inner)| Some((name.clone(), below(inner)?)))
        .collect();
    let values = schema.get("additionalProperties").and_then(below).map(Box::new);
    let items = schema.get("items").and_then(below).map(Box::new);
    let all_of: Vec<Rules> = schema["allOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|part| read(part, shape, is_root))
        .collect();
    if rules.is_empty() && properties.is_empty() && values.is_none() && items.is_none() && all_of.is_empty() {
        return None;
    }
    let keys = (text("x-kubernetes-list-type") == "map").then(|| {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    });
    let is_atomic = text("x-kubernetes-map-type") == "atomic";
    let of = shape["type"].as_str().unwrap_or_default().to_owned();
    Some(Rules { schema: typed, of, rules, properties, values, items, all_of, keys, is_atomic })
}

/// The environments of a schema's rules: with `oldSelf`, and with `oldSelf` as an optional value.
fn environments(schema: &Schema) -> [Env; 2] {
    let mut objects: BTreeMap<SmolStr, Fields> = BTreeMap::new();
    let of = schema.declare(&mut objects).unwrap_or(Type::Dyn);
    let objects = Arc::new(objects);
    [of.clone(), Type::optional(of.clone())].map(|old| {
        let mut env = Env::default();
        env.objects(Arc::clone(&objects));
        env.variable("self", of.clone());
        env.variable("oldSelf", old);
        env
    })
}

fn compiled(declared: &[Value], schema: &Schema, shape: &Value) -> Vec<Rule> {
    let [plain, optional] = environments(schema);
    let one = |declared: &Value| {
        let text = |key: &str| declared[key].as_str().unwrap_or_default().to_owned();
        let takes_optional = declared["optionalOldSelf"] == true;
        let env = if takes_optional { &optional } else { &plain };
        let message = Some(text("messageExpression")).filter(|text| !text.trim().is_empty());
        Rule {
            program: compile(&text("rule"), env, &Type::Bool, Kind::Rule),
            message_program: message.and_then(|text| compile(&text, env, &Type::String, Kind::Message).ok()),
            rule: text("rule"),
            message: text("message"),
            reason: declared["reason"].as_str().map(str::to_owned),
            field_path: field_path(&text("fieldPath"), shape).unwrap_or_default(),
            takes_optional,
        }
    };
    declared.iter().map(one).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rule,
    Message,
}

/// The compiled expression, or the real server's message for an invalid one.
fn compile(expression: &str, env: &Env, wanted: &Type, kind: Kind) -> Result<Program, String> {
    let prefix = if kind == Kind::Message { "messageExpression " } else { "" };
    let program = Program::compile(expression, env).map_err(|refusal| match refusal {
        Refusal::Compilation(report) => format!("{prefix}compilation failed: {report}"),
        Refusal::Program(why) if kind == Kind::Rule => format!("program instantiation failed: {why}"),
        Refusal::Program(why) => format!("messageExpression instantiation failed: {why}"),
    })?;
    match (program.result_type() == wanted, kind) {
        (true, _) => Ok(program),
        (false, Kind::Rule) => Err("cel expression must evaluate to a bool".to_owned()),
        (false, Kind::Message) => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

/// The `fieldPath` of a rule as errors show it; `None` if the schema has no such path.
fn field_path(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema, mut shown) = (path, schema, String::new());
    while !rest.is_empty() {
        let name: String;
        if let Some(after) = rest.strip_prefix("['") {
            let end = after.find("']")?;
            name = after[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = &after[end + 2..];
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        }
        if let Some(properties) = schema.get("properties") {
            schema = properties.get(&name)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else {
            schema = schema.get("additionalProperties")?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}

/// Ratcheting: a broken rule is ignored if the value has not changed.
#[derive(Debug, Clone, Copy)]
struct Ratchet {
    /// Whether the value is unchanged; `None` if it has no old value to compare with.
    is_same: Option<bool>,
    /// The same for the nearest enclosing value that has an old one.
    is_parent_same: Option<bool>,
}

impl Ratchet {
    /// Whether broken rules are ignored.
    fn excuses(self) -> bool {
        self.is_same.or(self.is_parent_same).unwrap_or(false)
    }

    /// For a value inside of this one, with its own comparison.
    fn below(self, is_same: Option<bool>) -> Self {
        match self.is_same {
            None => self,
            known => Self { is_same, is_parent_same: known },
        }
    }
}

struct Run {
    findings: Findings,
    budget: u64,
    is_over: bool,
}

impl Run {
    fn visit(&mut self, rules: &Rules, value: &Value, old: Option<&Value>, path: &str, ratchet: Ratchet) {
        if value.is_null() || self.is_over {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        for rule in &rules.rules {
            if self.is_over {
                return;
            }
            self.rule(rules, rule, value, old, path, ratchet);
        }
        for part in &rules.all_of {
            let ratchet = Ratchet { is_same: None, is_parent_same: ratchet.is_parent_same };
            self.visit(part, value, old, path, ratchet);
        }
        match value {
            Value::Array(items) => self.items(rules, items, old, path, ratchet),
            Value::Object(members) => {
                let old_members = old.and_then(Value::as_object).filter(|_| !rules.is_atomic);
                for (name, member) in members {
                    let old = old_members.and_then(|old| old.get(name));
                    let ratchet = ratchet.below(old.map(|old| old == member));
                    if let Some(inner) = rules.properties.get(name) {
                        self.visit(inner, member, old, &child(path, name), ratchet);
                    } else if let Some(inner) = &rules.values {
                        self.visit(inner, member, old, &format!("{path}[{name}]"), ratchet);
                    }
                }
            }
            _ => {}
        }
    }

    fn items(&mut self, rules: &Rules, items: &[Value], old: Option<&Value>, path: &str, ratchet: Ratchet) {
        let Some(inner) = &rules.items else { return };
        let old_items = old.and_then(Value::as_array);
        for (at, item) in items.iter().enumerate() {
            let old = rules.keys.as_ref().and_then(|keys| {
                let is_it = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
                old_items?.iter().find(is_it)
            });
            let ratchet = ratchet.below(old.map(|old| old == item));
            self.visit(inner, item, old, &format!("{path}[{at}]"), ratchet);
        }
    }

    fn invalid(&mut self, rules: &Rules, path: &str, detail: &str) {
        let path = if path.is_empty() { "<nil>" } else { path };
        self.findings.causes.push(Cause::invalid(path, rules.of.as_str(), detail));
    }

    fn rule<'a>(
        &mut self,
        rules: &'a Rules,
        rule: &'a Rule,
        value: &'a Value,
        old: Option<&'a Value>,
        path: &str,
        ratchet: Ratchet,
    ) {
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => return self.invalid(rules, path, &format!("rule compile error: {why}")),
        };
        if self.budget == 0 {
            self.is_over = true;
            return self.invalid(rules, path, OUT_OF_BUDGET);
        }
        if rule.uses_old() && old.is_none() && !rule.takes_optional {
            return;
        }
        let variables = variables(rules, rule, value, old);
        let evaluation = program.evaluate(&variables, PER_CALL_LIMIT);
        if evaluation.cost > self.budget {
            self.is_over = true;
            return self.invalid(rules, path, OUT_OF_BUDGET);
        }
        self.budget -= evaluation.cost;
        match evaluation.outcome {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => self.broken(rules, rule, value, &variables, path, ratchet),
            Err(error) => {
                let (why, shown) = (error.message(), rule.shown());
                let detail = if why.starts_with("no such overload") {
                    format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {shown}"
                    )
                } else if error.is_final() {
                    self.is_over = true;
                    format!(
                        "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    )
                } else {
                    format!("{why} evaluating rule: {shown}")
                };
                self.invalid(rules, path, &detail);
            }
        }
    }

    fn broken<'a>(
        &mut self,
        rules: &Rules,
        rule: &'a Rule,
        value: &Value,
        variables: &BTreeMap<SmolStr, Cel<'a>>,
        path: &str,
        ratchet: Ratchet,
    ) {
        let path = match rule.field_path.as_str() {
            "" => path.to_owned(),
            more => child(path, more),
        };
        let path = if path.is_empty() { "<nil>".to_owned() } else { path };
        let made = rule.message_program.as_ref().map(|program| {
            let evaluation = program.evaluate(variables, PER_CALL_LIMIT);
            let is_affordable = evaluation.cost <= self.budget;
            self.budget = self.budget.saturating_sub(evaluation.cost);
            (is_affordable, evaluation.outcome)
        });
        let message = match made {
            Some((false, _)) => {
                self.is_over = true;
                Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules \
                     will be run"
                    .to_owned())
            }
            Some((true, Ok(Cel::String(text)))) => Ok(Some(text.trim().to_owned())
                .filter(|text| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n'))),
            Some((true, Err(error))) if error.is_final() => {
                self.is_over = true;
                Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                    rule.rule
                ))
            }
            _ => Ok(None),
        };
        let default = || match rule.message.is_empty() {
            true => format!("failed rule: {}", rule.shown()),
            false => rule.message.trim().to_owned(),
        };
        let detail = message.map(|message| message.unwrap_or_else(default));
        let cause = match detail {
            Err(detail) => Cause::invalid(path, rules.of.as_str(), &detail),
            Ok(detail) => {
                let shown = Some(value).filter(|_| !matches!(rules.of.as_str(), "object" | "array"));
                cause(path, shown, &detail, rule.reason.as_deref())
            }
        };
        if !rule.uses_old() && ratchet.excuses() {
            self.findings.warnings.push(format!("{}: {}", cause.field, cause.message));
        } else {
            self.findings.causes.push(cause);
        }
    }
}

fn variables<'a>(
    rules: &'a Rules,
    rule: &Rule,
    value: &'a Value,
    old: Option<&'a Value>,
) -> BTreeMap<SmolStr, Cel<'a>> {
    let mut variables = BTreeMap::from([("self".into(), Cel::typed(value, Some(&rules.schema)))]);
    let old = old.map(|old| Cel::typed(old, Some(&rules.schema)));
    let old = if rule.takes_optional { Some(Cel::Optional(old.map(Arc::new))) } else { old };
    variables.extend(old.map(|old| ("oldSelf".into(), old)));
    variables
}

/// The error of a broken rule. Objects and lists are not repeated in it.
fn cause(path: String, value: Option<&Value>, detail: &str, reason: Option<&str>) -> Cause {
    let without = |fault: Fault, words: &str| Cause {
        fault,
        field: path.clone(),
        message: if detail.is_empty() { words.to_owned() } else { format!("{words}: {detail}") },
    };
    match (reason, value) {
        (Some("FieldValueForbidden"), _) => Cause::forbidden(path, detail),
        (Some("FieldValueRequired"), _) => Cause::required(path, detail),
        (Some("FieldValueDuplicate"), Some(value)) => Cause::duplicate(path, value.clone()),
        (Some("FieldValueDuplicate"), None) => {
            Cause { fault: Fault::Duplicate, field: path.clone(), message: "Duplicate value".to_owned() }
        }
        (_, Some(value)) => Cause::invalid(path, value.clone(), detail),
        (_, None) => without(Fault::Invalid, "Invalid value"),
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
