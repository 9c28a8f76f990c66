//! What is done about a volume, and who removes it.

use serde_json::json;

use super::world::{claim, volume};
use crate::binder::plugins::{Remover, remover};
use crate::binder::volume::{Step, may_reclaim, plan};

fn planned(words: &str, claimed: Option<&str>) -> &'static str {
    let claimed = claimed.map(claim);
    match plan(&volume(words), claimed.as_ref()) {
        Step::Be(phase) => phase,
        Step::AskClaim => "ask the claim",
        Step::Mismatch { .. } => "mismatch",
        Step::Free => "free",
        Step::Reclaim => "reclaim",
    }
}

#[test]
fn a_volume_follows_its_claim() {
    #[rustfmt::skip]
    let table = [
        // case                                volume                       claim                  step
        ("nobody's",                           "a phase=Pending",           None,                  "Available"),
        ("promised by name",                   "a for=c",                   None,                  "Available"),
        ("bound",                              "a of=c",                    Some("c names=a"),     "Bound"),
        ("its claim is gone",                  "a of=c phase=Bound",        None,                  "reclaim"),
        ("its claim does not know yet",        "a of=c",                    Some("c"),             "ask the claim"),
        ("its claim wants blocks",             "a of=c",                    Some("c block"),       "mismatch"),
        ("its claim has another",              "a of=c ours",               Some("c names=b"),     "free"),
        ("another, and a user promised it",    "a of=c",                    Some("c names=b"),     "free"),
        ("another, and it was made for it",    "a of=c made=x policy=Delete", Some("c names=b"),   "reclaim"),
        ("made for it, but to be kept",        "a of=c made=x",             Some("c names=b"),     "free"),
    ];
    for (case, words, claim, want) in table {
        assert_eq!(planned(words, claim), want, "{case}");
    }
}

#[test]
fn only_a_volume_without_its_claim_is_emptied_or_deleted() {
    #[rustfmt::skip]
    let table = [
        ("a",         None,                false),
        ("a for=c",   None,                false),
        ("a of=c",    None,                true),
        ("a of=c",    Some("c names=a"),   false),
        ("a of=c",    Some("c"),           false),
        ("a of=c",    Some("c names=b"),   true),
        ("a of=old",  Some("c names=a"),   true),
    ];
    for (words, claimed, want) in table {
        assert_eq!(may_reclaim(&volume(words), claimed.map(claim).as_ref()), want, "{words} {claimed:?}");
    }
}

#[test]
fn what_is_behind_a_volume_is_removed_by_whoever_made_it() {
    let path = || Remover::HostPath(Some("/tmp/a".into()));
    let error = |why: &str| Err(format!("error getting deleter volume plugin for volume \"a\": {why}"));
    #[rustfmt::skip]
    let table = [
        // case                     made by                    source                                          remover
        ("a directory",             "",                        json!({"hostPath": {"path": "/tmp/a"}}),        Ok(path())),
        ("a directory made here",   "kubernetes.io/host-path", json!({"hostPath": {"path": "/tmp/a"}}),        Ok(path())),
        ("made outside",            "csi.example.com",         json!({"hostPath": {"path": "/tmp/a"}}),        Ok(Remover::External)),
        ("a driver's",              "",                        json!({"csi": {"driver": "d"}}),                Ok(Remover::External)),
        ("a share",                 "",                        json!({"nfs": {"server": "s"}}),                error("no deletable volume plugin matched")),
        ("a disk of a node",        "",                        json!({"local": {"path": "/d"}}),               error("no volume plugin matched")),
        ("a plugin that is gone",   "kubernetes.io/flocker",   json!({"local": {"path": "/d"}}),               Err("no volume plugin matched name: kubernetes.io/flocker".into())),
        ("a share made here",       "kubernetes.io/nfs",       json!({"nfs": {"server": "s"}}),                Err("no deletable volume plugin matched".into())),
    ];
    for (case, made, source, want) in table {
        let words = if made.is_empty() { "a".to_owned() } else { format!("a made={made}") };
        let mut volume = volume(&words);
        volume.spec = volume
            .spec
            .edited(|spec| {
                let fields = source.as_object().unwrap().clone();
                spec.as_object_mut().unwrap().extend(fields);
            })
            .unwrap();
        assert_eq!(remover(&volume), want, "{case}");
    }
}
