//! The shape of every built-in type: its fields with their JSON types, how Go writes their empty values, list
//! keys, patch strategies and enums. Read once from `schema.txt`, which `tools/controlplane/schema` prints from
//! upstream's Go types and OpenAPI definitions. Decoding, patching, defaulting and OpenAPI use it.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// All types, by name and by kind.
#[derive(Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    by_name: FxHashMap<&'static str, TypeId>,
    by_kind: FxHashMap<&'static str, TypeId>,
}

/// Index of a type in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u16);

impl TypeId {
    /// The position among `Schema::types`.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One struct of the API.
#[derive(Debug)]
pub struct Type {
    /// Where this type is in the schema.
    pub id: TypeId,
    /// Package and Go name, as in `core/v1.PodSpec`.
    pub name: &'static str,
    /// Name in OpenAPI documents, as in `io.k8s.api.core.v1.PodSpec`.
    pub model: &'static str,
    /// The kinds that this type is, as `apps/v1/Deployment` or `v1/Pod`; empty for parts of kinds.
    pub kinds: Vec<&'static str>,
    /// A description of one sentence.
    pub doc: &'static str,
    /// Whether server-side apply treats a value of this type as one unit.
    pub atomic: bool,
    /// The fields, in upstream's order.
    pub fields: Vec<Field>,
    by_field: FxHashMap<&'static str, u16>,
}

/// One field of a type.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// How an empty value is written.
    pub presence: Presence,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// How server-side apply merges the list in this field.
    pub list: ListKind,
    /// Whether server-side apply treats the map or struct in this field as one unit. `None` leaves that to its type.
    pub atomic: Option<bool>,
    /// How a strategic merge patch merges this field.
    pub patch: Patch,
    /// The allowed values, if they are enumerated.
    pub values: Vec<&'static str>,
    /// The declared default, as JSON text.
    pub default: Option<&'static str>,
    /// A description of one sentence.
    pub doc: &'static str,
}

/// The JSON type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    String,
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    Float,
    /// Base64 text.
    Bytes,
    /// A resource quantity: a text or a number, written as canonical text.
    Quantity,
    /// A whole number or a text, such as a percentage.
    IntOrString,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// A Go duration, as text.
    Duration,
    Any,
    Object(TypeId),
    List(Box<Shape>),
    /// A map with text keys.
    Map(Box<Shape>),
}

/// What happens to an absent or empty value when an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// An absent value is left out, an empty one is written (a Go pointer with `omitempty`).
    Optional,
    /// The empty value is left out (`omitempty` on a plain value).
    NonEmpty,
    /// The empty value is written: `""`, `0`, `{}`, and `null` for lists and maps.
    Always,
    /// Absent is written as `null` (a pointer without `omitempty`).
    Nullable,
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// By the values of these keys.
    Map(Vec<&'static str>),
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// Maps and structs merge key by key, lists are replaced.
    Default,
    /// A list whose items merge by this key; an empty key for lists of scalars.
    MergeList(&'static str),
    /// A struct of which only the keys in the patch remain.
    RetainKeys,
    /// Both of the above (volumes).
    MergeListRetainKeys(&'static str),
    Replace,
}

/// The schema of the built-in kinds.
pub fn builtin() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));
    &SCHEMA
}

impl Schema {
    /// The type of a kind, such as `("apps/v1", "Deployment")`.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Type> {
        self.by_kind.get(format!("{api_version}/{kind}").as_str()).map(|id| self.get(*id))
    }

    /// A type by its package and Go name, such as `core/v1.PodSpec`.
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.by_name.get(name).map(|id| self.get(*id))
    }

    /// A type by its index.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }

    /// All types, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        self.types.iter()
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there is no type at all.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    fn parse(text: &'static str) -> Self {
        let mut schema = Schema::default();
        for line in text.lines().filter(|line| !line.starts_with('\t')) {
            let columns: Vec<&'static str> = line.split('\t').collect();
            let [name, model, kinds, doc] = columns[..] else { continue };
            let id = TypeId(schema.types.len() as u16);
            let kinds: Vec<&'static str> = kinds.split_whitespace().collect();
            schema.by_name.insert(name, id);
            schema.by_kind.extend(kinds.iter().map(|kind| (*kind, id)));
            let by_field = FxHashMap::default();
            schema.types.push(Type {
                id,
                name,
                model,
                kinds,
                doc,
                atomic: false,
                fields: Vec::new(),
                by_field,
            });
        }
        let mut current = None;
        for line in text.lines() {
            match line.strip_prefix('\t') {
                None => current = line.split('\t').next().and_then(|name| schema.by_name.get(name).copied()),
                Some(rest) => {
                    let Some(TypeId(at)) = current else { continue };
                    let columns: Vec<&'static str> = rest.split('\t').collect();
                    match columns[..] {
                        ["", "struct=atomic"] => schema.types[usize::from(at)].atomic = true,
                        [name, shape, words, doc] => {
                            let field = Field::parse(name, schema.shape(shape), words, doc);
                            let owner = &mut schema.types[usize::from(at)];
                            owner.by_field.insert(name, owner.fields.len() as u16);
                            owner.fields.push(field);
                        }
                        _ => {}
                    }
                }
            }
        }
        schema
    }

    fn shape(&self, word: &str) -> Shape {
        if let Some(item) = word.strip_prefix("[]") {
            return Shape::List(Box::new(self.shape(item)));
        }
        if let Some(value) = word.strip_prefix("{}") {
            return Shape::Map(Box::new(self.shape(value)));
        }
        match word {
            "string" => Shape::String,
            "bool" => Shape::Bool,
            "int32" => Shape::Int32,
            "int64" => Shape::Int64,
            "float64" => Shape::Float,
            "bytes" => Shape::Bytes,
            "quantity" => Shape::Quantity,
            "intstr" => Shape::IntOrString,
            "time" => Shape::Time,
            "microtime" => Shape::MicroTime,
            "duration" => Shape::Duration,
            name => self.by_name.get(name).map_or(Shape::Any, |id| Shape::Object(*id)),
        }
    }
}

