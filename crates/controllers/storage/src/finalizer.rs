//! A finalizer that every object of a kind carries until it is deleted and no longer in use.

use flyball_api::{ObjectMeta, PersistentVolume, PersistentVolumeClaim, Resource, VolumeAttributesClass};
use flyball_runtime::{Refusals, Write};
use serde::Serialize;

/// A kind whose objects are kept while in use.
pub(crate) trait Kept: Resource + Serialize + Clone {
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
    Nothing,
    /// It must be added: whoever made the object left it out.
    Protect,
    /// The object is to go, and may as soon as it is not in use.
    Verdict,
}

pub(crate) fn need<T: Kept>(object: &T) -> Need {
    match (object.is_deleting(), object.meta().has_finalizer(T::FINALIZER)) {
        (true, true) => Need::Verdict,
        (false, false) => Need::Protect,
        _ => Need::Nothing,
    }
}

/// The write that adds or removes the finalizer, if one is due. `is_used` is asked only about an object that is being
/// deleted; `reasons` say why the finalizer is added and why it is removed.
pub(crate) fn plan<T: Kept>(object: &T, is_used: impl FnOnce() -> bool, reasons: Reasons) -> Option<Write> {
    let (object, why) = match need(object) {
        Need::Protect => (protected(object), reasons.protect),
        Need::Verdict if !is_used() => (released(object), reasons.release),
        Need::Verdict | Need::Nothing => return None,
    };
    Some(Write::replace(&object).why(why).accept(Refusals::GONE))
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
    fn a_finalizer_goes_only_when_nothing_uses_the_object() {
        let reasons = Reasons { protect: "it may be used", release: "nothing uses it" };
        let planned = |claim: &PersistentVolumeClaim, is_used: bool| {
            plan(claim, || is_used, reasons).map_or_else(String::new, |write| write.to_string())
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
