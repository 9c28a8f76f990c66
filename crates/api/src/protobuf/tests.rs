//! The decoder against what Go writes: upstream's own test data has every kind with all fields set, in both encodings. It is in
//! the module cache of Go wherever the control plane was built (`cargo xtask assets`).

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::sample::{field, number};
use super::*;
use crate::{Node, Object, Pod, PodTemplate, ReplicaSet};

/// The version whose schema we have.
const MODULE: &str = "pkg/mod/k8s.io/api@v0.36.4/testdata/HEAD";

fn upstream_data() -> Option<Vec<(String, Vec<u8>, Value)>> {
    let go = std::env::var_os("GOPATH").map(PathBuf::from);
    let folder = go.or_else(|| Some(std::env::home_dir()?.join("go")))?.join(MODULE);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).ok()? {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pb") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let json = std::fs::read(path.with_extension("json")).unwrap();
            found.push((name, std::fs::read(&path).unwrap(), serde_json::from_slice(&json).unwrap()));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Some(found)
}

#[test]
fn every_kind_reads_as_its_json() {
    let Some(found) = upstream_data() else {
        eprintln!("skipped: {MODULE} is not there, run `cargo xtask assets`");
        return;
    };
    let mut compared = 0;
    for (name, bytes, json) in found {
        let envelope = Envelope::open(&bytes).unwrap();
        let Ok(message) = envelope.message() else { continue };
        compared += 1;
        let written = envelope.to_json().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json, "{name}");
        // The order of Go's fields, too: objects of serde_json are sorted, so compare the texts of a few kinds below.
        let mut read: Value = decode(message, envelope.raw).unwrap_or_else(|error| panic!("{name}: {error}"));
        read["kind"] = json["kind"].clone();
        read["apiVersion"] = json["apiVersion"].clone();
        assert_eq!(read, json, "{name}");
    }
    assert!(compared > 80, "{compared} kinds are in the schema");
}

#[test]
fn every_kind_is_written_as_go_writes_it() {
    let Some(found) = upstream_data() else {
        eprintln!("skipped: {MODULE} is not there, run `cargo xtask assets`");
        return;
    };
    let mut compared = 0;
    for (name, bytes, json) in found {
        let given = Envelope::open(&bytes).unwrap();
        let Ok(message) = given.message() else { continue };
        compared += 1;
        let written = encode(message, &json).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(envelope(given.api_version, given.kind, &written) == bytes, "{name} differs");
    }
    assert!(compared > 80, "{compared} kinds are in the schema");
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let pod: Value = serde_json::from_str(&to_json(message("v1", "Pod"), &pod()).unwrap()).unwrap();
    let mut pods = vec![pod.clone(), pod];
    pods[1]["metadata"]["creationTimestamp"] = json!("1969-12-31T23:59:59Z");
    pods[1]["spec"]["containers"][0]["livenessProbe"] = json!({"httpGet": {"port": "web"}});
    pods[1]["spec"]["priority"] = json!(-1);
    let message = message("v1", "Pod");
    let items: Vec<Vec<u8>> = pods.iter().map(|pod| encode(message, pod).unwrap()).collect();
    let metadata = json!({"resourceVersion": "7", "continue": "more", "remainingItemCount": 3});
    let list = encode_list(&metadata, items.iter().map(Vec::as_slice)).unwrap();
    let sent = envelope("v1", "PodList", &list);
    let opened = Envelope::open(&sent).unwrap();
    let list = List::open(opened.raw).unwrap();
    assert_eq!((list.resource_version, list.continue_, list.remaining), ("7", "more", Some(3)));
    for (item, pod) in list.items.iter().zip(&pods) {
        let read: Value =
            serde_json::from_str(&to_json(opened.item_message().unwrap(), item).unwrap()).unwrap();
        assert_eq!(read, *pod);
    }
    let event = frame("ADDED", &envelope("v1", "Pod", &items[0]));
    assert_eq!(event[..4], u32::try_from(event.len() - 4).unwrap().to_be_bytes());
    let event = WatchEvent::open(&event[4..]).unwrap();
    assert_eq!((event.type_, Envelope::open(event.object).unwrap().raw), ("ADDED", &items[0][..]));
    // An unknown field is left out; what cannot be written is an error.
    assert_eq!(encode(message, &json!({"news": 1})).unwrap(), encode(message, &json!({})).unwrap());
    assert!(encode(message, &json!({"metadata": {"deletionTimestamp": "yesterday"}})).is_err());
}

fn message(api_version: &str, kind: &str) -> &'static Message {
    Message::of_kind(api_version, kind).unwrap()
}

fn pod() -> Vec<u8> {
    let secret = field(6, field(1, "s"));
    let volume = [field(1, "v"), field(2, secret)].concat();
    let disk = field(2, field(4, [field(1, "vol-1"), field(2, ""), number(3, 0), number(4, 0)].concat()));
    let requests = field(2, [field(1, "cpu"), field(2, field(1, "100m"))].concat());
    let container = [field(1, "c"), field(2, ""), field(8, requests)].concat();
    // terminationGracePeriodSeconds 30, restartPolicy, an empty nodeName and hostNetwork false, securityContext
    let spec = [
        field(1, volume),
        field(1, [field(1, "w"), disk].concat()),
        field(2, container),
        field(3, "Never"),
        number(4, 30),
        field(10, ""),
        number(11, 0),
        field(14, number(5, 1)),
    ];
    let labels = [
        field(11, [field(1, "b"), field(2, "1")].concat()),
        field(11, [field(1, "a"), field(2, "")].concat()),
    ];
    let meta =
        [field(1, "x"), field(2, ""), field(8, [0x08, 0xe8, 0x07, 0x10, 0x00]), labels.concat()].concat();
    let condition = [field(1, "Ready"), field(2, "True"), field(3, ""), field(4, [0x08, 0x0a])].concat();
    let status = [field(1, "Running"), field(2, condition)].concat();
    [field(1, meta), field(2, spec.concat()), field(3, status)].concat()
}

