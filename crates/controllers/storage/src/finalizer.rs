//! A finalizer that every object of a kind carries until it is deleted and no longer in use.

use flyball_api::{
    Key, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Resource, VolumeAttributesClass,
};
use flyball_cache::Change;
use flyball_runtime::{ErrorKinds, Write};
use serde::Serialize;

/// A kind whose objects are not deleted while in use.
pub(crate) trait Kept: Resource + Serialize + Clone {
    const FINALIZER: &'static str;

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

/// Whether the finalizer is missing, or the object is being deleted and has it.
pub(crate) fn is_due<T: Kept>(object: &T) -> bool {
    object.is_deleting() == object.meta().has_finalizer(T::FINALIZER)
}

/// Whether the object is being deleted and only waits to lose its finalizers.
pub(crate) fn is_releasable<T: Kept>(object: &T) -> bool {
    object.is_deleting() && is_due(object)
}

/// The object of a change, if its finalizer may have to be added or removed.
pub(crate) fn changed<T: Kept>(change: &Change<'_, T>) -> Option<Key> {
    change.new.filter(|object| is_due(&***object)).map(|_| change.key())
}

/// The write that adds or removes the finalizer, if one is due. `reasons` say why.
pub(crate) fn plan<T: Kept>(object: &T, is_used: bool, reasons: Reasons) -> Option<Write> {
    let (object, why) = match (is_due(object), object.is_deleting()) {
        (true, false) => (protected(object), reasons.protect),
        (true, true) if !is_used => (released(object), reasons.release),
        _ => return None,
    };
    Some(Write::replace(&object).why(why).ignore(ErrorKinds::NOT_FOUND))
}

/// Why a finalizer is added and why it is removed.
#[derive(Clone, Copy)]
pub(crate) struct Reasons {
    pub(crate) protect: &'static str,
    pub(crate) release: &'static str,
}

/// The object with its finalizer.
fn protected<T: Kept>(object: &T) -> T {
    let mut object = object.clone();
    let own = std::iter::once(T::FINALIZER.into());
    object.meta_mut().finalizers = object.meta().finalizers.iter().cloned().chain(own).collect();
    object
}

/// The object without its finalizer.
fn released<T: Kept>(object: &T) -> T {
    let mut object = object.clone();
    let others = object.meta().finalizers.iter().filter(|finalizer| *finalizer != T::FINALIZER);
    object.meta_mut().finalizers = others.cloned().collect();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_due_when_it_is_missing_or_to_be_removed() {
        #[rustfmt::skip]
        let table = [
            // case                        deleting  finalizers                          due
            ("without it",                 false,    "",                                 true),
            ("others do not count",        false,    "example.com/mine",                 true),
            ("protected",                  false,    "kubernetes.io/pvc-protection",     false),
            ("being deleted",              true,     "kubernetes.io/pvc-protection",     true),
            ("released already",           true,     "example.com/mine",                 false),
        ];
        for (case, deleting, finalizers, want) in table {
            let mut claim = PersistentVolumeClaim::default();
            claim.metadata.finalizers = finalizers.split_whitespace().map(Into::into).collect();
            claim.metadata.deletion_timestamp = deleting.then(flyball_api::Timestamp::now);
            assert_eq!((is_due(&claim), is_releasable(&claim)), (want, want && deleting), "{case}");
        }
    }

    #[test]
    fn a_finalizer_is_removed_only_when_nothing_uses_the_object() {
        let reasons = Reasons { protect: "it may be used", release: "nothing uses it" };
        let planned = |claim: &PersistentVolumeClaim, is_used: bool| {
            plan(claim, is_used, reasons).map_or_else(String::new, |write| write.to_string())
        };
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.name = "data".into();
        assert_eq!(planned(&claim, true), "update PersistentVolumeClaim data: it may be used");
        claim.metadata.finalizers = [PersistentVolumeClaim::FINALIZER].map(Into::into).into();
        assert_eq!(planned(&claim, false), "");
        claim.metadata.deletion_timestamp = Some(flyball_api::Timestamp::now());
        assert_eq!(planned(&claim, true), "");
        assert_eq!(planned(&claim, false), "update PersistentVolumeClaim data: nothing uses it");
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
