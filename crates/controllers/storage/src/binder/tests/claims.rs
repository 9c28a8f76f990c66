//! What is done for a claim.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, StorageClass};
use flyball_client::Verb;
use flyball_runtime::events::EventType;
use flyball_runtime::{Event, Message, Plan};
use serde_json::json;
use smol_str::SmolStr;

use super::world::{claim, class, volume};
use crate::binder::claim::{Step, View, plan, step};
use crate::binder::invariants;
use crate::binder::plugins::Provisioner;
use crate::binder::provision::{Need, Provisioning, after_refusal, failure, need, refusal};
use crate::binder::writes::Tag;

type PlanRow<'a> = (&'a str, &'a str, &'a [&'a str], Option<&'a StorageClass>, String);
type Row<'a> = (&'a str, &'a str, &'a [&'a str], Option<&'a StorageClass>, &'a str, &'a str);

fn text(event: Option<Event>) -> String {
    event.map_or(String::new(), |event| {
        let kind = if event.type_ == EventType::Warning { "!" } else { "" };
        let Message::Text(message) = event.message else { panic!("{event}") };
        format!(" {kind}{}: {message}", event.reason)
    })
}

/// What a view is made of.
struct Case {
    claim: PersistentVolumeClaim,
    volumes: Vec<Arc<PersistentVolume>>,
    default: SmolStr,
    pods: Vec<SmolStr>,
    is_recent: bool,
}

impl Case {
    fn new(words: &str, volumes: &[&str], default: &str, pods: &str) -> Self {
        // As the binder finds it at its start.
        let (words, is_old) = words.strip_suffix(" found").map_or((words, false), |words| (words, true));
        Self {
            claim: claim(words),
            volumes: volumes.iter().map(|words| Arc::new(volume(words))).collect(),
            default: default.into(),
            pods: pods.split_whitespace().map(SmolStr::new).collect(),
            is_recent: !is_old,
        }
    }

    fn view<'a>(&'a self, class: Option<&'a StorageClass>) -> View<'a> {
        let name = &self.claim.spec.volume_name;
        View {
            claim: &self.claim,
            named_volume: self.volumes.iter().find(|volume| volume.metadata.name == *name),
            volumes: &self.volumes,
            class,
            is_class_cache_behind: false,
            has_waited_for_class: false,
            default_class: (!self.default.is_empty()).then_some(&self.default),
            pods: &self.pods,
            is_recent: self.is_recent,
            provisioning: Provisioning {
                is_enabled: true,
                is_host_path_enabled: true,
                ..Provisioning::default()
            },
            attributes: true,
        }
    }
}

fn planned(words: &str, volumes: &[&str], class: Option<&StorageClass>, default: &str, pods: &str) -> String {
    let case = Case::new(words, volumes, default, pods);
    let view = case.view(class);
    assert_eq!(invariants::check(&view), Ok(()));
    match step(&view) {
        Step::Migrate(_) => "migrate".to_owned(),
        Step::Wait(event) => format!("wait{}", text(event)),
        Step::Pend(event) => format!("pend{}", text(event)),
        Step::Lose(event) => format!("lose{}", text(Some(event))),
        Step::Bind(volume) => format!("bind {}", volume.metadata.name),
        Step::SetClass(class) => format!("set class {class}"),
        Step::Provision(Provisioner::External(name)) => format!("ask {name}"),
        Step::Provision(Provisioner::HostPath) => "create".to_owned(),
        Step::Contest(why) => format!("contest {why}"),
        Step::NotYet => "not yet".to_owned(),
        Step::Invalid(why) => format!("invalid: {why}"),
    }
}

#[test]
fn a_claim_that_names_no_volume_finds_one_or_gets_one_provisioned() {
    let class = |provisioner| class("gold", provisioner, "Immediate");
    let (csi, ebs) = (class("csi.example.com"), class("kubernetes.io/aws-ebs"));
    let (none, nfs) = (class("kubernetes.io/no-provisioner"), class("kubernetes.io/nfs"));
    let host = class("kubernetes.io/host-path");
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // case                      claim         volumes   class         default  step
        ("one suits",                "c",          &["a"],   Some(&csi),   "",      "bind a"),
        ("one has no phase yet",     "c",          &["a phase=Pending"],      None,       "", "not yet"),
        ("created after it",         "c",          &["a phase=Pending late"], Some(&csi), "", "ask csi.example.com"),
        ("found at the start",       "c found",    &["a phase=Pending"],      Some(&csi), "", "ask csi.example.com"),
        ("that is too small",        "c 2Gi",      &["a phase=Pending"],      Some(&csi), "", "ask csi.example.com"),
        ("of another claim",         "c",          &["a phase=Released"],     Some(&csi), "", "ask csi.example.com"),
        ("external",                 "c",          &[],      Some(&csi),   "",      "ask csi.example.com"),
        ("a driver replaced it",       "c",          &[],      Some(&ebs),   "",      "ask ebs.csi.aws.com"),
        ("created here",             "c",          &[],      Some(&host),  "",      "create"),
        ("it cannot provision",      "c",          &[],      Some(&nfs),   "",      "wait !ProvisioningFailed: no provisionable volume plugin matched"),
        ("no provisioner",           "c",          &[],      Some(&none),  "",      "wait !ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner"),
        ("no such class",            "c",          &[],      None,         "",      "wait !ProvisioningFailed: storageclass.storage.k8s.io \"gold\" not found"),
        ("no class at all",          "c class=",   &[],      None,         "std",   "pend FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("class not set",            "c class=-",  &[],      None,         "std",   "set class std"),
        ("not set, and no default","c class=-",  &[],      None,         "",      "pend FailedBinding: no persistent volumes available for this claim and no storage class is set"),
        ("not set, one suits",       "c class=-",  &["a class="], None,    "std",   "bind a"),
    ];
    for (case, words, volumes, class, default, want) in table {
        assert_eq!(planned(words, volumes, *class, default, ""), *want, "{case}");
    }
}

