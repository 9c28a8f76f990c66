//! A kind of object is defined by its `ResourceInfo` (names, verbs, subresources) and its `Strategy` (defaults, validation). The
//! rest of the server depends only on these two, so adding a kind changes nothing else.
//!
//! The order in which a request passes through a strategy:
//!
//! ```text
//! create         decode ─ to_storage ─ default ─ (uid, name, times) ─ admission ─ prepare_create ─ validate_create ─ quota
//! update, patch  decode ─ to_storage ─ default ─ admission ─ prepare_update ─ validate_update ─ quota
//! …/status       decode ─ to_storage ─ default ─ prepare_subresource_update ─ validate_subresource_update
//! read           serve
//! ```
//!
//! `decode` is generic: the type table (`kinds::schema`) prunes unknown fields, refuses wrong JSON types and drops the
//! zero values that Go's `omitempty` drops, so a strategy sees objects of the right shape. The table also has the
//! merge keys and list types that patches need. The objects that strategies get have no `managedFields`. A strategy must not panic,
//! whatever the JSON is.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::invalid::Cause;

/// How a built-in resource is addressed and listed in discovery. Built by const functions:
/// `ResourceInfo::namespaced("apps", "v1", "deployments", "Deployment").short(&["deploy"])…`.
#[derive(Debug, Clone, Copy)]
pub struct ResourceInfo {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version that this entry serves.
    pub version: &'static str,
    pub plural: &'static str,
    /// Name in discovery; the lower-cased kind unless set.
    pub singular: Option<&'static str>,
    /// Kind of the objects; lists are `{kind}List`.
    pub kind: &'static str,
    /// `kubectl` abbreviations.
    pub short_names: &'static [&'static str],
    /// Groups such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    pub verbs: Verbs,
    pub subresources: &'static [Subresource],
    /// Whether the server keeps `metadata.generation` (1 at creation, +1 whenever `spec` changes).
    pub generation: bool,
    /// Where the objects are stored when this entry is another view of them (`autoscaling/v1` on `v2`,
    /// `events.k8s.io` on core events): (group, version) of the entry with the same plural that stores them.
    pub stored_as: Option<(&'static str, &'static str)>,
}

impl ResourceInfo {
    /// A resource whose objects live in namespaces, with all verbs and no subresources.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            singular: None,
            kind,
            short_names: &[],
            categories: &[],
            namespaced: true,
            verbs: Verbs::All,
            subresources: &[],
            generation: false,
            stored_as: None,
        }
    }

    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        let mut info = Self::namespaced(group, version, plural, kind);
        info.namespaced = false;
        info
    }

    /// Sets the `kubectl` abbreviations.
    pub const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    pub const fn categories(mut self, names: &'static [&'static str]) -> Self {
        self.categories = names;
        self
    }

    /// Sets the singular name where it is not the lower-cased kind.
    pub const fn singular(mut self, name: &'static str) -> Self {
        self.singular = Some(name);
        self
    }

    pub const fn verbs(mut self, verbs: Verbs) -> Self {
        self.verbs = verbs;
        self
    }

    pub const fn with(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    /// The server maintains `metadata.generation`.
    pub const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    /// Sets the version in which the objects are stored.
    pub const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.stored_as = Some((group, version));
        self
    }
}

/// The verbs of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbs {
    /// create, delete, deletecollection, get, list, patch, update, watch.
    All,
    /// As `All`, without deletecollection (namespaces).
    NoDeleteCollection,
    Read,
    /// Only create: reviews and top-level bindings, which are not stored.
    CreateOnly,
}

/// A path segment after the name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subresource {
    /// get, update, patch of the status.
    Status,
    /// get, update, patch of a `Scale`.
    Scale,
    /// create: evict a pod, subject to disruption budgets.
    Eviction,
    /// create: put a pod onto a node.
    Binding,
    /// create: a token of a service account.
    Token,
    /// update: a namespace's finalizers in its spec.
    Finalize,
    /// get, update, patch: the approval of a certificate request.
    Approval,
    /// get, update, patch: ephemeral containers of a pod.
    EphemeralContainers,
    /// get, update, patch: a pod's resources.
    Resize,
    Log,
    /// connect: run a command in a pod.
    Exec,
    /// connect: attach to a pod.
    Attach,
    /// connect: forward ports of a pod.
    PortForward,
    /// connect: HTTP to a pod, service or node.
    Proxy,
}

