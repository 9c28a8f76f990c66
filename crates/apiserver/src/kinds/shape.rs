//! Converts JSON to the shape of a type, as Go's decoder and encoder would: values of wrong types are refused with Go's error,
//! unknown fields are removed and reported, and empty values are dropped or written. A second pass changes nothing. Objects
//! are shaped when they are received, and again after strategy and admission.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::quantity::{self, Quantity};
use super::schema::{Field, Presence, Schema, Shape, Type};

/// Shapes `value` as `kind`. `Ok` has the paths of the unknown fields, which are removed; `Err` is the error of upstream's decoder
/// for a value of the wrong JSON type.
pub fn shape(schema: &Schema, kind: &Type, value: &mut Value) -> Result<Vec<String>, String> {
    let mut pass = Pass { schema, unknown: Vec::new() };
    pass.object(kind, value, &Place::ROOT)?;
    Ok(pass.unknown)
}

struct Pass<'a> {
    schema: &'a Schema,
    unknown: Vec<String>,
}

/// The path of a value, as a linked list from the root: it is formatted only for errors.
#[derive(Clone, Copy)]
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field { owner: &'static str, name: &'p str },
    Item(usize),
    Key(&'p str),
}

impl<'p> Place<'p> {
    const ROOT: Place<'static> = Place { parent: None, step: Step::Root };

    fn then(&'p self, step: Step<'p>) -> Place<'p> {
        Place { parent: Some(self), step }
    }

    /// As in most messages: `spec.containers[0].image`.
    fn path(&self) -> String {
        let before = self.parent.map(Place::path).unwrap_or_default();
        let dot = if before.is_empty() { "" } else { "." };
        match self.step {
            Step::Root => before,
            Step::Field { name, .. } | Step::Key(name) => format!("{before}{dot}{name}"),
            Step::Item(at) => format!("{before}[{at}]"),
        }
    }

    /// For Go's errors, which leave out indexes and keys: the struct that has the field, and `spec.containers.image`.
    fn go_field(&self) -> Option<(&'static str, String)> {
        let before = self.parent.and_then(Place::go_field);
        match (self.step, before) {
            (Step::Field { owner, name }, Some((_, path))) => Some((owner, format!("{path}.{name}"))),
            (Step::Field { owner, name }, None) => Some((owner, name.to_owned())),
            (_, before) => before,
        }
    }
}

impl Pass<'_> {
    fn object(&mut self, kind: &Type, value: &mut Value, at: &Place<'_>) -> Result<(), String> {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        if !value.is_object() {
            return Err(self.mismatch(value, &Shape::Object(kind.id), at));
        }
        let Value::Object(map) = value else { return Ok(()) };
        if map.keys().any(|key| kind.field(key).is_none()) {
            for key in map.keys().filter(|key| kind.field(key).is_none()) {
                self.unknown.push(at.then(Step::Key(key)).path());
            }
            map.retain(|key, _| kind.field(key).is_some());
        }
        for field in &kind.fields {
            match map.get_mut(field.name) {
                Some(Value::Null) if field.shape != Shape::Any => {
                    map.remove(field.name);
                }
                Some(present) => {
                    let place = at.then(Step::Field { owner: kind.go_name(), name: field.name });
                    self.value(&field.shape, present, &place)?;
                    if is_dropped(field, present) {
                        map.remove(field.name);
                    }
                }
                None => {}
            }
            if !map.contains_key(field.name)
                && let Some(mut empty) = written_when_absent(field)
            {
                if let (Shape::Object(id), false) = (&field.shape, empty.is_null()) {
                    let schema = self.schema;
                    self.object(schema.get(*id), &mut empty, at)?;
                }
                map.insert(field.name.to_owned(), empty);
            }
        }
        Ok(())
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, at: &Place<'_>) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Any, _) => Ok(()),
            (Shape::Object(id), _) => {
                let schema = self.schema;
                self.object(schema.get(*id), value, at)
            }
            (Shape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.item(item, value, &at.then(Step::Item(index)))?;
                }
                Ok(())
            }
            (Shape::Map(item), Value::Object(map)) => {
                for (key, value) in map.iter_mut() {
                    self.item(item, value, &at.then(Step::Key(key)))?;
                }
                Ok(())
            }
            (Shape::String, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Float, Value::Number(_)) => Ok(()),
            (Shape::Int32, Value::Number(n)) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {
                Ok(())
            }
            (Shape::Int64, Value::Number(n)) if n.as_i64().is_some() => Ok(()),
            (Shape::IntOrString, Value::String(_)) => Ok(()),
            (Shape::IntOrString, Value::Number(n))
                if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Ok(())
            }
            (Shape::Quantity, _) => canonical_quantity(value),
            (Shape::Time, Value::String(text)) => canonical_time(text, 0),
            (Shape::MicroTime, Value::String(text)) => canonical_time(text, 6),
            (Shape::Duration, Value::String(_)) => Ok(()),
            (Shape::Bytes, Value::String(text)) => canonical_base64(text),
            _ => Err(self.mismatch(value, shape, at)),
        }
    }

    /// A `null` in a list or map is the zero value of its item type.
    fn item(&mut self, shape: &Shape, value: &mut Value, at: &Place<'_>) -> Result<(), String> {
        if value.is_null() {
            *value = zero(shape);
        }
        if value.is_null() {
            return Ok(());
        }
        self.value(shape, value, at)
    }

    fn mismatch(&self, value: &Value, shape: &Shape, at: &Place<'_>) -> String {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(n) if matches!(shape, Shape::Int32 | Shape::Int64 | Shape::IntOrString) => {
                format!("number {n}")
            }
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let target = match at.go_field() {
            None => "Go value".to_owned(),
            Some((owner, path)) => format!("Go struct field {owner}.{path}"),
        };
        format!("json: cannot unmarshal {found} into {target} of type {}", self.go_type(shape))
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::String | Shape::Time | Shape::MicroTime | Shape::Duration => "string".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 | Shape::IntOrString => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Float => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::Any => "interface {}".to_owned(),
            Shape::Object(id) => {
                let name = self.schema.get(*id).name;
                name.rsplit_once('/').map_or(name, |(_, last)| last).to_owned()
            }
            Shape::List(item) => format!("[]{}", self.go_type(item)),
            Shape::Map(item) => format!("map[string]{}", self.go_type(item)),
        }
    }
}

