//! The expansion of a FlexVolume: first the volume grows, then its node resizes the file system. Pure.

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::{Object, PersistentVolume, PersistentVolumeClaim, Quantity, Timestamp, time};
use flyball_client::Patch;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Plan, Waiting, Write};
use serde_json::{Value, json};
use smol_str::format_smolstr;

use super::plan::{RESIZER, capacity, patch_claim, patch_claim_again, requested};
use super::progress;
use crate::binder::size;
use crate::names::{PRE_RESIZE, STORAGE};

/// The driver of a FlexVolume.
pub(super) fn driver(volume: &PersistentVolume) -> Option<String> {
    let spec = volume.spec.raw().to_value();
    let source = spec.get("flexVolume").filter(|source| source.is_object())?;
    Some(source.get("driver").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// The next step in the expansion of a FlexVolume.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Its node resizes the file system, or is yet to.
    Wait,
    /// Its node has resized the file system; the annotation with the former size is removed.
    Clear,
    /// Its node has failed and is to try again.
    Retry,
    /// The volume is to grow to this size.
    Grow(Quantity),
}

/// A FlexVolume that is to be expanded.
pub(super) struct Flex<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) volume: &'a PersistentVolume,
    pub(super) driver: &'a str,
    /// See [`super::plan::View`].
    pub(super) recovers: bool,
}

/// The texts that say which step has failed, as upstream has them: operationexecutor.expandAndRecoverFunction and
/// GenerateExpandVolumeFunc.
struct Doing {
    begin: String,
    grow: String,
    finish: String,
    leave_to_node: String,
    annotate: String,
}

impl Doing {
    fn of(flex: &Flex<'_>, step: &Step) -> Self {
        let (claim, volume) = (flex.claim.key(), &flex.volume.metadata.name);
        let begin = format!("error updating pvc {claim} with resize in progress: ");
        let held = capacity(flex.claim);
        let annotate =
            format!("error updating pv {volume} annotation ({PRE_RESIZE}) with pre-resize capacity {held}: ");
        if !flex.recovers {
            return Self {
                begin,
                grow: format!("error updating PV spec capacity for volume \"{claim}\" with : "),
                finish: format!("error marking pvc {claim} as resized : "),
                leave_to_node: format!("error updating pvc {claim} condition for fs resize : "),
                annotate,
            };
        }
        let marking = format!("error marking pvc {claim} for node expansion: ");
        // Upstream says it twice when it comes from the step before.
        let twice = if *step == Step::Retry { "" } else { &marking };
        Self {
            begin,
            grow: format!("error updating pv for pvc {claim}: "),
            finish: format!("error marking pvc {claim} as resized: "),
            leave_to_node: format!("{twice}{marking}"),
            annotate: format!("{twice}{annotate}"),
        }
    }
}

/// Whether [`plan`] is an operation `expand_volume` in metrics. One that waits is, as upstream counts it.
pub(super) fn is_operation(flex: &Flex<'_>) -> bool {
    next_step(flex) != Step::Clear
}

fn next_step(flex: &Flex<'_>) -> Step {
    let Flex { claim, volume, recovers, .. } = flex;
    if *recovers { step(claim, volume) } else { step_without_recovery(claim, volume) }
}

/// The writes of the next step. Lost races get no event.
pub(super) fn plan(flex: &Flex<'_>, now: Timestamp) -> Plan {
    let (now, step, Flex { claim, volume, recovers, .. }) = (time::truncate(now), next_step(flex), flex);
    let doing = Doing::of(flex, &step);
    let writes = match step {
        Step::Wait => {
            let until = "to be resized by the node of its pod";
            return Plan::default().waiting_for([Waiting::on::<PersistentVolumeClaim>(&claim.key(), until)]);
        }
        Step::Clear => {
            let patch = json!({"metadata": {"annotations": {PRE_RESIZE: null}}});
            return Plan::of([patch_volume(volume, patch, "").why("its file system was resized")]);
        }
        Step::Retry => leave_to_node(claim, volume, *recovers, now, patch_claim, &doing),
        Step::Grow(size) => grow(flex, size, now, &doing),
    };
    let failed = Event::warning("VolumeResizeFailed", Message::ThenError(String::new()));
    Plan::of([Effect::sequence(writes).on_failure(failed).no_event_for(ErrorKinds::CONFLICT)])
}

