//! PersistentVolumeClaims that are not bound, and PersistentVolumes that are not used.

use flyball_api::Quantity;

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{list, one_line};
use crate::world::{Lookup, World, compile};

use super::{main_problem, volumes};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The class of a claim or volume; `None` if it names none.
fn class_of(object: Obj<'_>) -> Option<&str> {
    object
        .at("/spec/storageClassName")
        .as_str()
        .or_else(|| object.annotation("volume.beta.kubernetes.io/storage-class"))
}

pub(super) fn lost(_: &World, claim: Obj<'_>) -> Vec<Finding> {
    if claim.text("/status/phase") != "Lost" {
        return Vec::new();
    }
    let text = format!(
        "it is lost: its volume {} does not exist any more (or belongs to another claim)",
        claim.text("/spec/volumeName")
    );
    vec![
        Finding::blocks("claim-lost", claim, text)
            .advise("the data is gone with the volume; delete the claim and restore from a backup"),
    ]
}

pub(super) fn unbound(world: &World, claim: Obj<'_>) -> Vec<Finding> {
    if !matches!(claim.text("/status/phase"), "Pending" | "") || claim.is_deleting() {
        return Vec::new();
    }
    let wanted = claim.text("/spec/volumeName");
    if !wanted.is_empty() {
        return vec![asks_for(world, claim, wanted)];
    }
    let (Some(class), name) = (class_of(claim), class_of(claim).unwrap_or_default()) else {
        return vec![no_class(world, claim)];
    };
    if class.is_empty() {
        return vec![by_hand(world, claim, "storageClassName is \"\", so no volume is provisioned")];
    }
    match world.get("StorageClass", "", name) {
        Lookup::Absent => {
            let there: Vec<&str> = world.list("StorageClass", "").map(Obj::name).collect();
            let there = if there.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are: {}", list(&there, 6))
            };
            let finding = by_hand(world, claim, &format!("StorageClass {name} does not exist ({there})"));
            vec![finding.advise("create the StorageClass, or create the claim again with another one")]
        }
        Lookup::Unknown => vec![Finding::waits(
            "claim-unbound",
            claim,
            format!("it waits for a volume of StorageClass {name}"),
        )],
        Lookup::Found(class) => of_class(world, claim, class),
    }
}

/// A claim that names its volume.
fn asks_for(world: &World, claim: Obj<'_>, name: &str) -> Finding {
    match world.get("PersistentVolume", "", name) {
        Lookup::Absent => Finding::blocks(
            "claim-unbound",
            claim,
            format!("it asks for PersistentVolume {name}, which does not exist"),
        ),
        Lookup::Found(volume) => {
            let owner = Obj(volume.at("/spec/claimRef"));
            let text = match (owner.text("/name"), mismatch(claim, volume)) {
                (other, _)
                    if !other.is_empty()
                        && (other != claim.name() || owner.text("/namespace") != claim.namespace()) =>
                {
                    format!(
                        "it asks for PersistentVolume {name}, which is bound to claim {}/{other}",
                        owner.text("/namespace")
                    )
                }
                (_, Some(why)) => format!("it asks for PersistentVolume {name}, which does not fit: {why}"),
                _ => {
                    return Finding::waits(
                        "claim-unbound",
                        claim,
                        format!("it is being bound to PersistentVolume {name}"),
                    );
                }
            };
            Finding::blocks("claim-unbound", claim, text)
        }
        Lookup::Unknown => {
            Finding::waits("claim-unbound", claim, format!("it asks for PersistentVolume {name}"))
        }
    }
}

fn no_class(world: &World, claim: Obj<'_>) -> Finding {
    let default =
        world.list("StorageClass", "").find(|class| class.annotation(DEFAULT_CLASS) == Some("true"));
    match default {
        Some(class) => {
            let text = format!("it names no StorageClass; {} is the default and will be set", class.name());
            Finding::waits("claim-unbound", claim, text)
        }
        None if world.is_read("StorageClass") => {
            let finding =
                by_hand(world, claim, "it names no StorageClass, and the cluster has no default one");
            finding.advise("mark a StorageClass as default, or create the claim again with storageClassName")
        }
        None => by_hand(world, claim, "it names no StorageClass"),
    }
}

