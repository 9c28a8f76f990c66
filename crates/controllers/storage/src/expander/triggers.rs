//! Which claims to look at after a change.

use flyball_api::{Key, PersistentVolumeClaim};
use flyball_cache::Change;

use super::plan::{held, wanted};
use crate::names::BOUND;

/// A bound claim that is new, or that asks for more, or that has got more: its volume may have been waiting for that.
pub fn claim_changed(change: &Change<'_, PersistentVolumeClaim>) -> Option<Key> {
    let claim = change.new.filter(|claim| claim.status.phase == BOUND)?;
    let is_news = change.old.is_none_or(|old| wanted(claim) > wanted(old) || held(claim) > held(old));
    is_news.then(|| change.key())
}