fn grow(flex: &Flex<'_>, size: Quantity, now: Timestamp, doing: &Doing) -> Vec<Write> {
    let Flex { claim, volume, driver, recovers } = *flex;
    let mut begun = claim.clone();
    progress::begin(&mut begun.status, size, recovers, now);
    let mut patch = changes(&claim.status, &begun.status);
    patch["metadata"] = json!({"annotations": {RESIZER: driver}});
    let why = format_smolstr!("it grows to {size}");
    let mut writes = vec![patch_claim(claim, patch, &doing.begin).why(&why)];
    if recovers || crate::binder::size(&volume.spec.capacity) < size {
        let patch = json!({"spec": {"capacity": {STORAGE: size}}});
        writes.push(patch_volume(volume, patch, &doing.grow).why(&why));
    }
    if volume.spec.volume_mode.as_deref() == Some("Block") {
        let mut finished = begun.status.clone();
        progress::finish(&mut finished, size, recovers);
        let message = format!("ExpandVolume succeeded for volume {}", claim.key());
        writes.push(
            patch_claim_again(claim, changes(&begun.status, &finished), &doing.finish)
                .why("it has grown")
                .on_success(Event::normal("VolumeResizeSuccessful", message)),
        );
    } else {
        writes.extend(leave_to_node(&begun, volume, recovers, now, patch_claim_again, doing));
    }
    writes
}

/// The claim's status says that the node must resize the file system, and the volume how large that still is.
fn leave_to_node(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    recovers: bool,
    now: Timestamp,
    patch_claim: fn(&PersistentVolumeClaim, Value, &str) -> Write,
    doing: &Doing,
) -> Vec<Write> {
    let mut status = claim.status.clone();
    progress::leave_to_node(&mut status, recovers, now);
    let why = "its file system is yet to be resized";
    let mut writes = vec![patch_claim(claim, changes(&claim.status, &status), &doing.leave_to_node).why(why)];
    if !volume.metadata.annotations.contains_key(PRE_RESIZE) {
        let before = format_smolstr!("{}", capacity(claim));
        let patch = json!({"metadata": {"annotations": {PRE_RESIZE: before}}});
        writes.push(patch_volume(volume, patch, &doing.annotate).why(why));
    }
    writes
}

fn patch_volume(volume: &PersistentVolume, patch: Value, doing: &str) -> Write {
    let key = volume.key();
    let prefix = format!("{doing}error Patching PV \"{key}\" with error : ");
    Write::patch::<PersistentVolume>(key, Patch::Merge(patch)).failure_prefix(prefix)
}

/// The merge patch from one status to another.
fn changes(before: &PersistentVolumeClaimStatus, after: &PersistentVolumeClaimStatus) -> Value {
    let (before, mut after) = (json!(before), json!(after));
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for removed in before.keys() {
            after.entry(removed.clone()).or_insert(Value::Null);
        }
        after.retain(|field, value| before.get(field) != Some(value));
    }
    json!({"status": after})
}

/// The volume grows to what is requested now.
///
/// Upstream: operationexecutor.GenerateExpandVolumeFunc.
fn step_without_recovery(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    if is_resized(claim, volume) { Step::Clear } else { Step::Grow(requested(claim)) }
}

/// Whether the node has resized the file system, and the annotation with the former size is still there.
fn is_resized(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let held = capacity(claim);
    let is_annotated = volume.metadata.annotations.contains_key(PRE_RESIZE);
    is_annotated && held >= requested(claim) && held >= size(&volume.spec.capacity)
}

/// A claim whose request was reduced during an expansion is finished at the size that the volume grew to.
///
/// Upstream: operationexecutor.expandAndRecoverFunction.
fn step(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    if is_resized(claim, volume) {
        return Step::Clear;
    }
    let (requested, volume_size) = (requested(claim), size(&volume.spec.capacity));
    let state = claim.status.allocated_resource_statuses.get(STORAGE).unwrap_or_default();
    let allocated = claim.status.allocated_resources.get(STORAGE).unwrap_or(requested);
    match (volume_size < requested, state) {
        (
            true,
            "ControllerResizeInProgress"
            | "NodeResizePending"
            | "NodeResizeInProgress"
            | "NodeResizeInfeasible",
        ) => Step::Grow(allocated),
        (true, _) => Step::Grow(requested),
        (false, "NodeResizeInProgress" | "NodeResizePending") => Step::Wait,
        (false, "NodeResizeInfeasible") => Step::Retry,
        (false, "ControllerResizeInProgress" | "ControllerResizeInfeasible" | "") => Step::Grow(allocated),
        (false, _) => Step::Grow(requested),
    }
}
