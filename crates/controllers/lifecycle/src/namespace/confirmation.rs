//! Which collections have to be listed again before their namespace is finalized: those that were listed before a request
//! failed. If etcd was restored meanwhile, their objects are back. Pure.

use std::time::Duration;

use super::content::{Collection, Remains};

/// What remains of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emptied {
    pub collection: Collection,
    pub remains: Remains,
    /// The number of interruptions before it was listed.
    pub interruptions: u32,
}

/// Whether the namespace could be finalized, if no content is back.
pub fn is_due(all: &[Emptied]) -> bool {
    all.iter().all(|emptied| emptied.remains == Remains::default())
}

/// Those that were listed after the last interruption, and those that were not.
pub fn outdated(all: Vec<Emptied>, interruptions: u32) -> (Vec<Emptied>, Vec<Emptied>) {
    all.into_iter().partition(|emptied| emptied.interruptions == interruptions)
}

/// What another list of a collection means, that began after so many `interruptions` and found so many objects.
#[derive(Debug, PartialEq, Eq)]
pub enum Again {
    /// It is confirmed, or still to be listed.
    Keep(Emptied),
    /// Its objects are back.
    Empty(Collection),
}

/// `found`: the number of objects; `None` if the list failed.
pub fn listed_again(emptied: Emptied, found: Option<usize>, interruptions: u32) -> Again {
    match found {
        Some(0) => Again::Keep(Emptied { interruptions, ..emptied }),
        Some(_) => Again::Empty(emptied.collection),
        None => Again::Keep(emptied),
    }
}

/// What remains if no list of some collections could be confirmed: that is unknown, so the namespace is not finalized.
pub fn give_up(mut all: Vec<Emptied>, interruptions: u32) -> Vec<Emptied> {
    for emptied in all.iter_mut().filter(|emptied| emptied.interruptions != interruptions) {
        let problem = "requests failed after it was listed, so etcd may have been restored";
        let problem = format!("{}: {problem}", emptied.collection.resource);
        emptied.remains = Remains::unknown(Duration::ZERO, problem);
    }
    all
}