impl Subresource {
    pub const fn segment(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Scale => "scale",
            Subresource::Eviction => "eviction",
            Subresource::Binding => "binding",
            Subresource::Token => "token",
            Subresource::Finalize => "finalize",
            Subresource::Approval => "approval",
            Subresource::EphemeralContainers => "ephemeralcontainers",
            Subresource::Resize => "resize",
            Subresource::Log => "log",
            Subresource::Exec => "exec",
            Subresource::Attach => "attach",
            Subresource::PortForward => "portforward",
            Subresource::Proxy => "proxy",
        }
    }
}

/// The authenticated user of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// `system:serviceaccount:ns:name`, `admin`, …
    pub name: String,
    /// The account's uid, if it has one.
    pub uid: String,
    /// Groups, `system:authenticated` among them.
    pub groups: Vec<String>,
    /// Further attributes (`authentication.kubernetes.io/pod-name`, …).
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// The context of a strategy.
#[derive(Debug, Clone, Copy)]
pub struct Cx<'a> {
    /// The time of the request.
    pub now: Timestamp,
    pub user: &'a User,
}

/// What happens to dependents if a delete request has no propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes dependents later.
    Background,
    /// Dependents lose their owner (upstream's old default of Jobs and ReplicationControllers).
    Orphan,
    Foreground,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case DNS subdomain, up to 253 characters: most kinds.
    Subdomain,
    /// Lower-case DNS label, up to 63 characters (RFC 1123): namespaces.
    Label,
    /// As `Label`, beginning with a letter (RFC 1035): services.
    Label1035,
    /// Anything that is one path segment: RBAC objects.
    PathSegment,
}

/// One column of `kubectl get`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// A column that is always shown.
    pub const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", description: "", priority: 0 }
    }

    /// A column of `-o wide`.
    pub const fn wide(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind, format: "", description: "", priority: 1 }
    }
}

/// `Name` and `Age`, for kinds without columns of their own.
pub const DEFAULT_COLUMNS: &[Column] =
    &[Column { format: "name", ..Column::new("Name", "string") }, Column::new("Age", "string")];

/// How one kind behaves. Every method has a default; kinds override it where they differ.
pub trait Strategy: Send + Sync {
    /// Sets the defaults of this API version. Applied to every decoded request body. Built-in kinds get their defaults by type
    /// (`kinds::defaults`), so that none of them overrides this.
    fn default(&self, obj: &mut Value) {
        crate::kinds::default(obj);
    }

    /// Another version's object in the form in which it is stored (see `ResourceInfo::stored_as`).
    fn to_storage(&self, obj: Value) -> Value {
        obj
    }

    /// A stored object in the form of this entry's version. Must set `apiVersion`.
    fn serve(&self, obj: Value) -> Value {
        obj
    }

    /// Before an object is first stored. The server has removed `status` (if the kind has `/status` and does
    /// not `keep_status_on_create`) and set `metadata.generation`.
    fn prepare_create(&self, cx: &Cx<'_>, obj: &mut Value) {
        let _ = (cx, obj);
    }

    /// Whether a `status` in a create request is kept (kinds without `/status` always keep it).
    fn keep_status_on_create(&self) -> bool {
        false
    }

    /// Before an update of the main resource. The server has restored `status` from `old` (if the kind has
    /// `/status`) and the immutable metadata; afterwards it increases `metadata.generation` if `spec_changed`.
    fn prepare_update(&self, cx: &Cx<'_>, new: &mut Value, old: &Value) {
        let _ = (cx, new, old);
    }

