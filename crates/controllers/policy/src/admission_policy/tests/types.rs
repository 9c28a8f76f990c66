//! Which schemas are read, and what follows from the answers.

use std::collections::BTreeMap;

use flyball_api::ResourceType;
use flyball_client::{ApiStatus, DiscoveredResource, Discovery, Error};
use serde_json::{Value, json};

use super::super::policy::Spec;
use super::super::types::{INDEX, Need, Published, Sources, need, types, usable};
use super::super::variables::Params;

fn spec(resources: &[&str], param_kind: Value) -> Spec {
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources});
    serde_json::from_value(json!({"paramKind": param_kind, "matchConstraints": {"resourceRules": [rule]}}))
        .unwrap()
}

fn served() -> Discovery {
    let resource = |plural: &'static str, kind: &'static str| DiscoveredResource {
        resource: ResourceType::new("apps", "v1", plural, kind, true),
        verbs: vec![],
        subresources: vec![],
        preferred: true,
        short_names: vec![],
        categories: vec![],
    };
    let resources = vec![resource("deployments", "Deployment"), resource("replicasets", "ReplicaSet")];
    Discovery { resources, failures: vec![] }
}

/// Answers all needs, and returns them in order.
fn read(sources: &mut Sources<'_>) -> Vec<String> {
    let published = json!({"paths": {
        "apis/apps/v1": {"serverRelativeURL": "/apps?hash=1"}, "apis/x.io/v1": {"serverRelativeURL": "/x"},
    }});
    let schema = |kind: &str, fields: Value| {
        json!({
            "type": "object", "properties": fields,
            "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": kind}],
        })
    };
    let apps = json!({"components": {"schemas": {
        "d": schema("Deployment", json!({"n": {"type": "integer"}})),
        "r": schema("ReplicaSet", json!({"n": {"$ref": "#/components/schemas/nowhere"}})),
    }}});
    let mut needs = vec![];
    while let Some(need) = need(sources) {
        needs.push(match &need {
            Need::Document { url, .. } => url.clone(),
            other => format!("{other:?}"),
        });
        match need {
            Need::Discovery => sources.served = Some(served()),
            Need::Index => {
                let published: Published = serde_json::from_value(published.clone()).unwrap();
                sources.published = Some(published);
            }
            Need::Document { place, url } => {
                let document = (url == "/apps?hash=1").then(|| serde_json::from_value(apps.clone()).unwrap());
                sources.documents.insert(place, document);
            }
        }
    }
    needs
}

#[test]
fn what_a_policy_needs_is_read_once_and_nothing_else() {
    let param = |group: &str| json!({"apiVersion": format!("{group}/v1"), "kind": "Limit"});
    #[rustfmt::skip]
    let table = [
        // case                            resources                          params          reads                            kinds, unusable, params
        ("names nothing",                  &["*"][..],                        json!(null),    "",                              "; ; none"),
        ("one document for two kinds",     &["deployments", "replicasets"],   json!(null),    "Discovery Index /apps?hash=1",  "Deployment; ReplicaSet; none"),
        ("a resource that is not served",  &["jobs"],                         json!(null),    "Discovery",                     "; ; none"),
        ("params cannot be read",          &["*"],                            param("x.io"),  "Index /x",                      "; ; unknown"),
        ("params are not published",       &["*"],                            param("y.io"),  "Index",                         "; ; unknown"),
        ("both",                           &["deployments"],                  param("x.io"),  "Discovery Index /apps?hash=1 /x", "Deployment; ; unknown"),
    ];
    for (case, resources, params, reads, want) in table {
        let spec = spec(resources, params);
        let mut sources = Sources { spec: &spec, served: None, published: None, documents: BTreeMap::new() };
        assert_eq!(read(&mut sources).join(" "), reads, "{case}");
        let types = types(&sources);
        let kinds: Vec<&str> = types.kinds.iter().map(|(kind, _)| kind.kind.as_str()).collect();
        let unusable: Vec<&str> = types.unusable.iter().map(|(kind, _)| kind.kind.as_str()).collect();
        let params = match types.params {
            Params::None => "none",
            Params::Unknown => "unknown",
            Params::Known(_) => "known",
        };
        assert_eq!(format!("{}; {}; {params}", kinds.join(" "), unusable.join(" ")), want, "{case}");
    }
}

#[test]
fn a_schema_that_cannot_be_read_is_left_out_unless_a_retry_can_help() {
    let status = |code: u16| Err(Error::Status(Box::new(ApiStatus { code, ..ApiStatus::default() })));
    #[rustfmt::skip]
    let table = [
        ("read",         Ok("{\"a\":1}"),  "read"),
        ("no JSON",      Ok("<html>"),     "left out"),
        ("forbidden",    status(403),      "left out"),
        ("overloaded",   status(429),      "retry"),
    ];
    for (case, answer, want) in table {
        let found = match usable::<Value>(INDEX, answer) {
            Ok(Ok(_)) => "read",
            Ok(Err(_)) => "left out",
            Err(_) => "retry",
        };
        assert_eq!(found, want, "{case}");
    }
}
