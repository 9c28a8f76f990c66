//! Finds the references to one owner among very many.

use flyball_api::{OwnerReference, Uid};

/// Objects with more owner references than this have a [`ReferenceIndex`].
const MANY_OWNERS: usize = 32;

/// The positions of an object's owner references, ordered by the uid of the owner. Without it, an object with 8,000 owners would cost
/// 64 million comparisons when they are deleted, since each owner looks for its reference.
#[derive(Debug)]
pub(super) struct ReferenceIndex(Box<[u32]>);

impl ReferenceIndex {
    /// `None` if there are so few owners that comparing them all costs less.
    pub(super) fn of(owners: &[OwnerReference]) -> Option<Self> {
        let count = u32::try_from(owners.len()).ok().filter(|_| owners.len() > MANY_OWNERS)?;
        let mut positions: Box<[u32]> = (0..count).collect();
        positions.sort_by_key(|position| &owners[*position as usize].uid);
        Some(Self(positions))
    }

    /// The positions of the references to `owner`.
    pub(super) fn find(&self, owners: &[OwnerReference], owner: &Uid) -> &[u32] {
        let uid = |position: &u32| &owners[*position as usize].uid;
        let from = self.0.partition_point(|position| uid(position) < owner);
        let until = self.0[from..].partition_point(|position| uid(position) == owner);
        &self.0[from..from + until]
    }
}