/// Without a provisioner a volume must exist: why those that exist do not fit.
fn by_hand(world: &World, claim: Obj<'_>, why: &str) -> Finding {
    let mut reasons: Vec<String> = world
        .list("PersistentVolume", "")
        .filter_map(|volume| mismatch(claim, volume).map(|why| format!("{}: {why}", volume.name())))
        .collect();
    reasons.sort_by_key(|reason| reason.contains("StorageClass"));
    let volumes = match (reasons.is_empty(), world.is_read("PersistentVolume")) {
        (false, _) => format!("; no PersistentVolume fits ({})", list(&reasons, 4)),
        (true, true) if world.list("PersistentVolume", "").next().is_none() => {
            "; there is no PersistentVolume".to_owned()
        }
        (true, _) => String::new(),
    };
    Finding::blocks("claim-unbound", claim, format!("{why}{volumes}"))
        .advise("create a PersistentVolume that fits")
}

/// Why a volume cannot serve a claim; `None` if it can.
fn mismatch(claim: Obj<'_>, volume: Obj<'_>) -> Option<String> {
    let owner = Obj(volume.at("/spec/claimRef"));
    let is_ours = owner.text("/name") == claim.name() && owner.text("/namespace") == claim.namespace();
    if !owner.0.is_null() && !is_ours {
        return Some(format!("belongs to claim {}/{}", owner.text("/namespace"), owner.text("/name")));
    }
    if matches!(volume.text("/status/phase"), "Released" | "Failed") {
        return Some(format!("is {}", volume.text("/status/phase")));
    }
    let (own, other) = (class_of(claim).unwrap_or_default(), class_of(volume).unwrap_or_default());
    if own != other {
        return Some(format!("has StorageClass {other:?}, not {own:?}"));
    }
    let modes = volume.texts("/spec/accessModes");
    if let Some(mode) = claim.texts("/spec/accessModes").into_iter().find(|mode| !modes.contains(mode)) {
        return Some(format!("does not offer {mode} (it has {})", list(&modes, 3)));
    }
    let mode = |object: Obj<'_>| match object.text("/spec/volumeMode").to_owned() {
        mode if mode.is_empty() => "Filesystem".to_owned(),
        mode => mode,
    };
    if mode(claim) != mode(volume) {
        return Some(format!("has volumeMode {}, not {}", mode(volume), mode(claim)));
    }
    let (asked, size) =
        (claim.text("/spec/resources/requests/storage"), volume.text("/spec/capacity/storage"));
    if let (Ok(asked_size), Ok(has)) = (asked.parse::<Quantity>(), size.parse::<Quantity>())
        && has < asked_size
    {
        return Some(format!("has {size}, and {asked} are asked for"));
    }
    let selector = claim.at("/spec/selector");
    let is_selected = selector.is_null()
        || compile(selector).is_some_and(|selector| selector.matches_with(|key| volume.label(key)));
    (!is_selected).then(|| "does not match the claim's selector".to_owned())
}