fn is_dropped(field: &Field, value: &Value) -> bool {
    match field.presence {
        Presence::NonEmpty => is_empty(value),
        // The stored form does not distinguish an empty list from an absent one: both are read as null.
        Presence::Always | Presence::Nullable => {
            matches!(field.shape, Shape::List(_) | Shape::Map(_)) && is_empty(value)
        }
        // Pointers to lists and maps do not occur, so an empty list under a pointer is a list without one.
        Presence::Optional => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

fn written_when_absent(field: &Field) -> Option<Value> {
    match field.presence {
        Presence::Optional | Presence::NonEmpty => None,
        Presence::Nullable => Some(Value::Null),
        Presence::Always => Some(zero(&field.shape)),
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::from(""),
        Shape::Bool => Value::from(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Float => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::Object(_) => Value::Object(Map::new()),
        Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Any | Shape::List(_) | Shape::Map(_) => {
            Value::Null
        }
    }
}

fn canonical_quantity(value: &mut Value) -> Result<(), String> {
    let parsed = match &*value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(n) => Quantity::parse(&n.to_string()),
        _ => None,
    };
    let canonical = parsed.map(Quantity::canonical).ok_or(quantity::SYNTAX)?;
    if value.as_str() != Some(&canonical) {
        *value = Value::from(canonical);
    }
    Ok(())
}

fn canonical_time(text: &mut String, precision: u8) -> Result<(), String> {
    let layout =
        if precision == 0 { "2006-01-02T15:04:05Z07:00" } else { "2006-01-02T15:04:05.000000Z07:00" };
    let Ok(time) = text.parse::<Timestamp>() else {
        // `Timestamp` cannot represent the last hours of the year 9999; such times stay unchanged.
        let civil = text.strip_suffix('Z').map(str::parse::<jiff::civil::DateTime>);
        return match civil {
            Some(Ok(_)) => Ok(()),
            _ => Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")),
        };
    };
    let canonical = format_time(time, precision);
    if *text != canonical {
        *text = canonical;
    }
    Ok(())
}

/// RFC 3339 in UTC, cut (not rounded) to the given number of fractional digits.
pub(crate) fn format_time(time: Timestamp, precision: u8) -> String {
    if precision == 0 {
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else {
        time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }
}

fn canonical_base64(text: &mut String) -> Result<(), String> {
    const CODEC: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    // Go's decoder skips line breaks, as in the output of `base64` without -w0.
    if text.contains(['\n', '\r']) {
        text.retain(|c| c != '\n' && c != '\r');
    }
    match CODEC.decode(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => text.len(),
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::schema::builtin;

    fn deployment(spec: Value, container: Value) -> Value {
        let mut object = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        json_patch::merge(&mut object["spec"], &spec);
        object
    }

    fn shaped(kind: (&str, &str), mut object: Value) -> Result<(Value, Vec<String>), String> {
        let unknown = shape(builtin(), builtin().kind(kind.0, kind.1).unwrap(), &mut object)?;
        Ok((object, unknown))
    }

    #[test]
    fn wrong_types_are_refused_in_the_words_of_go() {
        let unmarshal = "json: cannot unmarshal";
        let field = "into Go struct field";
        #[rustfmt::skip]
        let table = [
            (json!({"replicas": "3"}),        json!({}), format!("{unmarshal} string {field} DeploymentSpec.spec.replicas of type int32")),
            (json!({"replicas": 1.5}),        json!({}), format!("{unmarshal} number 1.5 {field} DeploymentSpec.spec.replicas of type int32")),
            (json!({"replicas": 3000000000u32}), json!({}), format!("{unmarshal} number 3000000000 {field} DeploymentSpec.spec.replicas of type int32")),
            (json!({"paused": "x"}),          json!({}), format!("{unmarshal} string {field} DeploymentSpec.spec.paused of type bool")),
            (json!({"strategy": []}),         json!({}), format!("{unmarshal} array {field} DeploymentSpec.spec.strategy of type v1.DeploymentStrategy")),
            (json!({}), json!({"image": 5}),             format!("{unmarshal} number {field} Container.spec.template.spec.containers.image of type string")),
            (json!({}), json!({"ports": {"a": 1}}),      format!("{unmarshal} object {field} Container.spec.template.spec.containers.ports of type []v1.ContainerPort")),
            (json!({}), json!({"resources": {"limits": {"cpu": "abc"}}}), quantity::SYNTAX.to_owned()),
        ];
        for (spec, container, want) in table {
            assert_eq!(shaped(("apps/v1", "Deployment"), deployment(spec, container)).unwrap_err(), want);
        }
        let secret = shaped(("v1", "Secret"), json!({"data": {"a": "!!"}}));
        assert_eq!(secret.unwrap_err(), "illegal base64 data at input byte 0");
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let object = deployment(json!({"replica": 3}), json!({"name": "c", "imag": "x"}));
        let (object, unknown) = shaped(("apps/v1", "Deployment"), object).unwrap();
        assert_eq!(unknown, ["spec.replica", "spec.template.spec.containers[0].imag"]);
        assert_eq!(object["spec"]["template"]["spec"]["containers"], json!([{"name": "c", "resources": {}}]));
    }

    #[test]
    fn empty_values_come_and_go_as_in_go() {
        let container =
            json!({"name": "c", "image": "", "command": [], "stdin": false, "securityContext": {}});
        let (object, _) =
            shaped(("apps/v1", "Deployment"), deployment(json!({"replicas": 0, "paused": false}), container))
                .unwrap();
        let want = json!({"metadata": {}, "status": {}, "spec": {
            "replicas": 0, "selector": null, "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}, "securityContext": {}}]}},
        }});
        assert_eq!(object, want);
        assert_eq!(
            shaped(("apps/v1", "Deployment"), object.clone()).unwrap(),
            (object, vec![]),
            "a second pass changes nothing"
        );
        let (role, _) =
            shaped(("rbac.authorization.k8s.io/v1", "ClusterRole"), json!({"rules": []})).unwrap();
        assert_eq!(role["rules"], Value::Null);
        let (map, _) = shaped(("v1", "ConfigMap"), json!({"data": {"a": null}})).unwrap();
        assert_eq!(map["data"], json!({"a": ""}));
    }

    #[test]
    fn scalars_have_one_form() {
        let status = json!({"startTime": "2024-01-01T01:00:00.9+01:00"});
        let (pod, _) = shaped(("v1", "Pod"), json!({"status": status})).unwrap();
        assert_eq!(pod["status"]["startTime"], "2024-01-01T00:00:00Z");
        let (lease, _) = shaped(
            ("coordination.k8s.io/v1", "Lease"),
            json!({"spec": {"renewTime": "2024-01-01T00:00:00.1Z"}}),
        )
        .unwrap();
        assert_eq!(lease["spec"]["renewTime"], "2024-01-01T00:00:00.100000Z");
        let (node, _) =
            shaped(("v1", "Node"), json!({"status": {"capacity": {"cpu": 4, "memory": "1024Mi"}}})).unwrap();
        assert_eq!(node["status"]["capacity"], json!({"cpu": "4", "memory": "1Gi"}));
    }
}
