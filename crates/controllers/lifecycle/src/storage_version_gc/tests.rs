//! What is left when servers go.

use flyball_api::Timestamp;
use serde_json::{Value, json};

use super::plan::{Left, without};

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
    json!({"metadata": {"name": "apps.deployments", "generation": 3}, "spec": {}, "status": status})
}

#[test]
fn what_gone_servers_said_is_forgotten() {
    #[rustfmt::skip]
    let table = [
        // case                    before                                       gone   left            common      agreed    since
        ("nobody is gone",         version("a=v1 b=v1", Some("v1"), "True"),    "x",   "everything",   "",         "",       ""),
        ("one of two",             version("a=v1 b=v1", Some("v1"), "True"),    "a",   "b",            "v1",       "True",   THEN),
        ("now they agree",         version("a=v1 b=v2", None, "False"),         "a",   "b",            "v2",       "True",   NOW),
        ("they still do not",      version("a=v1 b=v2 c=v3", None, "False"),    "a",   "b c",          "",         "False",  THEN),
        ("on another version",     version("a=v1 b=v2", Some("v1"), "True"),    "a",   "b",            "v2",       "True",   NOW),
        ("the last one",           version("a=v1", Some("v1"), "True"),         "a",   "nothing",      "",         "",       ""),
        ("nobody ever said a word", version("", None, "False"),                 "a",   "everything",   "",         "",       ""),
    ];
    let now: Timestamp = NOW.parse().unwrap();
    for (case, before, gone, left, common, agreed, since) in table {
        match without(before, |server| server == gone, now) {
            Left::Everything => assert_eq!(left, "everything", "{case}"),
            Left::Nothing => assert_eq!(left, "nothing", "{case}"),
            Left::Some(version) => {
                let status = &version["status"];
                assert_eq!(super::plan::servers(&version).join(" "), left, "{case}");
                assert_eq!(status["commonEncodingVersion"].as_str().unwrap_or_default(), common, "{case}");
                let condition = &status["conditions"][0];
                assert_eq!(condition["status"], agreed, "{case}");
                assert_eq!(condition["lastTransitionTime"], since, "{case}");
                assert_eq!(condition["observedGeneration"], 3, "{case}");
                assert_eq!(
                    status["storageVersions"][0]["decodableVersions"].as_array().unwrap().len(),
                    1,
                    "{case}: nothing is lost"
                );
            }
        }
    }
}
