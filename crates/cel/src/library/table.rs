//! The functions of Kubernetes' expressions, v1.36: the standard library of cel-go 0.26 and its extensions for strings
//! (version 2), lists (3), sets, optionals and comprehensions with two variables, and the libraries of Kubernetes' own.
//!
//! A row is a function with its overloads: `(arguments) -> result`, or `target.(arguments) -> result`. A capital letter is a type
//! parameter. The checker tries the overloads in this order, and considers all that accept the arguments.

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[(&str, &[&str])] = &[
    // Operators, and what macros expand to.
    ("!_", &["(bool) -> bool"]),
    ("-_", &["(double) -> double", "(int) -> int"]),
    ("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"]),
    ("@not_strictly_false", &["(bool) -> bool"]),
    ("@sortByAssociatedKeys", &[
        "list(T).(list(int)) -> list(T)", "list(T).(list(uint)) -> list(T)",
        "list(T).(list(double)) -> list(T)", "list(T).(list(bool)) -> list(T)",
        "list(T).(list(duration)) -> list(T)", "list(T).(list(timestamp)) -> list(T)",
        "list(T).(list(string)) -> list(T)", "list(T).(list(bytes)) -> list(T)"
    ]),
    ("_!=_", &["(A, A) -> bool"]),
    ("_%_", &["(int, int) -> int", "(uint, uint) -> uint"]),
    ("_&&_", &["(bool, bool) -> bool"]),
    ("_*_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"]),
    ("_+_", &[
        "(bytes, bytes) -> bytes", "(double, double) -> double", "(duration, duration) -> duration",
        "(duration, timestamp) -> timestamp", "(timestamp, duration) -> timestamp", "(int, int) -> int",
        "(list(A), list(A)) -> list(A)", "(string, string) -> string", "(uint, uint) -> uint"
    ]),
    ("_-_", &[
        "(double, double) -> double", "(duration, duration) -> duration", "(int, int) -> int",
        "(timestamp, duration) -> timestamp", "(timestamp, timestamp) -> duration", "(uint, uint) -> uint"
    ]),
    ("_/_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"]),
    ("_<=_", &[
        "(bool, bool) -> bool", "(int, int) -> bool", "(int, double) -> bool", "(int, uint) -> bool",
        "(uint, uint) -> bool", "(uint, double) -> bool", "(uint, int) -> bool",
        "(double, double) -> bool", "(double, int) -> bool", "(double, uint) -> bool",
        "(string, string) -> bool", "(bytes, bytes) -> bool", "(timestamp, timestamp) -> bool",
        "(duration, duration) -> bool"
    ]),
    ("_<_", &[
        "(bool, bool) -> bool", "(int, int) -> bool", "(int, double) -> bool", "(int, uint) -> bool",
        "(uint, uint) -> bool", "(uint, double) -> bool", "(uint, int) -> bool",
        "(double, double) -> bool", "(double, int) -> bool", "(double, uint) -> bool",
        "(string, string) -> bool", "(bytes, bytes) -> bool", "(timestamp, timestamp) -> bool",
        "(duration, duration) -> bool"
    ]),
    ("_==_", &["(A, A) -> bool"]),
    ("_>=_", &[
        "(bool, bool) -> bool", "(int, int) -> bool", "(int, double) -> bool", "(int, uint) -> bool",
        "(uint, uint) -> bool", "(uint, double) -> bool", "(uint, int) -> bool",
        "(double, double) -> bool", "(double, int) -> bool", "(double, uint) -> bool",
        "(string, string) -> bool", "(bytes, bytes) -> bool", "(timestamp, timestamp) -> bool",
        "(duration, duration) -> bool"
    ]),
    ("_>_", &[
        "(bool, bool) -> bool", "(int, int) -> bool", "(int, double) -> bool", "(int, uint) -> bool",
        "(uint, uint) -> bool", "(uint, double) -> bool", "(uint, int) -> bool",
        "(double, double) -> bool", "(double, int) -> bool", "(double, uint) -> bool",
        "(string, string) -> bool", "(bytes, bytes) -> bool", "(timestamp, timestamp) -> bool",
        "(duration, duration) -> bool"
    ]),
    ("_?._", &["(dyn, string) -> optional_type(V)"]),
    ("_?_:_", &["(bool, A, A) -> A"]),
    ("_[?_]", &[
        "(list(V), int) -> optional_type(V)", "(optional_type(list(V)), int) -> optional_type(V)",
        "(map(K, V), K) -> optional_type(V)", "(optional_type(map(K, V)), K) -> optional_type(V)"
    ]),
    ("_[_]", &[
        "(list(A), int) -> A", "(map(A, B), A) -> B", "(optional_type(list(V)), int) -> optional_type(V)",
        "(optional_type(map(K, V)), K) -> optional_type(V)"
    ]),
    ("_||_", &["(bool, bool) -> bool"]),
    ("cel.@mapInsert", &["(map(K, V), K, V) -> map(K, V)", "(map(K, V), map(K, V)) -> map(K, V)"]),
    // Conversions and types.
    ("bool", &["(bool) -> bool", "(string) -> bool"]),
    ("bytes", &["(bytes) -> bytes", "(string) -> bytes"]),
    ("double", &["(double) -> double", "(int) -> double", "(string) -> double", "(uint) -> double"]),
    ("duration", &["(duration) -> duration", "(int) -> duration", "(string) -> duration"]),
    ("dyn", &["(A) -> dyn"]),
    ("int", &[
        "(int) -> int", "(double) -> int", "(duration) -> int", "(string) -> int", "(timestamp) -> int",
        "(uint) -> int"
    ]),
    ("string", &[
        "(string) -> string", "(bool) -> string", "(bytes) -> string", "(double) -> string",
        "(duration) -> string", "(int) -> string", "(timestamp) -> string", "(uint) -> string",
        "(net.IP) -> string", "(net.CIDR) -> string"
    ]),
    ("timestamp", &["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"]),
    ("type", &["(A) -> type(A)"]),
    ("uint", &["(uint) -> uint", "(double) -> uint", "(int) -> uint", "(string) -> uint"]),
    // Authorization.
    ("allowed", &["kubernetes.authorization.Decision.() -> bool"]),
    ("check", &[
        "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
        "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision"
    ]),
    ("error", &["kubernetes.authorization.Decision.() -> string"]),
    ("errored", &["kubernetes.authorization.Decision.() -> bool"]),
    ("fieldSelector", &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    ("group", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck"]),
    ("labelSelector", &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    ("name", &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    ("namespace", &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    ("path", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck"]),
    ("reason", &["kubernetes.authorization.Decision.() -> string"]),
    ("resource", &["kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    ("serviceAccount", &[
        "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer"
    ]),
    ("subresource", &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    // Quantities and versions.
    ("add", &[
        "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
        "kubernetes.Quantity.(int) -> kubernetes.Quantity"
    ]),
    ("asApproximateFloat", &["kubernetes.Quantity.() -> double"]),
    ("asInteger", &["kubernetes.Quantity.() -> int"]),
    ("compareTo", &[
        "kubernetes.Quantity.(kubernetes.Quantity) -> int", "kubernetes.Semver.(kubernetes.Semver) -> int"
    ]),
    ("isGreaterThan", &[
        "kubernetes.Quantity.(kubernetes.Quantity) -> bool", "kubernetes.Semver.(kubernetes.Semver) -> bool"
    ]),
    ("isInteger", &["kubernetes.Quantity.() -> bool"]),
    ("isLessThan", &[
        "kubernetes.Quantity.(kubernetes.Quantity) -> bool", "kubernetes.Semver.(kubernetes.Semver) -> bool"
    ]),
    ("isQuantity", &["(string) -> bool"]),
    ("isSemver", &["(string) -> bool", "(string, bool) -> bool"]),
    ("major", &["kubernetes.Semver.() -> int"]),
    ("minor", &["kubernetes.Semver.() -> int"]),
    ("patch", &["kubernetes.Semver.() -> int"]),
    ("quantity", &["(string) -> kubernetes.Quantity"]),
    ("semver", &["(string) -> kubernetes.Semver", "(string, bool) -> kubernetes.Semver"]),
    ("sign", &["(kubernetes.Quantity) -> int"]),
    ("sub", &[
        "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
        "kubernetes.Quantity.(int) -> kubernetes.Quantity"
    ]),
    // Addresses.
    ("cidr", &["(string) -> net.CIDR"]),
    ("containsCIDR", &["net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool"]),
    ("containsIP", &["net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool"]),
    ("family", &["net.IP.() -> int"]),
    ("getEscapedPath", &["kubernetes.URL.() -> string"]),
    ("getHost", &["kubernetes.URL.() -> string"]),
    ("getHostname", &["kubernetes.URL.() -> string"]),
    ("getPort", &["kubernetes.URL.() -> string"]),
    ("getQuery", &["kubernetes.URL.() -> map(string, list(string))"]),
    ("getScheme", &["kubernetes.URL.() -> string"]),
    ("ip", &["(string) -> net.IP", "net.CIDR.() -> net.IP"]),
    ("ip.isCanonical", &["(string) -> bool"]),
    ("isCIDR", &["(string) -> bool"]),
    ("isGlobalUnicast", &["net.IP.() -> bool"]),
    ("isIP", &["(string) -> bool"]),
    ("isLinkLocalMulticast", &["net.IP.() -> bool"]),
    ("isLinkLocalUnicast", &["net.IP.() -> bool"]),
    ("isLoopback", &["net.IP.() -> bool"]),
    ("isURL", &["(string) -> bool"]),
    ("isUnspecified", &["net.IP.() -> bool"]),
    ("masked", &["net.CIDR.() -> net.CIDR"]),
    ("prefixLength", &["net.CIDR.() -> int"]),
    ("url", &["(string) -> kubernetes.URL"]),
    // Named formats.
    ("format.byte", &["() -> kubernetes.NamedFormat"]),
    ("format.date", &["() -> kubernetes.NamedFormat"]),
    ("format.datetime", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1035Label", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1035LabelPrefix", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1123Label", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1123LabelPrefix", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1123Subdomain", &["() -> kubernetes.NamedFormat"]),
    ("format.dns1123SubdomainPrefix", &["() -> kubernetes.NamedFormat"]),
    ("format.labelValue", &["() -> kubernetes.NamedFormat"]),
    ("format.named", &["(string) -> optional_type(kubernetes.NamedFormat)"]),
    ("format.qualifiedName", &["() -> kubernetes.NamedFormat"]),
    ("format.uri", &["() -> kubernetes.NamedFormat"]),
    ("format.uuid", &["() -> kubernetes.NamedFormat"]),
    ("validate", &["kubernetes.NamedFormat.(string) -> optional_type(list(string))"]),
    // Optional values.
    ("first", &["list(V).() -> optional_type(V)"]),
    ("hasValue", &["optional_type(V).() -> bool"]),
    ("last", &["list(V).() -> optional_type(V)"]),
    ("optional.none", &["() -> optional_type(V)"]),
    ("optional.of", &["(V) -> optional_type(V)"]),
    ("optional.ofNonZeroValue", &["(V) -> optional_type(V)"]),
    ("optional.unwrap", &["(list(optional_type(V))) -> list(V)"]),
    ("or", &["optional_type(V).(optional_type(V)) -> optional_type(V)"]),
    ("orValue", &["optional_type(V).(V) -> V"]),
    ("unwrapOpt", &["list(optional_type(V)).() -> list(V)"]),
    ("value", &["optional_type(V).() -> V"]),
    // Time.
    ("getDate", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getDayOfMonth", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getDayOfWeek", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getDayOfYear", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getFullYear", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getHours", &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"]),
    ("getMilliseconds", &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"]),
    ("getMinutes", &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"]),
    ("getMonth", &["timestamp.() -> int", "timestamp.(string) -> int"]),
    ("getSeconds", &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"]),
    // Lists, sets and maps.
    ("distinct", &["list(T).() -> list(T)"]),
    ("flatten", &["list(list(T)).() -> list(T)", "list(dyn).(int) -> list(dyn)"]),
    ("indexOf", &["list(A).(A) -> int", "string.(string) -> int", "string.(string, int) -> int"]),
    ("isSorted", &[
        "list(int).() -> bool", "list(uint).() -> bool", "list(double).() -> bool",
        "list(bool).() -> bool", "list(duration).() -> bool", "list(timestamp).() -> bool",
        "list(string).() -> bool", "list(bytes).() -> bool"
    ]),
    ("join", &["list(string).() -> string", "list(string).(string) -> string"]),
    ("lastIndexOf", &["list(A).(A) -> int", "string.(string) -> int", "string.(string, int) -> int"]),
    ("lists.range", &["(int) -> list(int)"]),
    ("max", &[
        "list(int).() -> int", "list(uint).() -> uint", "list(double).() -> double",
        "list(bool).() -> bool", "list(duration).() -> duration", "list(timestamp).() -> timestamp",
        "list(string).() -> string", "list(bytes).() -> bytes"
    ]),
    ("min", &[
        "list(int).() -> int", "list(uint).() -> uint", "list(double).() -> double",
        "list(bool).() -> bool", "list(duration).() -> duration", "list(timestamp).() -> timestamp",
        "list(string).() -> string", "list(bytes).() -> bytes"
    ]),
    ("reverse", &["list(T).() -> list(T)"]),
    ("sets.contains", &["(list(T), list(T)) -> bool"]),
    ("sets.equivalent", &["(list(T), list(T)) -> bool"]),
    ("sets.intersects", &["(list(T), list(T)) -> bool"]),
    ("size", &[
        "(bytes) -> int", "bytes.() -> int", "(list(A)) -> int", "list(A).() -> int", "(map(A, B)) -> int",
        "map(A, B).() -> int", "(string) -> int", "string.() -> int"
    ]),
    ("slice", &["list(T).(int, int) -> list(T)"]),
    ("sort", &[
        "list(int).() -> list(int)", "list(uint).() -> list(uint)", "list(double).() -> list(double)",
        "list(bool).() -> list(bool)", "list(duration).() -> list(duration)",
        "list(timestamp).() -> list(timestamp)", "list(string).() -> list(string)",
        "list(bytes).() -> list(bytes)"
    ]),
    ("sum", &[
        "list(int).() -> int", "list(uint).() -> uint", "list(double).() -> double",
        "list(duration).() -> duration"
    ]),
    // Text.
    ("charAt", &["string.(int) -> string"]),
    ("contains", &["string.(string) -> bool"]),
    ("endsWith", &["string.(string) -> bool"]),
    ("find", &["string.(string) -> string"]),
    ("findAll", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("format", &["string.(list(dyn)) -> string"]),
    ("lowerAscii", &["string.() -> string"]),
    ("matches", &["(string, string) -> bool", "string.(string) -> bool"]),
    ("replace", &["string.(string, string) -> string", "string.(string, string, int) -> string"]),
    ("split", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("startsWith", &["string.(string) -> bool"]),
    ("strings.quote", &["(string) -> string"]),
    ("jsonpatch.escapeKey", &["(string) -> string"]),
    ("substring", &["string.(int) -> string", "string.(int, int) -> string"]),
    ("trim", &["string.() -> string"]),
    ("upperAscii", &["string.() -> string"]),
];
