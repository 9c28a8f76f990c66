//! A finalizer that every object of a kind carries until it is deleted and no longer in use.

use flyball_api::{ObjectMeta, PersistentVolume, PersistentVolumeClaim, Resource, VolumeAttributesClass};
use flyball_runtime::{Context, SyncError};
use serde::Serialize;

/// A kind whose objects are kept while in use.
pub(crate) trait Kept: Resource + Serialize + Clone {
    /// What keeps them.
    const FINALIZER: &'static str;

    /// The metadata, to be changed.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
}

macro_rules! kept {
    ($type:ty, $finalizer:literal) => {
        impl Kept for $type {
            const FINALIZER: &'static str = $finalizer;

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kept!(PersistentVolume, "kubernetes.io/pv-protection");
kept!(PersistentVolumeClaim, "kubernetes.io/pvc-protection");
kept!(VolumeAttributesClass, "kubernetes.io/vac-protection");

/// What is to be done about the finalizer of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// It must be added: whoever made the object left it out.
    Protect,
    /// The object is to go, and may as soon as it is not in use.
    Verdict,
}

/// What an object needs.
pub(crate) fn need<T: Kept>(object: &T) -> Need {
    match (object.is_deleting(), object.meta().has_finalizer(T::FINALIZER)) {
        (true, true) => Need::Verdict,
        (false, false) => Need::Protect,
        _ => Need::Nothing,
    }
}

/// The object with its finalizer.
pub(crate) fn protected<T: Kept>(object: &T) -> T {
    let mut object = object.clone();
    let own = std::iter::once(T::FINALIZER.into());
    object.meta_mut().finalizers = object.meta().finalizers.iter().cloned().chain(own).collect();
    object
}

/// The object without its finalizer.
pub(crate) fn released<T: Kept>(object: &T) -> T {
    let mut object = object.clone();
    let others = object.meta().finalizers.iter().filter(|finalizer| *finalizer != T::FINALIZER);
    object.meta_mut().finalizers = others.cloned().collect();
    object
}

/// Writes an object whose finalizers were changed; one that is gone needs none.
pub(crate) async fn write<T: Kept>(cx: &Context, object: &T, why: &str) -> Result<(), SyncError> {
    let key = object.key();
    match cx.writer(&key).update_whole(object, why).await {
        Err(error) if !error.is_not_found() => {
            Err(SyncError::api(format!("changing the finalizers of {} {key}", T::TYPE.kind))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_needed_until_the_end() {
        #[rustfmt::skip]
        let table = [
            // case                        deleting  finalizers                          need
            ("made without it",            false,    "",                                 Need::Protect),
            ("others do not protect",      false,    "example.com/mine",                 Need::Protect),
            ("protected",                  false,    "kubernetes.io/pvc-protection",     Need::Nothing),
            ("to go",                      true,     "kubernetes.io/pvc-protection",     Need::Verdict),
            ("let go already",             true,     "example.com/mine",                 Need::Nothing),
        ];
        for (case, deleting, finalizers, want) in table {
            let mut claim = PersistentVolumeClaim::default();
            claim.metadata.finalizers = finalizers.split_whitespace().map(Into::into).collect();
            claim.metadata.deletion_timestamp = deleting.then(flyball_api::Timestamp::now);
            assert_eq!(need(&claim), want, "{case}");
        }
    }

    #[test]
    fn finalizers_of_others_are_left_alone() {
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.finalizers = ["a", "b"].map(Into::into).into();
        let with = protected(&claim);
        assert_eq!(*with.metadata.finalizers, ["a", "b", PersistentVolumeClaim::FINALIZER]);
        assert_eq!(released(&with), claim);
    }
}
