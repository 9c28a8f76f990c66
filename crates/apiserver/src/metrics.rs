//! The server's `/metrics`: requests by verb, resource and status, and objects by resource.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::http::path::RequestInfo;
use crate::server::Inner;

/// Requests that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    group: SmolStr,
    version: SmolStr,
    resource: SmolStr,
    subresource: SmolStr,
    verb: &'static str,
    scope: &'static str,
    code: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<Alike, u64>>);

impl Requests {
    /// Counts a finished request. Unknown resources are counted under one name, so that invalid requests cannot use memory.
    pub(crate) fn count(&self, info: &RequestInfo, served: bool, code: u16) {
        let known = |text: &SmolStr| if served { text.clone() } else { SmolStr::default() };
        let alike = Alike {
            group: known(&info.group),
            version: known(&info.version),
            resource: known(&info.resource),
            subresource: known(&info.subresource),
            verb: verb(info.verb),
            scope: match (served, &info.name, &info.namespace) {
                (false, ..) => "",
                (_, Some(_), _) => "resource",
                (_, None, Some(_)) => "namespace",
                (_, None, None) => "cluster",
            },
            code,
        };
        *self.0.lock().entry(alike).or_insert(0) += 1;
    }
}

fn verb(verb: &str) -> &'static str {
    match verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

/// The page, as Prometheus reads it.
pub(crate) fn page(server: &Inner) -> String {
    let mut out = String::from(
        "# HELP apiserver_request_total [STABLE] Requests by verb, group, version, resource, scope and HTTP status.\n\
         # TYPE apiserver_request_total counter\n",
    );
    // Writing into a String cannot fail.
    for (alike, count) in server.requests.0.lock().iter() {
        let Alike { group, version, resource, subresource, verb, scope, code } = alike;
        let _ = writeln!(
            out,
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",group=\"{group}\",\
             resource=\"{resource}\",scope=\"{scope}\",subresource=\"{subresource}\",verb=\"{verb}\",\
             version=\"{version}\"}} {count}"
        );
    }
    out.push_str(
        "# HELP apiserver_resource_objects [ALPHA] Objects that are stored, by resource.\n\
         # TYPE apiserver_resource_objects gauge\n",
    );
    for (shelf, count) in server.store.counts() {
        let (group, resource) = (&shelf.group, &shelf.plural);
        let _ =
            writeln!(out, "apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}");
    }
    out
}
