//! Reads a request body the way the real server's Go types do: unknown fields are dropped (and reported), wrong
//! JSON types refused, scalars brought into canonical form, empty values left out or spelled out.

use base64::Engine;
use serde_json::{Map, Value, json};

use super::{Field, Schema, Shape, Struct, TypeId, scalar};

/// What decoding found besides the object.
#[derive(Debug, Default)]
pub struct Findings {
    /// Paths of fields that the type does not have.
    pub unknown: Vec<String>,
}

/// A value of the wrong type, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongType(pub String);

/// Brings `object` into the form in which the real server would store and serve it.
pub fn decode(schema: &Schema, id: TypeId, object: &mut Value) -> Result<Findings, WrongType> {
    let mut walk = Walk { schema, findings: Findings::default() };
    let found = schema.get(id);
    let Value::Object(map) = object else {
        return Err(WrongType(mismatch(object, "", found.short_name(), &found.go_name())));
    };
    walk.fields(map, found, "")?;
    Ok(walk.findings)
}

struct Walk<'a> {
    schema: &'a Schema,
    findings: Findings,
}

impl Walk<'_> {
    fn fields(&mut self, map: &mut Map<String, Value>, owner: &Struct, path: &str) -> Result<(), WrongType> {
        if map.keys().any(|key| owner.field(key).is_none()) {
            let unknown: Vec<String> = map.keys().filter(|key| owner.field(key).is_none()).cloned().collect();
            for key in unknown {
                map.remove(&key);
                self.findings.unknown.push(join(path, &key));
            }
        }
        for field in &owner.fields {
            let present = match map.get_mut(&field.name) {
                Some(Value::Null) | None => false,
                Some(value) => {
                    self.value(value, &field.shape, &join(path, &field.name), owner)?;
                    true
                }
            };
            if present {
                let leave_out = map.get(&field.name).is_some_and(|value| is_omitted(field, value));
                if leave_out {
                    map.remove(&field.name);
                }
            } else {
                self.absent(map, field)?;
            }
        }
        Ok(())
    }

    /// What Go writes for a field that was not given.
    fn absent(&mut self, map: &mut Map<String, Value>, field: &Field) -> Result<(), WrongType> {
        map.remove(&field.name);
        if field.pointer {
            if !field.omit_empty {
                map.insert(field.name.clone(), Value::Null);
            }
            return Ok(());
        }
        let zero = match &field.shape {
            Shape::Struct(id) => {
                if field.omit_zero {
                    return Ok(());
                }
                let mut empty = Map::new();
                self.fields(&mut empty, self.schema.get(*id), "")?;
                Value::Object(empty)
            }
            _ if field.omit_empty || field.omit_zero => return Ok(()),
            Shape::String => json!(""),
            Shape::Int(_) | Shape::Float => json!(0),
            Shape::Bool => json!(false),
            Shape::Quantity => json!("0"),
            Shape::IntOrString => json!(0),
            Shape::Duration => json!("0s"),
            Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Any => {
                Value::Null
            }
        };
        map.insert(field.name.clone(), zero);
        Ok(())
    }

    fn value(
        &mut self,
        value: &mut Value,
        shape: &Shape,
        path: &str,
        owner: &Struct,
    ) -> Result<(), WrongType> {
        let wrong = |value: &Value, go: &str| Err(WrongType(mismatch(value, path, owner.short_name(), go)));
        match (shape, &mut *value) {
            (Shape::Any, _) => Ok(()),
            (Shape::Struct(id), Value::Object(map)) => self.fields(map, self.schema.get(*id), path),
            (Shape::Struct(id), other) => wrong(other, &self.schema.get(*id).go_name()),
            (Shape::List(item), Value::Array(items)) => {
                for (at, each) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{at}]");
                    match (&**item, &*each) {
                        // A null item is the item's zero value.
                        (Shape::Struct(_), Value::Null) => *each = json!({}),
                        (Shape::String, Value::Null) => *each = json!(""),
                        _ => {}
                    }
                    self.value(each, item, &path, owner)?;
                }
                Ok(())
            }
            (Shape::List(item), other) => wrong(other, &format!("[]{}", self.go_name(item))),
            (Shape::Map(item), Value::Object(map)) => {
                for (key, each) in map.iter_mut() {
                    if each.is_null() && matches!(**item, Shape::String) {
                        *each = json!("");
                    }
                    let path = join(path, key);
                    self.value(each, item, &path, owner)?;
                }
                Ok(())
            }
            (Shape::Map(item), other) => wrong(other, &format!("map[string]{}", self.go_name(item))),
            (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Float, Value::Number(_)) => Ok(()),
            (Shape::Int(bits), Value::Number(number)) => {
                let whole = number.as_i64().or_else(|| {
                    number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15).map(|f| f as i64)
                });
                match whole {
                    Some(n) if *bits == 64 || i32::try_from(n).is_ok() || u32::try_from(n).is_ok() => {
                        *value = json!(n);
                        Ok(())
                    }
                    _ => {
                        let text = format!("number {number}");
                        Err(WrongType(mismatch_text(&text, path, owner.short_name(), &format!("int{bits}"))))
                    }
                }
            }
            (Shape::IntOrString, Value::Number(_) | Value::String(_)) => Ok(()),
            (Shape::Quantity, Value::String(text)) => match scalar::quantity(text) {
                Some(canonical) => {
                    *text = canonical;
                    Ok(())
                }
                None => Err(WrongType(BAD_QUANTITY.to_owned())),
            },
            (Shape::Quantity, Value::Number(number)) => match scalar::quantity(&number.to_string()) {
                Some(canonical) => {
                    *value = json!(canonical);
                    Ok(())
                }
                None => Err(WrongType(BAD_QUANTITY.to_owned())),
            },
            (Shape::Time, Value::String(text)) => set_text(text, scalar::time, |text| {
                format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                )
            }),
            (Shape::MicroTime, Value::String(text)) => set_text(text, scalar::micro_time, |text| {
                format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {text:?} as \"2006\""
                )
            }),
            (Shape::Duration, Value::String(text)) => {
                set_text(text, scalar::duration, |text| format!("time: invalid duration {text:?}"))
            }
            (Shape::Bytes, Value::String(text)) => {
                match base64::engine::general_purpose::STANDARD.decode(text.as_bytes()) {
                    Ok(_) => Ok(()),
                    Err(base64::DecodeError::InvalidByte(at, _)) => {
                        Err(WrongType(format!("illegal base64 data at input byte {at}")))
                    }
                    Err(_) => Err(WrongType(format!("illegal base64 data at input byte {}", text.len()))),
                }
            }
            (shape, other) => wrong(other, &self.go_name(shape)),
        }
    }

    fn go_name(&self, shape: &Shape) -> String {
        match shape {
            Shape::String | Shape::Bytes => "string".to_owned(),
            Shape::Int(bits) => format!("int{bits}"),
            Shape::Bool => "bool".to_owned(),
            Shape::Float => "float64".to_owned(),
            Shape::Struct(id) => self.schema.get(*id).go_name(),
            Shape::List(item) => format!("[]{}", self.go_name(item)),
            Shape::Map(item) => format!("map[string]{}", self.go_name(item)),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::IntOrString => "intstr.IntOrString".to_owned(),
            Shape::Time => "v1.Time".to_owned(),
            Shape::MicroTime => "v1.MicroTime".to_owned(),
            Shape::Duration => "v1.Duration".to_owned(),
            Shape::Any => "interface {}".to_owned(),
        }
    }
}

