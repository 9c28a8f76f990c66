//! Decides what to do about one object, given the state of its owners. Pure.

use flyball_api::{ObjectMeta, OwnerReference, ResourceType, ResourceVersion, Uid};
use flyball_client::{DeleteOptions, Patch, Propagation};
use flyball_runtime::decisions::Subject;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::plan::Operation;
use flyball_runtime::{Event, Plan, Waiting, Write};
use smol_str::SmolStr;

use super::identity::Identity;
use super::{FOREGROUND, ORPHAN, patches};

/// How many of the dependents that an owner waits for are listed.
const LISTED: usize = 10;

/// The state of an owner, as the server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It exists, and does not wait for its dependents to be deleted.
    Solid,
    Absent,
    /// It is being deleted, after its dependents.
    Waiting,
    /// It is gone and its dependents were to be orphaned; this one was not known in time.
    Outlived,
}

impl Standing {
    /// The standing of an owner that exists.
    pub fn of(owner: &ObjectMeta) -> Self {
        match owner.is_deleting() && owner.has_finalizer(FOREGROUND) {
            true => Self::Waiting,
            false => Self::Solid,
        }
    }
}

/// What the graph knows about the dependents of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dependents {
    pub any: bool,
    /// One of them waits for its own dependents.
    pub any_waiting: bool,
}

/// An object and the resource that it is one of.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub resource: &'a ResourceType,
    pub object: &'a Identity,
}

/// The patches that a resource takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Strategic merge patches, as built-in resources do.
    Strategic,
    /// Only merge patches, as custom resources do.
    Merge,
}

/// Everything the decision may look at.
pub struct View<'a> {
    pub target: Target<'a>,
    pub seen: &'a ObjectMeta,
    /// One for each owner reference of `seen`, in that order.
    pub standings: &'a [Standing],
    pub dependents: Dependents,
    /// The object, read live, in the version that an earlier deletion was refused for.
    pub refused: Option<&'a ObjectMeta>,
    pub style: Style,
}

/// Whether an object's owners matter at all. An object that is being deleted already has a propagation policy.
pub fn needs_owner_check(object: &ObjectMeta) -> bool {
    !object.is_deleting() && !object.owner_references.is_empty()
}

