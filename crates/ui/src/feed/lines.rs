//! The activity: changes of objects, and what controllers decided and wrote.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use flyball_api::{ObjectMeta, ResourceType, Timestamp};
use flyball_cache::{AnyInformer, Informers, MetaChange, Subscription};
use flyball_runtime::Clock;
use flyball_runtime::decisions::Decision;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use smol_str::SmolStr;

/// Lines between two batches. More are counted but not shown.
const MOST: usize = 200;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    /// A write of a controller, with its reason and outcome.
    Decision(Box<Decision>),
    /// An object has changed, whoever did that.
    Change(Changed),
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Changed {
    #[serde(serialize_with = "as_text")]
    time: Timestamp,
    group: SmolStr,
    kind: SmolStr,
    namespace: SmolStr,
    name: SmolStr,
    what: String,
}

fn as_text<S: Serializer>(time: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&flyball_api::time::format_micros(*time))
}

/// The lines since the last batch.
pub(super) struct Lines {
    clock: Clock,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    lines: VecDeque<Line>,
    missed: u64,
}

impl Lines {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, pending: Mutex::default() }
    }

    pub(super) fn changed(&self, kind: &ResourceType, meta: &ObjectMeta, what: String) {
        let changed = Changed {
            time: self.clock.now(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            what,
        };
        self.add(Line::Change(changed));
    }

    pub(super) fn decided(&self, decision: &Decision) {
        self.add(Line::Decision(Box::new(decision.clone())));
    }

    pub(super) fn missed(&self, lines: u64) {
        self.pending.lock().missed += lines;
    }

    fn add(&self, line: Line) {
        let mut pending = self.pending.lock();
        match pending.lines.len() < MOST {
            true => pending.lines.push_back(line),
            false => pending.missed += 1,
        }
    }

    /// The lines, and how many there were beyond them.
    pub(super) fn take(&self) -> (VecDeque<Line>, u64) {
        let pending = std::mem::take(&mut *self.pending.lock());
        (pending.lines, pending.missed)
    }
}

/// Kinds whose changes are noise, or are shown otherwise; and Secrets, whose names are not for everybody who may look.
const QUIET: [&str; 4] = ["Lease", "Event", "EndpointSlice", "Secret"];

/// Follows the caches of all resources that have no rows, for their creation, their deletion, and changes of their spec.
#[derive(Default)]
pub(super) struct Others {
    /// With the cache, of which a definition that is deleted and made again has another.
    followed: Vec<(ResourceType, Weak<dyn AnyInformer>, Subscription)>,
}

impl Others {
    /// To be called repeatedly: caches of custom resources come and go.
    pub(super) fn follow(&mut self, informers: &Informers, kinds_with_rows: &[&str], lines: &Arc<Lines>) {
        let all = informers.all();
        let is_there = |known: &Weak<dyn AnyInformer>| {
            all.iter().any(|informer| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(informer)))
        };
        self.followed.retain(|(_, known, _)| is_there(known));
        for informer in all {
            let resource = informer.resource();
            let is_quiet =
                QUIET.contains(&resource.kind.as_str()) || kinds_with_rows.contains(&resource.kind.as_str());
            if is_quiet || self.followed.iter().any(|(known, ..)| known == resource) {
                continue;
            }
            let (lines, kind) = (lines.clone(), resource.clone());
            let subscription = informer.subscribe_meta(Box::new(move |change| {
                if change.origin.is_fresh()
                    && let Some((meta, what)) = told(change)
                {
                    lines.changed(&kind, meta, what.to_owned());
                }
            }));
            self.followed.push((resource.clone(), Arc::downgrade(&informer), subscription));
        }
    }
}

/// What a change is worth a line for.
fn told<'a>(change: &MetaChange<'a>) -> Option<(&'a ObjectMeta, &'static str)> {
    match (change.old, change.new) {
        (None, Some(new)) => Some((new, "created")),
        (Some(old), None) => Some((old, "gone")),
        (Some(old), Some(new)) if !old.is_deleting() && new.is_deleting() => Some((new, "being deleted")),
        (Some(old), Some(new)) if old.generation != new.generation => Some((new, "spec changed")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted() {
        let lines = Lines::new(Clock::system());
        let kind = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
        for _ in 0..MOST + 7 {
            lines.changed(&kind, &ObjectMeta::default(), "created".to_owned());
        }
        lines.missed(3);
        let (taken, missed) = lines.take();
        assert_eq!((taken.len(), missed), (MOST, 10));
        assert_eq!(lines.take().1, 0);
    }
}
