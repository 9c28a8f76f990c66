//! The types of the built-in kinds as data: names, shapes, what is left out when empty, how lists merge. From this
//! one table come decoding and pruning, strategic merge, server-side apply and OpenAPI.
//!
//! `types.txt` is generated (see `tools/schema`); its lines read
//! `kind GROUP/VERSION KIND TYPE`, `type NAME [map=atomic]` and, indented, `FIELD SHAPE FLAGS…`.

pub mod decode;
pub mod scalar;

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

static TABLE: &str = include_str!("types.txt");

/// Index of a struct in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// What a value looks like.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A text.
    String,
    /// A whole number of so many bits.
    Int(u8),
    /// true or false.
    Bool,
    /// A number.
    Float,
    /// Base64.
    Bytes,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// A Go duration.
    Duration,
    /// A resource quantity.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// Any JSON.
    Any,
    /// A struct of the table.
    Struct(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A map from texts.
    Map(Box<Shape>),
}

/// How the items of a list belong together when two writers meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Items are their own keys.
    Set,
    /// Items are keyed by these fields.
    Map(Vec<String>),
}

/// One field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// JSON name.
    pub name: String,
    /// What it holds.
    pub shape: Shape,
    /// Absent is different from zero.
    pub pointer: bool,
    /// Left out when empty.
    pub omit_empty: bool,
    /// Left out when all its fields are.
    pub omit_zero: bool,
    /// Required according to OpenAPI.
    pub required: bool,
    /// For lists.
    pub list: ListType,
    /// The map or struct is one value.
    pub atomic: bool,
    /// Strategic merge: lists are merged, by `merge_key` or as sets of scalars.
    pub patch_merge: bool,
    /// Strategic merge: fields that are not in the patch are dropped (`retainKeys`).
    pub patch_retain_keys: bool,
    /// Strategic merge: the key of items.
    pub merge_key: Option<String>,
    /// OpenAPI default, as JSON.
    pub default: Option<serde_json::Value>,
}

/// One struct.
#[derive(Debug, Clone)]
pub struct Struct {
    /// OpenAPI name: `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// The whole is one value for server-side apply.
    pub atomic: bool,
    /// Fields, sorted by name.
    pub fields: Vec<Field>,
}

impl Struct {
    /// A field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The last part of the name, `PodSpec`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// As Go prints it: `v1.PodSpec`.
    pub fn go_name(&self) -> String {
        let mut parts = self.name.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        format!("{package}.{name}")
    }
}

/// The whole table.
#[derive(Debug)]
pub struct Schema {
    structs: Vec<Struct>,
    kinds: FxHashMap<(String, String), TypeId>,
    names: FxHashMap<String, TypeId>,
}