/// A claim whose class exists.
fn of_class(world: &World, claim: Obj<'_>, class: Obj<'_>) -> Vec<Finding> {
    let provisioner = class.text("/provisioner");
    if let Some(event) = world.event(claim, &["ProvisioningFailed"]) {
        let text = format!("{provisioner} cannot provision a volume: {}", one_line(event.message, 260));
        return vec![
            Finding::blocks("claim-unbound", claim, text)
                .advise(format!("check the StorageClass {} and its driver", class.name())),
        ];
    }
    let waits_for_pod = class.text("/volumeBindingMode") == "WaitForFirstConsumer";
    let chosen = claim.annotation("volume.kubernetes.io/selected-node");
    if waits_for_pod && chosen.is_none() {
        let users: Vec<Obj<'_>> = world
            .list("Pod", claim.namespace())
            .filter(|pod| volumes::claim_names(*pod).iter().any(|name| name == claim.name()))
            .collect();
        return vec![match users.first() {
            None => {
                let text = format!(
                    "StorageClass {} waits for the first pod that uses the claim (WaitForFirstConsumer), and no pod uses it",
                    class.name()
                );
                Finding::waits("claim-unbound", claim, text).advise("this is as intended: create the pod")
            }
            Some(pod) => {
                let is_scheduler =
                    |finding: &Finding| finding.rule == "unschedulable" || finding.rule == "scheduling-gates";
                let problem = main_problem(world, *pod)
                    .filter(is_scheduler)
                    .filter(|problem| problem.about.kind == "Pod");
                let text =
                    format!("it gets a volume when pod {} is scheduled (WaitForFirstConsumer)", pod.name());
                match problem {
                    Some(problem) => Finding {
                        advice: problem.advice.clone(),
                        ..Finding::blocks("claim-unbound", claim, format!("{text}; {}", problem.text))
                    },
                    None => Finding::waits("claim-unbound", claim, text),
                }
            }
        }];
    }
    if provisioner == "kubernetes.io/no-provisioner" {
        return vec![by_hand(world, claim, &format!("StorageClass {} has no provisioner", class.name()))];
    }
    let node = chosen.map(|node| format!(" for node {node}")).unwrap_or_default();
    let text = format!("it waits for provisioner {provisioner} to create a volume{node}");
    let age =
        claim.time("/metadata/creationTimestamp").map(|time| crate::words::seconds_between(time, world.now));
    vec![match age.is_some_and(|age| age > 60) {
        true => {
            let text = format!("{text}, for {}", crate::words::span(age.unwrap_or(0)));
            Finding::blocks("claim-unbound", claim, text)
                .advise("check that the driver is installed and its controller runs")
        }
        false => Finding::waits("claim-unbound", claim, text),
    }]
}

pub(super) fn resize(world: &World, claim: Obj<'_>) -> Vec<Finding> {
    let (asked, has) =
        (claim.text("/spec/resources/requests/storage"), claim.text("/status/capacity/storage"));
    let parse = |text: &str| text.parse::<Quantity>().ok();
    let is_growing = claim.text("/status/phase") == "Bound"
        && matches!((parse(asked), parse(has)), (Some(asked), Some(has)) if asked > has);
    if !is_growing {
        return Vec::new();
    }
    let head = format!("it is to grow from {has} to {asked}");
    if claim.has("FileSystemResizePending", "True") {
        let text = format!("{head}: the node grows the file system when a pod uses the claim");
        return vec![
            Finding::waits("claim-resize", claim, text).advise("start (or restart) a pod that uses it"),
        ];
    }
    if let Some(event) = world.event(claim, &["VolumeResizeFailed", "ResizeFailed", "FileSystemResizeFailed"])
    {
        return vec![Finding::blocks(
            "claim-resize",
            claim,
            format!("{head}, which fails: {}", one_line(event.message, 240)),
        )];
    }
    let class = class_of(claim).and_then(|name| world.get("StorageClass", "", name).found());
    if class.is_some_and(|class| !class.is_true("/allowVolumeExpansion")) {
        return vec![Finding::blocks(
            "claim-resize",
            claim,
            format!("{head}, and its StorageClass does not allow expansion"),
        )];
    }
    vec![Finding::waits("claim-resize", claim, format!("{head}: its driver has not done so yet"))]
}

pub(super) fn released(_: &World, volume: Obj<'_>) -> Vec<Finding> {
    let owner = Obj(volume.at("/spec/claimRef"));
    let claim = format!("{}/{}", owner.text("/namespace"), owner.text("/name"));
    match volume.text("/status/phase") {
        "Released" => {
            let policy = volume.text("/spec/persistentVolumeReclaimPolicy");
            let text = format!(
                "its claim {claim} was deleted; policy {policy} keeps it, and it is not given to another claim while spec.claimRef names that one"
            );
            let finding = match policy {
                "Retain" => Finding::blocks("volume-released", volume, text),
                _ => Finding::waits(
                    "volume-released",
                    volume,
                    format!("its claim {claim} was deleted; it is being reclaimed ({policy})"),
                ),
            };
            vec![finding.advise("to use it again, remove spec.claimRef (the data is still on it)")]
        }
        "Failed" => vec![Finding::blocks(
            "volume-released",
            volume,
            format!("reclaiming it failed: {}", one_line(volume.text("/status/message"), 240)),
        )],
        _ => Vec::new(),
    }
}