#[test]
fn an_event_says_for_which_pods_a_claim_waits() {
    let lazy = class("gold", "csi.example.com", "WaitForFirstConsumer");
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], &str, &str)] = &[
        // case                     claim     volumes      pods    step
        ("no pod uses it",         "c",      &["a"],      "",     "pend WaitForFirstConsumer: waiting for first consumer to be created before binding"),
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
        ("of another claim",                   "c names=a",       &["a of=d"],    &format!("pend !{taken}")),
        ("of another claim, half undone",      "c names=a ours",  &["a of=d"],    &format!("contest {}", taken.trim_start_matches("FailedBinding: "))),
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
        ("without reference",     "c done names=a phase=Bound",  &["a"],       "bind a"),
        ("the volume is gone",    "c done names=a phase=Bound",  &[],          "lose !ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        ("gone, and lost",        "c done names=a phase=Lost",   &[],          "wait"),
        ("the name is gone",      "c done phase=Bound",          &["a of=c"],  "lose !ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"),
        ("another has it",        "c done names=a phase=Bound",  &["a of=d"],  "lose !ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly"),
        ("it came back",          "c done names=a phase=Lost",   &["a"],       "bind a"),
    ];
    for (case, words, volumes, want) in table {
        assert_eq!(planned(words, volumes, None, "", ""), *want, "{case}");
    }
}

#[test]
fn a_plan_has_the_writes_in_order_and_the_events() {
    let lazy = class("gold", "csi.example.com", "WaitForFirstConsumer");
    let csi = class("gold", "csi.example.com", "Immediate");
    let claim = "update PersistentVolumeClaim";
    let ask = "Waiting for a volume to be created either by the external provisioner 'csi.example.com' or manually by \
               the system administrator. If volume creation is delayed, please verify that the provisioner is running \
               and correctly registered.";
    #[rustfmt::skip]
    let table: &[PlanRow<'_>] = &[
        ("bind", "c", &["a"], None,
            format!("update PersistentVolume a: a claim gets it\nupdate PersistentVolume/status a: it is Bound\n{claim} ns/c: it gets a volume\n{claim}/status ns/c: it is Bound")),
        ("the rest of a binding", "c", &["a of=c ours phase=Bound"], None,
            format!("{claim} ns/c: it gets a volume\n{claim}/status ns/c: it is Bound")),
        ("bound", "c done names=a phase=Bound", &["a of=c phase=Bound"], None,
            format!("{claim}/status ns/c: it is Bound")),
        ("named, missing", "c names=a", &[], None,
            "waiting for PersistentVolume/a to be created".to_owned()),
        ("lost", "c done names=a phase=Bound", &[], None,
            format!("{claim}/status ns/c: it is Lost\nevent Warning ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!")),
        ("waits for a pod", "c", &[], Some(&lazy),
            "event Normal WaitForFirstConsumer: waiting for first consumer to be created before binding\nwaiting for PersistentVolumeClaim/ns/c to be used by a pod that is scheduled".to_owned()),
        ("asks a provisioner", "c", &[], Some(&csi),
            format!("{claim} ns/c: a provisioner is to create a volume for it\n  else event Warning ProvisioningFailed: Error saving claim: <error>\nevent Normal ExternalProvisioning: {ask}\nwaiting for PersistentVolumeClaim/ns/c to get a volume from provisioner csi.example.com")),
        ("no such class", "c", &[], None,
            "event Warning ProvisioningFailed: storageclass.storage.k8s.io \"gold\" not found\nwaiting for StorageClass/gold to be created".to_owned()),
        ("a volume without phase", "c", &["a phase=Pending"], None,
            "not yet: a volume that suits it is not yet available\nwaiting for PersistentVolumeClaim/ns/c to find a volume that suits it".to_owned()),
        ("contested", "c names=a ours", &["a of=d"], None,
            "event Warning FailedBinding: volume \"a\" already bound to a different claim.\nfail: volume \"a\" already bound to a different claim.".to_owned()),
    ];
    for (case, words, volumes, class, want) in table {
        let of = Case::new(words, volumes, "", "");
        assert_eq!(plan(&of.view(*class)).to_string(), *want, "{case}");
    }
}

