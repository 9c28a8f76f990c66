//! What is done for a claim.

use std::sync::Arc;

use flyball_api::StorageClass;
use smol_str::SmolStr;

use super::world::{claim, class, volume};
use crate::binder::claim::{Step, Tell, View, plan};
use crate::binder::plugins::Maker;

type Row<'a> = (&'a str, &'a str, &'a [&'a str], Option<&'a StorageClass>, &'a str, &'a str);

fn said(tell: Option<Tell>) -> String {
    tell.map_or(String::new(), |tell| {
        let kind = if tell.is_warning { "!" } else { "" };
        format!(" {kind}{}: {}", tell.reason, tell.message)
    })
}

fn planned(words: &str, volumes: &[&str], class: Option<&StorageClass>, default: &str, pods: &str) -> String {
    // As the binder finds it at its start.
    let (words, is_start) = words.strip_suffix(" found").map_or((words, false), |words| (words, true));
    let claim = claim(words);
    let volumes: Vec<_> = volumes.iter().map(|words| Arc::new(volume(words))).collect();
    let default = SmolStr::new(default);
    let pods: Vec<SmolStr> = pods.split_whitespace().map(SmolStr::new).collect();
    let view = View {
        claim: &claim,
        named: volumes.iter().find(|volume| volume.metadata.name == claim.spec.volume_name),
        volumes: &volumes,
        class,
        default_class: (!default.is_empty()).then_some(&default),
        waiting: &pods,
        provisions: true,
        is_news: !is_start,
    };
    match plan(&view).unwrap() {
        Step::Wait(tell) => format!("wait{}", said(tell)),
        Step::Pend(tell) => format!("pend{}", said(tell)),
        Step::Lose(tell) => format!("lose{}", said(Some(tell))),
        Step::Bind(volume) => format!("bind {}", volume.metadata.name),
        Step::Classify(class) => format!("classify {class}"),
        Step::Provision(Maker::External(name)) => format!("ask {name}"),
        Step::Provision(Maker::HostPath) => "make".to_owned(),
        Step::Contest(tell) => format!("contest{}", said(Some(tell))),
        Step::Soon => "soon".to_owned(),
    }
}

#[test]
fn a_claim_that_names_no_volume_finds_one_or_has_it_made() {
    let class = |provisioner| class("gold", provisioner, "Immediate");
    let (csi, ebs) = (class("csi.example.com"), class("kubernetes.io/aws-ebs"));
    let (none, nfs) = (class("kubernetes.io/no-provisioner"), class("kubernetes.io/nfs"));
    let host = class("kubernetes.io/host-path");
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // case                      claim         volumes   class         default  step
        ("one suits",                "c",          &["a"],   Some(&csi),   "",      "bind a"),
        ("one is about to be had",   "c",          &["a phase=Pending"],      None,       "", "soon"),
        ("that came after it",       "c",          &["a phase=Pending late"], Some(&csi), "", "ask csi.example.com"),
        ("while nobody looked",      "c found",    &["a phase=Pending"],      Some(&csi), "", "ask csi.example.com"),
        ("that is too small",        "c 2Gi",      &["a phase=Pending"],      Some(&csi), "", "ask csi.example.com"),
        ("that was another's",       "c",          &["a phase=Released"],     Some(&csi), "", "ask csi.example.com"),
        ("asked for outside",        "c",          &[],      Some(&csi),   "",      "ask csi.example.com"),
        ("a driver took over",       "c",          &[],      Some(&ebs),   "",      "ask ebs.csi.aws.com"),
        ("made here",                "c",          &[],      Some(&host),  "",      "make"),
        ("a plugin without makers",  "c",          &[],      Some(&nfs),   "",      "wait !ProvisioningFailed: no provisionable volume plugin matched"),
        ("nobody makes it",          "c",          &[],      Some(&none),  "",      "wait !ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner"),
        ("no such class",            "c",          &[],      None,         "",      "wait !ProvisioningFailed: storageclass.storage.k8s.io \"gold\" not found"),
        ("no class at all",          "c class=",   &[],      None,         "std",   "pend FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("class left open",          "c class=-",  &[],      None,         "std",   "classify std"),
        ("left open, and no default","c class=-",  &[],      None,         "",      "pend FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("left open, one suits",     "c class=-",  &["a class="], None,    "std",   "bind a"),
    ];
    for (case, words, volumes, class, default, want) in table {
        assert_eq!(planned(words, volumes, *class, default, ""), *want, "{case}");
    }
}

#[test]
fn a_claim_that_waits_for_a_pod_says_for_which() {
    let lazy = class("gold", "csi.example.com", "WaitForFirstConsumer");
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], &str, &str)] = &[
        // case                     claim     volumes      pods    step
        ("nobody wants it",         "c",      &["a"],      "",     "pend WaitForFirstConsumer: waiting for first consumer to be created before binding"),
        ("a pod does",              "c",      &["a"],      "p",    "pend WaitForPodScheduled: waiting for pod p to be scheduled"),
        ("pods do",                 "c",      &["a"],      "p q",  "pend WaitForPodScheduled: waiting for pods p,q to be scheduled"),
        ("its node is chosen",      "c node", &["a"],      "",     "ask csi.example.com"),
        ("its volume is chosen",    "c",      &["a for=c"],"p",    "bind a"),
    ];
    for (case, words, volumes, pods, want) in table {
        assert_eq!(planned(words, volumes, Some(&lazy), "", pods), *want, "{case}");
    }
}

#[test]
fn a_claim_that_names_a_volume_gets_that_or_none() {
    let taken = "FailedBinding: volume \"a\" already bound to a different claim.";
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], &str)] = &[
        ("not there yet",               "c names=a",       &["b"],         "pend"),
        ("free",                        "c names=a",       &["a"],         "bind a"),
        ("free, whatever its labels",   "c names=a label=x", &["a"],       "bind a"),
        ("unsuitable",                  "c names=a 2Gi",   &["a"],         "pend !VolumeMismatch: Cannot bind to requested volume \"a\": requested PV is too small"),
        ("promised to it",              "c names=a",       &["a for=c"],   "bind a"),
        ("promised to it, unsuitable",  "c names=a 2Gi",   &["a for=c"],   "bind a"),
        ("another's",                   "c names=a",       &["a of=d"],    &format!("pend !{taken}")),
        ("another's, half undone",      "c names=a ours",  &["a of=d"],    &format!("contest !{taken}")),
    ];
    for (case, words, volumes, want) in table {
        assert_eq!(planned(words, volumes, None, "", ""), *want, "{case}");
    }
}

#[test]
fn a_claim_that_had_its_volume_keeps_it_or_has_lost_it() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], &str)] = &[
        ("as it should be",       "c done names=a phase=Bound",  &["a of=c"],  "bind a"),
        ("the volume forgot",     "c done names=a phase=Bound",  &["a"],       "bind a"),
        ("the volume is gone",    "c done names=a phase=Bound",  &[],          "lose !ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        ("gone, and told so",     "c done names=a phase=Lost",   &[],          "wait"),
        ("the name is gone",      "c done phase=Bound",          &["a of=c"],  "lose !ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"),
        ("another has it",        "c done names=a phase=Bound",  &["a of=d"],  "lose !ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly"),
        ("it came back",          "c done names=a phase=Lost",   &["a"],       "bind a"),
    ];
    for (case, words, volumes, want) in table {
        assert_eq!(planned(words, volumes, None, "", ""), *want, "{case}");
    }
}