const BAD_QUANTITY: &str = "quantities must match the regular expression \
    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn set_text(
    text: &mut String,
    canonical: fn(&str) -> Option<String>,
    complain: impl Fn(&str) -> String,
) -> Result<(), WrongType> {
    match canonical(text) {
        Some(better) => {
            *text = better;
            Ok(())
        }
        None => Err(WrongType(complain(text))),
    }
}

fn is_omitted(field: &Field, value: &Value) -> bool {
    if !(field.omit_empty || field.omit_zero) || field.pointer {
        return false;
    }
    match value {
        Value::Null => true,
        Value::String(text) => {
            text.is_empty() && !matches!(field.shape, Shape::Quantity | Shape::IntOrString | Shape::Any)
        }
        Value::Number(n) => n.as_f64() == Some(0.0) && matches!(field.shape, Shape::Int(_) | Shape::Float),
        Value::Bool(b) => !b && field.shape == Shape::Bool,
        Value::Array(items) => items.is_empty() && matches!(field.shape, Shape::List(_)),
        Value::Object(map) => {
            map.is_empty()
                && (matches!(field.shape, Shape::Map(_))
                    || field.omit_zero && matches!(field.shape, Shape::Struct(_)))
        }
    }
}

fn mismatch(value: &Value, path: &str, owner: &str, go: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    mismatch_text(found, path, owner, go)
}

fn mismatch_text(found: &str, path: &str, owner: &str, go: &str) -> String {
    let path: String = strip_indexes(path);
    match path.is_empty() {
        true => format!("json: cannot unmarshal {found} into Go value of type {go}"),
        false => format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}"),
    }
}

fn strip_indexes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(kind: (&str, &str), mut object: Value) -> Result<(Value, Vec<String>), String> {
        let schema = Schema::builtin();
        let id = schema.kind(kind.0, kind.1).unwrap();
        decode(schema, id, &mut object).map(|found| (object, found.unknown)).map_err(|e| e.0)
    }

    #[test]
    fn objects_come_out_as_go_would_write_them() {
        let (object, unknown) = round(
            ("apps/v1", "ReplicaSet"),
            json!({"metadata": {"name": "x", "labels": {}, "creationTimestamp": null}, "wrong": 1,
                "spec": {"replicas": 0, "template": {"spec": {"hostNetwork": false, "containers": [
                    {"name": "a", "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}}, "bad": {}}]}}}}),
        )
        .unwrap();
        assert_eq!(unknown, ["wrong", "spec.template.spec.containers[0].bad"]);
        assert_eq!(
            object,
            json!({"metadata": {"name": "x"}, "status": {"replicas": 0},
                "spec": {"replicas": 0, "selector": null, "template": {"metadata": {}, "spec": {"containers": [
                    {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}}})
        );
    }

    #[test]
    fn wrong_types_are_refused_in_gos_words() {
        #[rustfmt::skip]
        let table = [
            (json!({"spec": {"replicas": "3"}}), "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
            (json!({"spec": []}), "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
            (json!({"metadata": {"labels": {"a": 1}}}), "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type string"),
        ];
        for (object, want) in table {
            assert_eq!(round(("apps/v1", "Deployment"), object).unwrap_err(), want);
        }
    }
}