impl Type {
    /// A field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_field.get(name).map(|at| &self.fields[usize::from(*at)])
    }

    /// The Go name without its package, as decoding errors print it.
    pub fn go_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, name)| name)
    }
}

impl Field {
    fn parse(name: &'static str, shape: Shape, words: &'static str, doc: &'static str) -> Self {
        let mut field = Field {
            name,
            shape,
            presence: Presence::Optional,
            required: false,
            list: ListKind::Atomic,
            atomic: None,
            patch: Patch::Default,
            values: Vec::new(),
            default: None,
            doc,
        };
        for word in words.split(' ') {
            match word.split_once('=') {
                None => field.flag(word),
                Some(("list", "set")) => field.list = ListKind::Set,
                Some(("list", kind)) => {
                    if let Some(keys) = arguments(kind, "map") {
                        field.list = ListKind::Map(keys.split(',').collect());
                    }
                }
                Some(("struct", kind)) => field.atomic = Some(kind == "atomic"),
                Some(("patch", strategy)) => field.patch = Patch::parse(strategy),
                Some(("enum", values)) => field.values = values.split('|').collect(),
                Some(("default", json)) => field.default = Some(json),
                Some(_) => {}
            }
        }
        field
    }

    fn flag(&mut self, word: &str) {
        match word {
            "z" => self.presence = Presence::NonEmpty,
            "a" => self.presence = Presence::Always,
            "n" => self.presence = Presence::Nullable,
            "required" => self.required = true,
            _ => {}
        }
    }
}

impl Patch {
    fn parse(strategy: &'static str) -> Self {
        let (words, key) = strategy.trim_end_matches(')').split_once('(').unwrap_or((strategy, ""));
        match words {
            "merge" => Patch::MergeList(key),
            "retainKeys" => Patch::RetainKeys,
            "replace" => Patch::Replace,
            "merge,retainKeys" => Patch::MergeListRetainKeys(key),
            _ => Patch::Default,
        }
    }
}

fn arguments<'a>(call: &'a str, function: &str) -> Option<&'a str> {
    call.strip_prefix(function)?.strip_prefix('(')?.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schema_is_understood() {
        let text = include_str!("schema.txt");
        let fields = text.lines().filter(|l| l.starts_with('\t') && !l.starts_with("\t\t")).count();
        assert_eq!(builtin().types().map(|t| t.fields.len()).sum::<usize>(), fields);
        let any = text.lines().filter(|l| l.split('\t').nth(2).is_some_and(|w| w.ends_with("any"))).count();
        let is_any = |f: &Field| match &f.shape {
            Shape::List(inner) | Shape::Map(inner) => **inner == Shape::Any,
            shape => *shape == Shape::Any,
        };
        assert_eq!(builtin().types().flat_map(|t| &t.fields).filter(|f| is_any(f)).count(), any);
    }

    #[test]
    fn fields_know_how_they_merge_and_vanish() {
        let container = builtin().named("core/v1.Container").unwrap();
        let ports = container.field("ports").unwrap();
        assert_eq!(ports.list, ListKind::Map(vec!["containerPort", "protocol"]));
        assert_eq!(ports.patch, Patch::MergeList("containerPort"));
        assert_eq!(container.field("resources").unwrap().presence, Presence::Always);
        assert_eq!(container.field("image").unwrap().presence, Presence::NonEmpty);
        assert_eq!(container.field("livenessProbe").unwrap().presence, Presence::Optional);
        let volumes = builtin().named("core/v1.PodSpec").unwrap().field("volumes").unwrap();
        assert_eq!(volumes.patch, Patch::MergeListRetainKeys("name"));
        let strategy = builtin().named("apps/v1.DeploymentSpec").unwrap().field("strategy").unwrap();
        assert_eq!(strategy.patch, Patch::RetainKeys);
        assert!(builtin().named("meta/v1.LabelSelector").unwrap().atomic);
        assert!(builtin().kind("apps/v1", "Deployment").is_some());
        assert!(builtin().kind("apps/v1", "Pod").is_none());
    }
}