#[test]
fn a_claim_whose_class_may_be_late_is_requeued_without_an_event() {
    let case = Case::new("c", &[], "", "");
    let waiting = "waiting for StorageClass/gold to be created";
    #[rustfmt::skip]
    let table = [
        // case                             cache behind  has waited  begins with
        ("the class may come",              true,         false,      "again after 100ms"),
        ("it has not come by then",         true,         true,       "event Warning ProvisioningFailed: "),
        ("the cache has what there is",     false,        false,      "event Warning ProvisioningFailed: "),
    ];
    for (case_name, is_behind, has_waited, want) in table {
        let mut view = case.view(None);
        (view.is_class_cache_behind, view.has_waited_for_class) = (is_behind, has_waited);
        let plan = plan(&view).to_string();
        assert!(plan.starts_with(want) && plan.ends_with(waiting), "{case_name}: {plan}");
    }
}

#[test]
fn a_host_path_volume_is_provisioned_in_steps() {
    let host = class("gold", "kubernetes.io/host-path", "Immediate");
    let mut case = Case::new("c node", &[], "", "");
    let ask = "update PersistentVolumeClaim ns/c: a provisioner is to create a volume for it";
    let view = case.view(Some(&host));
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ask));

    case.claim = crate::binder::edit::with_provisioner(&case.claim, "kubernetes.io/host-path").unwrap();
    let mut view = case.view(Some(&host));
    assert!(matches!(need(&view), Some(Need::Volume(key)) if key.name == "pvc-uid-c"));
    view.provisioning.volume_exists = Some(true);
    assert_eq!((need(&view), plan(&view).to_string().as_str()), (None, ""), "it exists already");
    view.provisioning.volume_exists = Some(false);
    assert!(matches!(need(&view), Some(Need::Directory { mode, .. }) if mode == "Filesystem"));
    view.provisioning.directory = Some(Ok(()));
    let create = "create PersistentVolume pvc-uid-c: a claim needs it\n  \
                  then event Normal ProvisioningSucceeded: Successfully provisioned volume pvc-uid-c using \
                  kubernetes.io/host-path";
    assert_eq!((need(&view), plan(&view).to_string().as_str(), failure(&view)), (None, create, None));

    view.provisioning.directory = Some(Err("no space".into()));
    let failed = "event Warning ProvisioningFailed: Failed to provision volume with StorageClass \"gold\": no space\n\
                  update PersistentVolumeClaim ns/c: no volume can be created for its node";
    assert_eq!((plan(&view).to_string().as_str(), failure(&view).is_some()), (failed, true));
    view.provisioning.is_backing_off = true;
    assert_eq!((need(&view), plan(&view).to_string().as_str(), failure(&view)), (None, "", None));
}

#[test]
fn a_host_path_volume_that_the_server_refuses_gives_events() {
    let refused = super::results::failed(Tag::Other, Verb::Create, "quota");
    assert_eq!(refusal(&refused), Some("quota"));
    assert_eq!(refusal(&super::results::failed(Tag::Other, Verb::Update, "quota")), None);
    let failed = "event Warning ProvisioningFailed: Error creating provisioned PV object for claim ns/c: quota. \
                  Deleting the volume.";
    let left = "event Warning ProvisioningCleanupFailed: Error cleaning provisioned volume for claim ns/c: busy. \
                Please delete manually.";
    let after = |removed| Plan::<Tag>::of(after_refusal(&Key::new("ns", "c"), "quota", removed)).to_string();
    assert_eq!((after(Ok(())), after(Err("busy".into()))), (failed.into(), format!("{failed}\n{left}")));
}

#[test]
fn some_claims_get_no_host_path_volume() {
    let mut host = class("gold", "kubernetes.io/host-path", "Immediate");
    let mut case = Case::new("c node", &[], "", "");
    case.claim = crate::binder::edit::with_provisioner(&case.claim, "kubernetes.io/host-path").unwrap();
    let failed = |view: &mut View<'_>| {
        view.provisioning.volume_exists = Some(false);
        let why = failure(view).unwrap();
        assert_eq!(
            (need(view), plan(view).to_string()),
            (None, format!("event Warning ProvisioningFailed: {why}"))
        );
        why
    };
    let mut view = case.view(Some(&host));
    view.provisioning.is_node_missing = true;
    assert_eq!(failed(&mut view), "Failed to get target node: node \"n\" not found");
    view.provisioning.is_host_path_enabled = false;
    assert_eq!(
        failed(&mut view),
        "Failed to create provisioner: provisioning in volume plugin \"kubernetes.io/host-path\" is disabled"
    );
    host.mount_options = ["ro".into(), "hard".into()].into_iter().collect();
    assert_eq!(
        failed(&mut case.view(Some(&host))),
        "Mount options are not supported by the provisioner but StorageClass \"gold\" has mount options [ro hard]"
    );
    case.claim.spec =
        case.claim.spec.edited(|spec| spec["dataSource"] = json!({"kind": "X", "name": "x"})).unwrap();
    assert_eq!(
        failed(&mut case.view(Some(&host))),
        "plugin \"kubernetes.io/host-path\" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
    );
}