impl Schema {
    /// The table of the built-in kinds, read once.
    pub fn builtin() -> &'static Schema {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| Schema::parse(TABLE))
    }

    /// The type of a kind, if it is built in.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned())).copied()
    }

    /// All kinds: (apiVersion, kind, type).
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, TypeId)> {
        self.kinds.iter().map(|((version, kind), id)| (version.as_str(), kind.as_str(), *id))
    }

    /// A struct by its OpenAPI name.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// The struct of an id.
    pub fn get(&self, id: TypeId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// All structs.
    pub fn structs(&self) -> &[Struct] {
        &self.structs
    }

    fn parse(table: &str) -> Self {
        let names: FxHashMap<String, TypeId> = table
            .lines()
            .filter_map(|line| line.strip_prefix("type "))
            .enumerate()
            .map(|(at, line)| (line.split(' ').next().unwrap_or_default().to_owned(), TypeId(at as u32)))
            .collect();
        let mut schema =
            Schema { structs: Vec::with_capacity(names.len()), kinds: FxHashMap::default(), names };
        for line in table.lines() {
            if let Some(field) = line.strip_prefix('\t') {
                let field = schema.parse_field(field);
                if let Some(current) = schema.structs.last_mut() {
                    current.fields.push(field);
                }
            } else if let Some(rest) = line.strip_prefix("type ") {
                let mut words = rest.split(' ');
                let name = words.next().unwrap_or_default().to_owned();
                let atomic = words.any(|word| word == "map=atomic");
                schema.structs.push(Struct { name, atomic, fields: Vec::new() });
            } else if let Some(rest) = line.strip_prefix("kind ") {
                let words: Vec<&str> = rest.split(' ').collect();
                if let [version, kind, name] = words[..]
                    && let Some(id) = schema.named(name)
                {
                    schema.kinds.insert((version.to_owned(), kind.to_owned()), id);
                }
            }
        }
        for found in &mut schema.structs {
            found.fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        schema
    }

    fn parse_field(&self, line: &str) -> Field {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default().to_owned();
        let shape = self.parse_shape(words.next().unwrap_or("any"));
        let mut field = Field {
            name,
            shape,
            pointer: false,
            omit_empty: false,
            omit_zero: false,
            required: false,
            list: ListType::Atomic,
            atomic: false,
            patch_merge: false,
            patch_retain_keys: false,
            merge_key: None,
            default: None,
        };
        for flag in words {
            match flag.split_once('=').unwrap_or((flag, "")) {
                ("ptr", _) => field.pointer = true,
                ("omitempty", _) => field.omit_empty = true,
                ("omitzero", _) => field.omit_zero = true,
                ("required", _) => field.required = true,
                ("list", "set") => field.list = ListType::Set,
                ("list", keyed) if keyed.starts_with("map(") => {
                    let keys = keyed.trim_start_matches("map(").trim_end_matches(')');
                    field.list = ListType::Map(keys.split(',').map(str::to_owned).collect());
                }
                ("map", "atomic") => field.atomic = true,
                ("patch", how) => {
                    field.patch_merge = how.split(',').any(|word| word == "merge");
                    field.patch_retain_keys = how.split(',').any(|word| word == "retainKeys");
                }
                ("key", key) => field.merge_key = Some(key.to_owned()),
                ("default", json) => field.default = serde_json::from_str(json).ok(),
                _ => {}
            }
        }
        field
    }

    fn parse_shape(&self, text: &str) -> Shape {
        if let Some(item) = text.strip_prefix("[]") {
            return Shape::List(Box::new(self.parse_shape(item)));
        }
        if let Some(item) = text.strip_prefix("{}") {
            return Shape::Map(Box::new(self.parse_shape(item)));
        }
        match text {
            "string" => Shape::String,
            "int32" | "uint32" | "uint16" | "int16" | "uint8" => Shape::Int(32),
            "int" | "int64" | "uint64" => Shape::Int(64),
            "bool" => Shape::Bool,
            "float64" => Shape::Float,
            "bytes" => Shape::Bytes,
            "time" => Shape::Time,
            "microtime" => Shape::MicroTime,
            "duration" => Shape::Duration,
            "quantity" => Shape::Quantity,
            "intstr" => Shape::IntOrString,
            name => self.named(name).map_or(Shape::Any, Shape::Struct),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let schema = Schema::builtin();
        let pod = schema.get(schema.kind("v1", "Pod").unwrap());
        let Some(Field { shape: Shape::Struct(spec), .. }) = pod.field("spec") else { panic!("{pod:?}") };
        let containers = schema.get(*spec).field("containers").unwrap();
        assert_eq!(containers.list, ListType::Map(vec!["name".to_owned()]));
        assert!(containers.patch_merge);
        assert_eq!(containers.merge_key.as_deref(), Some("name"));
        let unknown = schema.structs().iter().flat_map(|s| s.fields.iter().map(move |f| (s, f)));
        let any = unknown.filter(|(_, f)| f.shape == Shape::Any).count();
        assert!(any < 60, "{any} fields without a shape: is a type missing?");
    }
}