#[test]
fn a_pod_is_read_as_from_json() {
    let json = to_json(message("v1", "Pod"), &pod()).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"metadata":{"name":"x","creationTimestamp":"1970-01-01T00:16:40Z","labels":{"a":"","b":"1"}},"#,
            r#""spec":{"volumes":[{"name":"v","secret":{"secretName":"s"}},{"name":"w","awsElasticBlockStore":{"volumeID":"vol-1"}}],"#,
            r#""containers":[{"name":"c","resources":{"requests":{"cpu":"100m"}}}],"restartPolicy":"Never","#,
            r#""terminationGracePeriodSeconds":30,"securityContext":{"fsGroup":1}},"#,
            r#""status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"1970-01-01T00:00:10Z"}]}}"#,
        )
    );
    let decoded: Pod = decode(message("v1", "Pod"), &pod()).unwrap();
    assert_eq!(decoded, Pod::from_json(json.as_bytes()).unwrap());
    assert_eq!(decoded.spec.rare().security_context.as_ref().unwrap().as_str(), r#"{"fsGroup":1}"#);
    assert_eq!(decoded.spec.volumes.len(), 1);
}

/// A newer server may send fields that this schema does not have.
#[test]
fn unknown_fields_are_skipped_but_never_lost_where_json_is_kept() {
    let message = message("v1", "Pod");
    let unknown = field(15, "news");
    let with =
        |meta: &[u8], spec: Vec<u8>| [field(1, [&field(1, "x"), meta].concat()), field(2, spec)].concat();
    let outside = with(&unknown, field(3, "Never"));
    assert_eq!(decode::<Pod>(message, &outside).unwrap().metadata.name, "x");
    assert!(to_json(message, &outside).is_err());
    let inside = with(&[], field(14, &unknown));
    assert!(decode::<Pod>(message, &inside).is_err());
    // A template is copied as a whole.
    let template = field(3, field(2, &unknown));
    let set = [field(1, field(1, "x")), field(2, template)].concat();
    assert!(decode::<ReplicaSet>(super::Message::of_kind("apps/v1", "ReplicaSet").unwrap(), &set).is_err());
}

#[test]
fn embedded_json_is_compacted_as_go_does() {
    let revision = |json: &str| [field(2, field(1, json)), number(3, 7)].concat();
    let message = message("apps/v1", "ControllerRevision");
    #[rustfmt::skip]
    let table = [
        (r#"{"b": 1, "a": "x  \" <"}"#, Some(r#"{"metadata":{},"data":{"b":1,"a":"x  \" \u003c"},"revision":7}"#)),
        ("",                            Some(r#"{"metadata":{},"data":null,"revision":7}"#)),
        ("{",                           None),
        ("k8s\0",                       None),
    ];
    for (data, want) in table {
        assert_eq!(to_json(message, &revision(data)).ok().as_deref(), want, "{data}");
    }
}

#[test]
fn templates_are_read_with_their_json() {
    let template = field(
        3,
        [field(1, field(11, [field(1, "a"), field(2, "b")].concat())), field(2, field(3, "Always"))].concat(),
    );
    let set = field(2, [number(1, 3), template].concat());
    let set: ReplicaSet = decode(message("apps/v1", "ReplicaSet"), &set).unwrap();
    assert_eq!(set.spec.replicas, Some(3));
    let template: &PodTemplate = &set.spec.template;
    assert_eq!(template.raw().to_value()["metadata"], json!({"labels": {"a": "b"}}));
}

#[test]
fn nesting_is_bounded() {
    // A message that contains itself does not exist among the kinds, but inlined ones nest at every level.
    let mut bytes = vec![];
    for _ in 0..1000 {
        bytes = field(2, bytes);
    }
    for (version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "PersistentVolume")] {
        let _ = to_json(message(version, kind), &bytes);
        let _ = decode::<Value>(message(version, kind), &bytes);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        for (version, kind) in [("v1", "Pod"), ("v1", "Node"), ("v1", "Secret"), ("apps/v1", "ControllerRevision")] {
            let _ = to_json(message(version, kind), &bytes);
            let _ = decode::<Value>(message(version, kind), &bytes);
        }
        let _ = decode::<Node>(message("v1", "Node"), &bytes);
        let _ = (Envelope::open(&bytes).is_ok(), List::open(&bytes).is_ok(), WatchEvent::open(&bytes).is_ok());
    }

    /// Cut or changed anywhere, a pod is decoded or refused.
    #[test]
    fn broken_pods_do_not_panic(at in 0usize..400, byte: u8, cut: bool) {
        let mut bytes = pod();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let direct = decode::<Pod>(message("v1", "Pod"), &bytes);
        if let (Ok(direct), Ok(json)) = (direct, to_json(message("v1", "Pod"), &bytes))
            && let Ok(read) = Pod::from_json(json.as_bytes())
        {
            prop_assert_eq!(direct, read);
        }
    }
}

#[test]
fn a_pointer_that_json_never_omits_is_null() {
    let source = [field(2, "PersistentVolumeClaim"), field(3, "a")].concat();
    let claim = field(2, field(7, source));
    let json = to_json(message("v1", "PersistentVolumeClaim"), &claim).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let want = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a"});
    assert_eq!(json["spec"]["dataSource"], want);
}
