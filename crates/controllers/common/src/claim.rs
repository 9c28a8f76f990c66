//! Who owns what: matching objects without a controller are adopted, owned ones that match no longer are let
//! go. The decision is pure; [`claim`] carries it out.

use std::sync::Arc;

use flyball_api::{Object, ObjectMeta, OwnerReference, Resource, Selector};
use flyball_client::{Error, Patch};
use flyball_runtime::{Context, SyncError};
use serde_json::{Value, json};

/// What is to become of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Ours, and to stay so.
    Keep,
    /// Nobody's, and to become ours.
    Adopt,
    /// Ours, and to be let go.
    Release,
    /// Not our business.
    Leave,
}

/// Decides on one object of the owner's namespace, which `matches` what the owner wants or does not.
pub fn decide(owner: &ObjectMeta, matches: bool, object: &ObjectMeta) -> Claim {
    match object.controller() {
        Some(controller) if controller.uid != owner.uid => Claim::Leave,
        Some(_) if matches => Claim::Keep,
        Some(_) if owner.is_deleting() => Claim::Leave,
        Some(_) => Claim::Release,
        None if !matches || owner.is_deleting() || object.is_deleting() => Claim::Leave,
        None if object.namespace != owner.namespace => Claim::Leave,
        None => Claim::Adopt,
    }
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

/// Claims `candidates` for `owner` and returns what is its own afterwards. `finalizers` come with adoption and
/// go with release.
///
/// Before the first adoption the owner is read live: the cache might still show one that is gone or is being
/// deleted, and its orphans are to stay orphans.
pub async fn claim<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<T>>,
    finalizers: &[&str],
) -> Result<Vec<Arc<T>>, SyncError> {
    let matches = |object: &T| selector.matches(&object.meta().labels);
    claim_where(cx, owner, matches, candidates, finalizers).await
}

/// [`claim`] for owners that want more of an object than labels: what does not match is let go.
pub async fn claim_where<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    matches: impl Fn(&T) -> bool,
    candidates: Vec<Arc<T>>,
    finalizers: &[&str],
) -> Result<Vec<Arc<T>>, SyncError> {
    let mut owned = Vec::with_capacity(candidates.len());
    let mut may_adopt = false;
    let mut failure = None;
    for object in candidates {
        let outcome = match decide(owner.meta(), matches(&object), object.meta()) {
            Claim::Keep => Ok(true),
            Claim::Leave => Ok(false),
            Claim::Release => release(cx, owner, &*object, finalizers).await.map(|()| false),
            Claim::Adopt => {
                if !may_adopt {
                    recheck(cx, owner).await?;
                    may_adopt = true;
                }
                adopt(cx, owner, &*object, finalizers).await
            }
        };
        match outcome {
            Ok(true) => owned.push(object),
            Ok(false) => {}
            Err(error) => failure = Some(error),
        }
    }
    // One object that could not be claimed does not keep the others from it, but the count is not to be trusted.
    failure.map_or(Ok(owned), Err)
}

/// Makes sure, by a live read, that the owner is still there and not being deleted.
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

async fn adopt<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    object: &T,
    finalizers: &[&str],
) -> Result<bool, SyncError> {
    let (meta, key) = (object.meta(), owner.meta().key());
    let patch = Patch::Strategic(adoption(owner, meta, finalizers));
    let why = "it matches the selector and has no controller";
    match cx.writer(&key).patch::<T>(&meta.key(), None, patch, why).await {
        Ok(_) => Ok(true),
        // Gone, or another object of that name: nothing to adopt.
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(SyncError::api(format!("adopting {} {}", T::TYPE.kind, meta.key()))(error)),
    }
}

/// The patch by which an object becomes the owner's. The server merges lists of finalizers, so only ours are named: those
/// of others, as a cache remembers them, may have been taken off meanwhile and would come back.
fn adoption<O: Resource>(owner: &O, object: &ObjectMeta, finalizers: &[&str]) -> Value {
    let mut metadata = json!({"uid": object.uid, "ownerReferences": [controller_reference(owner)]});
    if !finalizers.is_empty() {
        metadata["finalizers"] = json!(finalizers);
    }
    json!({"metadata": metadata})
}

/// The patch by which an object ceases to be the owner's.
fn letting_go<O: Resource>(owner: &O, object: &ObjectMeta, finalizers: &[&str]) -> Value {
    let reference = json!({"$patch": "delete", "uid": owner.meta().uid});
    let mut metadata = json!({"uid": object.uid, "ownerReferences": [reference]});
    if !finalizers.is_empty() {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!(finalizers);
    }
    json!({"metadata": metadata})
}

async fn release<O: Resource, T: Resource>(
    cx: &Context,
    owner: &O,
    object: &T,
    finalizers: &[&str],
) -> Result<(), SyncError> {
    let (meta, key) = (object.meta(), owner.meta().key());
    let patch = Patch::Strategic(letting_go(owner, meta, finalizers));
    let why = "it no longer matches the selector";
    match cx.writer(&key).patch::<T>(&meta.key(), None, patch, why).await {
        Ok(_) => Ok(()),
        Err(error) if is_released_already(&error) => Ok(()),
        Err(error) => Err(SyncError::api(format!("releasing {} {}", T::TYPE.kind, meta.key()))(error)),
    }
}

/// Gone, or without such a reference, or another object of that name: each way it is not ours any more.
fn is_released_already(error: &Error) -> bool {
    error.is_not_found() || error.is_invalid()
}

/// Whether the two are the same object and not only of the same name.
pub fn is_same<T: Object>(one: &T, other: &T) -> bool {
    one.meta().uid == other.meta().uid
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::{Labels, ReplicaSet, Uid};

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
                        Box::new([OwnerReference { uid, controller, ..OwnerReference::default() }]);
                }
            }
        }
        meta
    }

    #[test]
    fn orphans_that_match_are_adopted_and_strangers_left_alone() {
        let selector = Selector::from_labels(&Labels::from_iter([("app", "web")]));
        #[rustfmt::skip]
        let table = [
            // case                                          owner       object                      claim
            ("an orphan that matches",                       "",         "matching",                 Claim::Adopt),
            ("an orphan that does not",                      "",         "",                         Claim::Leave),
            ("a dying orphan stays one",                     "",         "matching deleting",        Claim::Leave),
            ("a dying owner adopts nobody",                  "deleting", "matching",                 Claim::Leave),
            ("an orphan of another namespace",               "",         "matching elsewhere",       Claim::Leave),
            ("ours",                                         "",         "matching of-us",           Claim::Keep),
            ("ours, dying",                                  "",         "matching of-us deleting",  Claim::Keep),
            ("ours, relabelled",                             "",         "of-us",                    Claim::Release),
            ("a dying owner lets nobody go",                 "deleting", "of-us",                    Claim::Leave),
            ("somebody else's",                              "",         "matching of-them",         Claim::Leave),
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
        let object = ObjectMeta { uid: "u".into(), finalizers: held, ..ObjectMeta::default() };
        for (ours, mut adopting, mut going) in table {
            (adopting["uid"], going["uid"]) = ("u".into(), "u".into());
            assert_eq!(adoption(&owner, &object, ours), json!({"metadata": adopting}), "{ours:?}");
            assert_eq!(letting_go(&owner, &object, ours), json!({"metadata": going}), "{ours:?}");
        }
    }
}
