//! Adoption and release: matching objects without a controller are adopted, owned ones that no longer match are
//! released. The decision is pure; [`adopt_and_release`] carries it out.

use std::sync::Arc;

use flyball_api::{Key, ObjectMeta, OwnerReference, Resource, Selector};
use flyball_client::Patch;
use flyball_runtime::{Context, Effect, ErrorKinds, SyncError, Write};
use rustc_hash::FxHashSet;
use serde_json::json;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The owner controls it, and it matches.
    Keep,
    /// It has no controller, and it matches.
    Adopt,
    /// The owner controls it, and it no longer matches.
    Release,
    /// Something else controls it, or it does not match.
    Leave,
}

/// Decides about one object. `matches` is whether the owner's selector matches it.
pub fn decide(owner: &ObjectMeta, matches: bool, object: &ObjectMeta) -> Decision {
    match object.controller() {
        Some(controller) if controller.uid != owner.uid => Decision::Leave,
        Some(_) if matches => Decision::Keep,
        Some(_) if owner.is_deleting() => Decision::Leave,
        Some(_) => Decision::Release,
        None if !matches || owner.is_deleting() || object.is_deleting() => Decision::Leave,
        None if object.namespace != owner.namespace => Decision::Leave,
        None => Decision::Adopt,
    }
}

/// The selector of the owner with this key. Retrying an invalid one does not help: the owner has to change.
pub fn selector_of<E>(owner: &Key, parsed: Result<Selector, E>) -> Result<Selector, SyncError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    parsed.map_err(|error| SyncError::other(format!("reading the selector of {owner}"), error).never())
}

/// The reference that makes `owner` the controller of an object.
pub fn controller_reference<O: Resource>(owner: &O) -> OwnerReference {
    let (kind, meta) = (O::TYPE, owner.meta());
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Adopts and releases `candidates` for `owner`, and returns those it controls afterwards. `finalizers` are added with
/// adoption and removed with release.
///
/// Before the first adoption the owner is read live: the cache may be stale, and an owner that is gone or is being deleted
/// must not adopt.
pub async fn adopt_and_release<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<T>>,
    finalizers: &[&str],
) -> Result<Vec<Arc<T>>, SyncError> {
    let matches = |object: &T| selector.matches(&object.meta().labels);
    adopt_and_release_where(cx, owner, matches, candidates, finalizers).await
}

/// [`adopt_and_release`] for owners that match by more than labels.
pub async fn adopt_and_release_where<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    matches: impl Fn(&T) -> bool,
    candidates: Vec<Arc<T>>,
    finalizers: &[&str],
) -> Result<Vec<Arc<T>>, SyncError> {
    let decisions: Vec<_> =
        candidates.iter().map(|object| decide(owner.meta(), matches(object), object.meta())).collect();
    if decisions.contains(&Decision::Adopt) {
        recheck(cx, owner).await?;
    }
    let writes =
        candidates.iter().zip(&decisions).enumerate().filter_map(|(n, (object, decision))| match decision {
            Decision::Adopt => Some(adoption(owner, &**object, finalizers).tag(n)),
            Decision::Release => Some(release(owner, &**object, finalizers).tag(n)),
            Decision::Keep | Decision::Leave => None,
        });
    // All are tried, even if some fail. After a failure the sync ends, because the number of owned objects is not
    // known.
    let outcome = cx.executor(&owner.meta().key()).perform([Effect::each(writes)]).await;
    let written: FxHashSet<usize> =
        outcome.done.iter().filter(|done| done.answer.written().is_some()).map(|done| done.tag).collect();
    outcome.result()?;
    let is_owned = |n: usize| match decisions[n] {
        Decision::Keep => true,
        Decision::Adopt => written.contains(&n),
        Decision::Release | Decision::Leave => false,
    };
    Ok(candidates.into_iter().enumerate().filter(|(n, _)| is_owned(*n)).map(|(_, object)| object).collect())
}

/// Checks by a live read that the owner still exists and is not being deleted.
pub async fn recheck<O: Resource>(cx: &Context, owner: &O) -> Result<(), SyncError> {
    let meta = owner.meta();
    let doing = || format!("checking that {} {} may adopt", O::TYPE.kind, meta.key());
    let fresh: O = cx.client.get(&meta.key()).await.map_err(SyncError::api(doing()))?;
    if fresh.meta().uid != meta.uid {
        return Err(SyncError::other(doing(), "it was deleted and another one has its name"));
    }
    if fresh.meta().is_deleting() {
        return Err(SyncError::other(doing(), "it is being deleted"));
    }
    Ok(())
}

