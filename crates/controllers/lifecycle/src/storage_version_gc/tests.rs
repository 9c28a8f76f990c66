//! What is left of StorageVersions when API servers are gone.

use std::collections::BTreeSet;

use flyball_api::{Lease, ResourceVersion};
use flyball_client::{ApiStatus, Error};
use flyball_runtime::plan::Operation;
use serde_json::{Value, json};

use super::plan::{View, is_gone, plan, servers};

const NOW: &str = "2026-03-10T12:00:00Z";
const THEN: &str = "2026-01-01T00:00:00Z";

/// `a=v1 b=v2`: servers and the versions they encode in.
fn version(entries: &str, common: Option<&str>, agreed: &str) -> Value {
    let entries: Vec<Value> = entries
        .split(' ')
        .filter_map(|entry| entry.split_once('='))
        .map(|(server, version)| json!({"apiServerID": server, "encodingVersion": version, "decodableVersions": [version]}))
        .collect();
    let mut status = json!({
        "storageVersions": entries,
        "conditions": [{"type": "AllEncodingVersionsEqual", "status": agreed, "lastTransitionTime": THEN}],
    });
    if let Some(common) = common {
        status["commonEncodingVersion"] = json!(common);
    }
    json!({"metadata": {"name": "apps.deployments", "generation": 3, "resourceVersion": "7"}, "spec": {}, "status": status})
}

#[test]
fn entries_of_api_servers_that_are_gone_are_removed() {
    #[rustfmt::skip]
    let table = [
        // case                    before                                       gone   left            common      agreed    since
        ("no server is gone",      version("a=v1 b=v1", Some("v1"), "True"),    "x",   "everything",   "",         "",       ""),
        ("one of two",             version("a=v1 b=v1", Some("v1"), "True"),    "a",   "b",            "v1",       "True",   THEN),
        ("now they agree",         version("a=v1 b=v2", None, "False"),         "a",   "b",            "v2",       "True",   NOW),
        ("they still do not",      version("a=v1 b=v2 c=v3", None, "False"),    "a",   "b c",          "",         "False",  THEN),
        ("on another version",     version("a=v1 b=v2", Some("v1"), "True"),    "a",   "b",            "v2",       "True",   NOW),
        ("the last one",           version("a=v1", Some("v1"), "True"),         "a",   "nothing",      "",         "",       ""),
        ("without entries",        version("", None, "False"),                  "a",   "everything",   "",         "",       ""),
    ];
    for (case, before, gone, left, common, agreed, since) in table {
        let gone = BTreeSet::from([gone.to_owned()]);
        let plan = plan(&View { versions: &[before], gone: &gone, now: NOW.parse().unwrap() });
        let want = match left {
            "everything" => "each".to_owned(),
            "nothing" => "each\n  delete StorageVersion apps.deployments: every API server that it has an entry of is gone".to_owned(),
            _ => "each\n  update StorageVersion/status apps.deployments: an API server that it has an entry of is gone".to_owned(),
        };
        assert_eq!(plan.to_string(), want, "{case}");
        match plan.writes().first().map(|write| &write.operation) {
            Some(Operation::Update(body)) => {
                let version = body.value();
                let status = &version["status"];
                assert_eq!(servers(&version).join(" "), left, "{case}");
                assert_eq!(status["commonEncodingVersion"].as_str().unwrap_or_default(), common, "{case}");
                let condition = &status["conditions"][0];
                assert_eq!(condition["status"], agreed, "{case}");
                assert_eq!(condition["lastTransitionTime"], since, "{case}");
                assert_eq!(condition["observedGeneration"], 3, "{case}");
                assert_eq!(
                    status["storageVersions"][0]["decodableVersions"].as_array().unwrap().len(),
                    1,
                    "{case}: no field is lost"
                );
            }
            Some(Operation::Delete(options)) => {
                assert_eq!(
                    options.resource_version,
                    Some(ResourceVersion(7)),
                    "{case}: the version that was read"
                );
            }
            _ => assert_eq!(left, "everything", "{case}"),
        }
    }
}

#[test]
fn an_api_server_is_gone_if_it_has_no_lease_of_its_own() {
    let lease = |identity: &str| -> Result<Lease, Error> {
        let labels = json!({"apiserver.kubernetes.io/identity": identity});
        Ok(serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}})).unwrap())
    };
    let refused = |code| {
        Err(Error::Status(Box::new(ApiStatus { code, reason: "NotFound".into(), ..ApiStatus::default() })))
    };
    let failed = || Err(Error::Status(Box::new(ApiStatus { code: 500, ..ApiStatus::default() })));
    #[rustfmt::skip]
    let table = [
        // case                             server  lease                     gone
        ("it has a lease",                  "a",    lease("kube-apiserver"),  Some(false)),
        ("a lease of another component",    "a",    lease("other"),           Some(true)),
        ("no lease",                        "a",    refused(404),             Some(true)),
        ("an entry without a name",         "",     failed(),                 Some(true)),
        ("the lease could not be read",     "a",    failed(),                 None),
    ];
    for (case, server, lease, want) in table {
        assert_eq!(is_gone(server, lease).ok(), want, "{case}");
    }
}