/// Deletes an object without an owner, or removes its references to owners that are gone.
pub fn plan(view: &View<'_>) -> Plan {
    let View { target, seen, standings, dependents, style, .. } = *view;
    let has = |standing| standings.contains(&standing);
    if !needs_owner_check(seen) || standings.len() != seen.owner_references.len() {
        return Plan::default();
    }
    let over = (style == Style::Merge).then_some(seen);
    if has(Standing::Solid) {
        // An owner in foreground deletion must not wait for an object that another owner keeps.
        let lost = owners(view, |standing| standing != Standing::Solid);
        return Plan::of((!lost.is_empty()).then(|| release(target, &lost, over)));
    }
    if has(Standing::Outlived) {
        // Once these references are gone, the object is examined again.
        return Plan::of([release(target, &owners(view, |s| s == Standing::Outlived), over)]);
    }
    let is_spread = has(Standing::Waiting) && dependents.any;
    let propagation = match () {
        () if is_spread => Propagation::Foreground,
        // A propagation policy that was requested before is kept.
        () if seen.has_finalizer(ORPHAN) => Propagation::Orphan,
        () if seen.has_finalizer(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    // One of its dependents waits for its own dependents. That may be a circle, which is broken here.
    let unblock = (is_spread && dependents.any_waiting).then(|| unblock(target, seen, style));
    Plan::of(unblock.into_iter().chain([delete(view, propagation)]))
}

fn owners(view: &View<'_>, chosen: impl Fn(Standing) -> bool) -> Vec<Uid> {
    let owners = view.seen.owner_references.iter().zip(view.standings);
    owners.filter(|(_, standing)| chosen(**standing)).map(|(reference, _)| reference.uid.clone()).collect()
}

fn delete(view: &View<'_>, propagation: Propagation) -> Write {
    let options = DeleteOptions {
        uid: Some(view.target.object.uid.clone()),
        resource_version: version_to_delete(view.refused, view.seen),
        propagation: Some(propagation),
        grace_period: None,
    };
    view.target.write(Operation::Delete(options)).why(why(&view.seen.owner_references, view.standings))
}

/// The version that a deletion requires. `refused` is the object that an earlier deletion was refused for, read live: if
/// its owners have not changed since, the decision holds for any version. So objects that change all the time are
/// deleted, too.
///
/// Upstream: operations.go, deleteObject.
pub fn version_to_delete(refused: Option<&ObjectMeta>, seen: &ObjectMeta) -> Option<ResourceVersion> {
    let is_hot = refused.is_some_and(|refused| {
        refused.resource_version != seen.resource_version && refused.owner_references == seen.owner_references
    });
    (!is_hot).then_some(seen.resource_version)
}

/// Why an object is deleted, for the decision log.
fn why(references: &[OwnerReference], standings: &[Standing]) -> String {
    let named = |reference: &OwnerReference| format!("{} {}", reference.kind, reference.name);
    let of = |standing| {
        let all = references.iter().zip(standings).filter(move |(_, s)| **s == standing);
        all.map(|(reference, _)| named(reference)).collect::<Vec<_>>().join(", ")
    };
    match (of(Standing::Absent), of(Standing::Waiting)) {
        (absent, waiting) if waiting.is_empty() => format!("its owner is gone: {absent}"),
        (absent, waiting) if absent.is_empty() => {
            format!("its owner is being deleted and waits for it: {waiting}")
        }
        (absent, waiting) => format!("its owners are gone: {absent}; or wait for it: {waiting}"),
    }
}

impl Target<'_> {
    fn write(self, operation: Operation) -> Write {
        Write::of(self.resource.clone(), self.object.key(), operation)
    }
}

/// Removes references to `owners`: by a merge patch over the object as it was read, or by a strategic one, which does not
/// depend on it.
pub fn release(target: Target<'_>, owners: &[Uid], over: Option<&ObjectMeta>) -> Write {
    let patch = match over {
        None => Patch::Strategic(patches::release(&target.object.uid, owners)),
        Some(seen) => Patch::Merge(patches::release_plainly(seen, owners)),
    };
    target.write(Operation::Patch(patch)).why("these owners are gone or are deleted without it")
}

fn unblock(target: Target<'_>, seen: &ObjectMeta, style: Style) -> Write {
    let patch = match style {
        Style::Strategic => Patch::Strategic(patches::unblock(seen)),
        Style::Merge => Patch::Merge(patches::unblock_plainly(seen)),
    };
    target.write(Operation::Patch(patch)).why("it and its owners may wait for each other in a circle")
}

/// Removes a finalizer of the garbage collector; nothing if the object does not have it.
pub fn remove_finalizer(target: Target<'_>, seen: &ObjectMeta, finalizer: Finalizer) -> Option<Write> {
    let (name, why) = match finalizer {
        Finalizer::Foreground => (FOREGROUND, "none of its dependents blocks its deletion any more"),
        Finalizer::Orphan => (ORPHAN, "its dependents no longer refer to it"),
    };
    let patch = patches::without_finalizer(seen, name)?;
    Some(target.write(Operation::Patch(Patch::Merge(patch))).why(why))
}

/// The finalizers that the garbage collector removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizer {
    Foreground,
    Orphan,
}

/// Nothing to do for an owner in foreground deletion while these dependents block it.
pub fn blocked<'a>(dependents: impl Iterator<Item = &'a Identity>) -> Plan {
    Plan::default().waiting_for(dependents.take(LISTED).map(|dependent| Waiting::Object {
        object: Subject::new(dependent.kind.kind.clone(), &dependent.key()),
        until: "to be deleted".into(),
    }))
}

/// The event about an object that refers to an owner in another namespace.
pub fn misplaced(dependent: &Identity, reference: &OwnerReference) -> (ObjectRef, Event) {
    let about = ObjectRef {
        kind: dependent.kind.kind.clone(),
        namespace: dependent.namespace.clone(),
        name: dependent.name.clone(),
        uid: dependent.uid.to_smol_str(),
        api_version: dependent.kind.api_version.clone(),
        resource_version: SmolStr::default(),
    };
    let owner = Identity::claimed(reference, &dependent.namespace);
    let message = format!("ownerRef {owner} does not exist in namespace {:?}", dependent.namespace);
    (about, Event::warning("OwnerRefInvalidNamespace", message))
}