/// The patch that makes `owner` the controller of an object. The server merges lists of finalizers, so the patch
/// contains only our own. With those of other components from the cache, it would restore any that were removed since.
fn adoption<O: Resource, T: Resource>(owner: &O, object: &T, finalizers: &[&str]) -> Write {
    let meta = object.meta();
    let mut metadata = json!({"uid": meta.uid, "ownerReferences": [controller_reference(owner)]});
    if !finalizers.is_empty() {
        metadata["finalizers"] = json!(finalizers);
    }
    Write::patch::<T>(meta.key(), Patch::Strategic(json!({"metadata": metadata})))
        .why("it matches the selector and has no controller")
        .ignore(ErrorKinds::NOT_FOUND)
}

/// The patch that removes the owner's reference from an object. An object that is gone, has no such reference, or has
/// another uid is released already.
fn release<O: Resource, T: Resource>(owner: &O, object: &T, finalizers: &[&str]) -> Write {
    let meta = object.meta();
    let reference = json!({"$patch": "delete", "uid": owner.meta().uid});
    let mut metadata = json!({"uid": meta.uid, "ownerReferences": [reference]});
    if !finalizers.is_empty() {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!(finalizers);
    }
    Write::patch::<T>(meta.key(), Patch::Strategic(json!({"metadata": metadata})))
        .why("it no longer matches the selector")
        .ignore(ErrorKinds::NOT_FOUND | ErrorKinds::INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::{Labels, ReplicaSet, Uid};
    use serde_json::Value;

    fn meta(spec: &str) -> ObjectMeta {
        let mut meta = ObjectMeta { namespace: "ns".into(), ..ObjectMeta::default() };
        for word in spec.split_whitespace() {
            match word {
                "matching" => meta.labels = Labels::from_iter([("app", "web")]),
                "deleting" => meta.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH),
                "elsewhere" => meta.namespace = "other".into(),
                owner => {
                    let uid = Uid::from(owner.strip_prefix("of-").expect("a known word"));
                    let controller = Some(true);
                    meta.owner_references =
                        [OwnerReference { uid, controller, ..OwnerReference::default() }].into();
                }
            }
        }
        meta
    }

    #[test]
    fn matching_orphans_are_adopted_and_objects_of_others_left_alone() {
        let selector = Selector::from_labels(&Labels::from_iter([("app", "web")]));
        #[rustfmt::skip]
        let table = [
            // case                                          owner       object                      claim
            ("an orphan that matches",                       "",         "matching",                 Decision::Adopt),
            ("an orphan that does not match",                "",         "",                         Decision::Leave),
            ("an orphan that is being deleted",              "",         "matching deleting",        Decision::Leave),
            ("an owner that is being deleted",               "deleting", "matching",                 Decision::Leave),
            ("an orphan of another namespace",               "",         "matching elsewhere",       Decision::Leave),
            ("owned",                                        "",         "matching of-us",           Decision::Keep),
            ("owned, being deleted",                         "",         "matching of-us deleting",  Decision::Keep),
            ("owned, relabelled",                            "",         "of-us",                    Decision::Release),
            ("an owner that is being deleted, relabelled",   "deleting", "of-us",                    Decision::Leave),
            ("controlled by another owner",                  "",         "matching of-them",         Decision::Leave),
        ];
        for (case, owner, object, want) in table {
            let owner = ObjectMeta { uid: Uid::from("us"), ..meta(owner) };
            assert_eq!(decide(&owner, selector.matches(&meta(object).labels), &meta(object)), want, "{case}");
        }
    }

    #[test]
    fn patches_name_no_finalizer_of_others() {
        let owner =
            ReplicaSet { metadata: ObjectMeta { uid: "us".into(), ..meta("") }, ..ReplicaSet::default() };
        let reference = json!(controller_reference(&owner));
        let gone = json!({"$patch": "delete", "uid": "us"});
        #[rustfmt::skip]
        let table: [(&[&str], Value, Value); 2] = [
            // ours            adopting                                                                          letting go
            (&[],              json!({"ownerReferences": [reference]}),                                          json!({"ownerReferences": [gone]})),
            (&["ours/x"],      json!({"ownerReferences": [reference], "finalizers": ["ours/x"]}),                json!({"ownerReferences": [gone], "$deleteFromPrimitiveList/finalizers": ["ours/x"]})),
        ];
        let held = Box::new(["theirs/y".into(), "ours/x".into()]);
        let metadata = ObjectMeta { uid: "u".into(), finalizers: held, ..ObjectMeta::default() };
        let object = ReplicaSet { metadata, ..ReplicaSet::default() };
        for (ours, mut adopting, mut going) in table {
            (adopting["uid"], going["uid"]) = ("u".into(), "u".into());
            assert_eq!(
                adoption(&owner, &object, ours).body(),
                Some(json!({"metadata": adopting})),
                "{ours:?}"
            );
            assert_eq!(release(&owner, &object, ours).body(), Some(json!({"metadata": going})), "{ours:?}");
        }
    }
}