    /// Whether an update increases `metadata.generation` (for kinds with `generation`).
    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// Before an update of `/status` (or `/approval`, `/resize`, …: `sub`). For `Status` the machinery has restored everything
    /// but `status` and `metadata` from `old`.
    fn prepare_subresource_update(&self, cx: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        let _ = (cx, sub, new, old);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Validates a new object. Its metadata has been validated already.
    fn validate_create(&self, obj: &Value) -> Vec<Cause> {
        let _ = obj;
        Vec::new()
    }

    /// Validates an update, immutable fields included.
    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        let _ = old;
        self.validate_create(new)
    }

    /// Validates an update of a subresource.
    fn validate_subresource_update(&self, sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
        let _ = (sub, new, old);
        Vec::new()
    }

    /// Texts for `Warning` headers (deprecated fields and the like).
    fn warnings(&self, obj: &Value) -> Vec<String> {
        let _ = obj;
        Vec::new()
    }

    /// A `Warning` for every request, for deprecated kinds.
    fn deprecated(&self) -> Option<&str> {
        None
    }

    /// Whether a PUT to a name that does not exist creates the object (leases, endpoints, …).
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether a PUT without resourceVersion overwrites whatever is there.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// How long a deletion may take, for kinds that are deleted gracefully (pods); `None`: at once.
    /// `requested` is the grace period in the delete request.
    fn graceful_delete(&self, obj: &Value, requested: Option<i64>) -> Option<i64> {
        let _ = (obj, requested);
        None
    }

    /// What happens to dependents if the request has no propagation policy.
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// Field selectors besides `metadata.name` and `metadata.namespace`: the paths.
    fn field_labels(&self) -> &'static [&'static str] {
        &[]
    }

    /// The values of `field_labels` for an object (storage form), in the same order; absent is empty.
    fn field_values(&self, obj: &Value) -> Vec<String> {
        let _ = obj;
        Vec::new()
    }

    /// Columns of the table representation.
    fn columns(&self) -> &'static [Column] {
        DEFAULT_COLUMNS
    }

    /// One row of the table, a cell per column.
    fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        vec![obj["metadata"]["name"].clone(), Value::from(age(obj, now))]
    }

    /// The paths that `/scale` reads and writes, for kinds that have it.
    fn scale_paths(&self) -> ScalePaths<'_> {
        ScalePaths::DEFAULT
    }
}

/// JSON pointers that `/scale` reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalePaths<'a> {
    pub spec: &'a str,
    pub status: &'a str,
    /// Selector: a label selector object, a plain map (ReplicationController) or a text.
    pub selector: &'a str,
}

impl ScalePaths<'static> {
    pub const DEFAULT: Self =
        Self { spec: "/spec/replicas", status: "/status/replicas", selector: "/spec/selector" };
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {}

/// A built-in resource: its address and its behaviour. `kinds::catalog()` lists all of them.
#[derive(Clone)]
pub struct Builtin {
    pub info: ResourceInfo,
    pub strategy: Arc<dyn Strategy>,
}

impl Builtin {
    /// Pairs an address with a behaviour.
    pub fn new(info: ResourceInfo, strategy: impl Strategy + 'static) -> Self {
        Self { info, strategy: Arc::new(strategy) }
    }
}

/// The age of an object as `kubectl get` prints it; `<unknown>` without a creation time.
pub fn age(obj: &Value, now: Timestamp) -> String {
    match obj["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(created) => human_duration(now.as_second() - created.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds in the form that `kubectl` prints: `45s`, `3m20s`, `5h`, `3d4h`, `2y30d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |a: i64, unit: &str, b: i64, small: &str| match b {
        0 => format!("{a}{unit}"),
        _ => format!("{a}{unit}{b}{small}"),
    };
    match seconds {
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 120 => format!("{s}s"),
        s if minutes < 10 => two(minutes, "m", s % 60, "s"),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_print_as_kubectl_does() {
        #[rustfmt::skip]
        let table = [
            (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (599, "9m59s"),
            (600, "10m"), (10_799, "179m"), (10_800, "3h"), (12_000, "3h20m"), (28_800, "8h"), (172_799, "47h"),
            (172_800, "2d"), (270_000, "3d3h"), (691_200, "8d"), (63_072_000, "2y"), (65_664_000, "2y30d"),
        ];
        for (seconds, want) in table {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
