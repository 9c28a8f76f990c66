//! Parses the method and path of a request.

use smol_str::SmolStr;

/// The attributes of a request, as RBAC and the audit log name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-cased method for
    /// paths that are not resources.
    pub verb: &'static str,
    /// Whether it is about a resource.
    pub is_resource: bool,
    pub path: String,
    pub group: SmolStr,
    pub version: SmolStr,
    pub namespace: Option<SmolStr>,
    pub resource: SmolStr,
    pub subresource: SmolStr,
    /// What follows the subresource (`…/proxy/a/b`).
    pub rest: String,
    pub name: Option<SmolStr>,
    /// Fields that the request selects by, with the values that they must have.
    pub selected: Vec<(String, String)>,
}

/// Parses a request's method and path. `watch` is the query parameter.
pub(crate) fn parse(method: &http::Method, path: &str, watch: bool) -> RequestInfo {
    let mut info = RequestInfo { path: path.to_owned(), verb: plain_verb(method), ..RequestInfo::default() };
    let mut parts = path.split('/').filter(|part| !part.is_empty()).map(super::query::decode);
    match parts.next().as_deref() {
        Some("api") => info.group = SmolStr::default(),
        Some("apis") => match parts.next() {
            Some(group) => info.group = group.into(),
            None => return info,
        },
        _ => return info,
    }
    let Some(version) = parts.next() else { return info };
    info.version = version.into();
    let mut parts: Vec<String> = parts.collect();
    let mut old_watch = false;
    if parts.first().is_some_and(|part| part == "watch") && parts.len() > 1 {
        parts.remove(0);
        old_watch = true;
    }
    if parts.is_empty() {
        return info;
    }
    info.is_resource = true;
    if parts[0] == "namespaces" && parts.len() > 1 {
        info.namespace = Some(parts[1].as_str().into());
        // `/namespaces/x` and `/namespaces/x/status` address the namespace; `/namespaces/x/pods` addresses its contents.
        let inside = parts.len() > 2 && !["status", "finalize"].contains(&parts[2].as_str());
        if inside {
            parts.drain(..2);
        }
    }
    let mut parts = parts.into_iter();
    info.resource = parts.next().unwrap_or_default().into();
    info.name = parts.next().map(SmolStr::from);
    info.subresource = parts.next().unwrap_or_default().into();
    info.rest = parts.collect::<Vec<_>>().join("/");
    info.verb = match (method.as_str(), &info.name) {
        // The query of a proxied request is the other server's.
        ("GET" | "HEAD", _) if (watch && info.subresource.is_empty()) || old_watch => "watch",
        ("GET" | "HEAD", Some(_)) => "get",
        ("GET" | "HEAD", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", Some(_)) => "delete",
        ("DELETE", None) => "deletecollection",
        _ => plain_verb(method),
    };
    info
}

fn plain_verb(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_asked() {
        #[rustfmt::skip]
        let table = [
            ("GET", "/api/v1/pods", "list  pods - - "),
            ("GET", "/api/v1/namespaces/a/pods/b", "get  pods a b "),
            ("PUT", "/api/v1/namespaces/a/pods/b/status", "update  pods a b status"),
            ("GET", "/api/v1/namespaces/a", "get  namespaces a a "),
            ("PUT", "/api/v1/namespaces/a/finalize", "update  namespaces a a finalize"),
            ("GET", "/api/v1/namespaces", "list  namespaces - - "),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "create apps deployments a - "),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection apps deployments a - "),
            ("GET", "/api/v1/watch/pods", "watch  pods - - "),
            ("PATCH", "/apis/g/v1/things/x/scale", "patch g things - x scale"),
            ("GET", "/apis/apps/v1", "get apps  - - "),
            ("GET", "/healthz", "get   - - "),
        ];
        for (method, path, want) in table {
            let i = parse(&method.parse().unwrap(), path, false);
            let ns = i.namespace.as_deref().unwrap_or("-");
            let name = i.name.as_deref().unwrap_or("-");
            let got = format!("{} {} {} {ns} {name} {}", i.verb, i.group, i.resource, i.subresource);
            assert_eq!(got, want, "{method} {path}");
        }
    }
}
