//! Upstream's hash of a pod template, letter for letter: it is part of the names of ReplicaSets and of DaemonSets' revisions.
//!
//! Upstream (`controller_utils.go`, `ComputeHash`) prints the Go value in the format of the spew library and hashes the text
//! with FNV-32a. So the hash depends on the names, order and types of all fields, absent ones included. `types.txt` has them,
//! printed by `tools/controlplane/podtemplate` from the pinned Go modules; nothing in it is written by hand.
//!
//! Two Go values print differently and are the same JSON: `nil` and an empty list or map. The server stores protobuf, which
//! knows only `nil`, so an empty one is taken for that.

mod quantity;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::Value;

use crate::hash::{Fnv32a, safe_encode};

/// The hash of a template as the server serves it. After a collision of names, the count of collisions gives another one.
pub(super) fn compute_hash(template: &Value, collisions: Option<i32>) -> String {
    let mut hash = Fnv32a::default();
    TYPES.dump(Some(template), TypeId(0), Shown::WithType, &mut |text| hash.write(text.as_bytes()));
    if let Some(collisions) = collisions {
        // Upstream writes 32 bits into a buffer of 64.
        hash.write(&i64::from(collisions.cast_unsigned()).to_le_bytes());
    }
    safe_encode(&hash.finish().to_string())
}

static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("types.txt")));

/// The Go types of a pod template. The first is the template itself.
struct Types(Vec<Type>);

#[derive(Clone, Copy)]
struct TypeId(usize);

struct Type {
    /// The name in a dump, such as `[]v1.Container`.
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Bool,
    Int,
    String,
    Pointer(TypeId),
    Slice(TypeId),
    /// From strings to this.
    Map(TypeId),
    Struct(Vec<Field>),
    Quantity,
    IntOrString,
    Time,
    /// `FieldsV1` of managedFields, which a template does not have.
    Fields,
}

struct Field {
    name: &'static str,
    /// The name in JSON; empty if the fields of the field's type are inlined.
    json: &'static str,
    type_: TypeId,
}

/// Whether a value is printed with its type: fields of structs are, elements of lists and maps are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    WithType,
    Bare,
}

type Out<'a> = &'a mut dyn FnMut(&str);

impl Types {
    fn parse(table: &'static str) -> Self {
        Self(table.lines().map(Type::parse).collect())
    }

    fn dump(&self, value: Option<&Value>, type_: TypeId, shown: Shown, out: Out<'_>) {
        let Type { name, kind } = &self.0[type_.0];
        let value = value.filter(|value| !value.is_null());
        if let Kind::Pointer(to) = *kind {
            return self.dump_pointer(value, name, to, shown, out);
        }
        if shown == Shown::WithType {
            typed(name, out);
        }
        match kind {
            Kind::Bool => {
                out(if value.and_then(Value::as_bool).unwrap_or_default() { "true" } else { "false" })
            }
            Kind::Int => out(&value.and_then(Value::as_i64).unwrap_or_default().to_string()),
            Kind::String => out(text(value)),
            Kind::Slice(of) => self.dump_slice(value, *of, out),
            Kind::Map(of) => self.dump_map(value, *of, out),
            Kind::Struct(fields) => self.dump_struct(value, fields, out),
            Kind::Quantity => quantity::dump(text(value), out),
            Kind::IntOrString => out(&match value {
                Some(Value::String(text)) => {
                    format!("{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){text}}}")
                }
                other => {
                    let number = other.and_then(Value::as_i64).unwrap_or_default();
                    format!("{{Type:(intstr.Type)0 IntVal:(int32){number} StrVal:(string)}}")
                }
            }),
            // Templates have no times. One that a user wrote into the metadata would be printed with the time zone of the
            // machine, so that not even two of upstream's processes agree on the hash.
            Kind::Time => out("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
            Kind::Fields => out("{Raw:([]uint8)<nil>}"),
            Kind::Pointer(_) => {}
        }
    }

    fn dump_pointer(&self, value: Option<&Value>, name: &str, to: TypeId, shown: Shown, out: Out<'_>) {
        match (shown, value) {
            (Shown::WithType, _) => typed(name, out),
            (Shown::Bare, Some(_)) => out("<*>"),
            (Shown::Bare, None) => {}
        }
        match value {
            Some(_) => self.dump(value, to, Shown::Bare, out),
            None => out("<nil>"),
        }
    }

    fn dump_slice(&self, value: Option<&Value>, of: TypeId, out: Out<'_>) {
        let Some(items) = value.and_then(Value::as_array).filter(|items| !items.is_empty()) else {
            return out("<nil>");
        };
        for (n, item) in items.iter().enumerate() {
            out(if n == 0 { "[" } else { " " });
            self.dump(Some(item), of, Shown::Bare, out);
        }
        out("]");
    }

    fn dump_map(&self, value: Option<&Value>, of: TypeId, out: Out<'_>) {
        let Some(entries) = value.and_then(Value::as_object).filter(|entries| !entries.is_empty()) else {
            return out("<nil>");
        };
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (n, (key, value)) in entries.into_iter().enumerate() {
            out(if n == 0 { "map[" } else { " " });
            out(key);
            out(":");
            self.dump(Some(value), of, Shown::Bare, out);
        }
        out("]");
    }

    fn dump_struct(&self, value: Option<&Value>, fields: &[Field], out: Out<'_>) {
        for (n, Field { name, json, type_ }) in fields.iter().enumerate() {
            out(if n == 0 { "{" } else { " " });
            out(name);
            out(":");
            let value = if json.is_empty() { value } else { value.and_then(|value| value.get(json)) };
            self.dump(value, *type_, Shown::WithType, out);
        }
        out(if fields.is_empty() { "{}" } else { "}" });
    }
}

impl Type {
    /// Reads a line of the table. The table is part of the program and a test reads all of it.
    fn parse(line: &'static str) -> Self {
        let mut words = line.split(' ');
        let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut number = || TypeId(words.next().and_then(|word| word.parse().ok()).unwrap_or_default());
        let kind = match kind {
            "bool" => Kind::Bool,
            "int" => Kind::Int,
            "pointer" => Kind::Pointer(number()),
            "slice" => Kind::Slice(number()),
            "map" => Kind::Map(number()),
            "struct" => Kind::Struct(words.filter_map(Field::parse).collect()),
            "quantity" => Kind::Quantity,
            "intorstring" => Kind::IntOrString,
            "time" => Kind::Time,
            "fields" => Kind::Fields,
            _ => Kind::String,
        };
        Self { name, kind }
    }
}

impl Field {
    fn parse(word: &'static str) -> Option<Self> {
        let (name, rest) = word.split_once(':')?;
        let (json, number) = rest.split_once(':')?;
        Some(Self { name, json, type_: TypeId(number.parse().ok()?) })
    }
}

fn typed(name: &str, out: Out<'_>) {
    out("(");
    out(name);
    out(")");
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
