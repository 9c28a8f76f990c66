//! Merging and filtering of events, as client-go does it, so that a noisy object cannot flood the cluster.
//! Pure: from an event and its time to what is written.
//!
//! - Ten different messages under one reason within ten minutes are summed up in one combined event.
//! - The same event again raises the count of the first one.
//! - A source may record 25 events about an object at once, then one more every five minutes.

use std::num::NonZeroUsize;

use flyball_api::Timestamp;
use flyball_api::hash::{Fnv128a, fnv128a};
use lru::LruCache;
use rustc_hash::FxHashSet;
use smol_str::{SmolStr, format_smolstr};

use super::{EventType, Report};

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
const SIMILAR_BEFORE_COMBINING: usize = 10;
const COMBINE_WITHIN_SECONDS: i64 = 600;
const SPAM_BURST: f64 = 25.0;
const SPAM_PER_SECOND: f64 = 1.0 / 300.0;

/// What to write for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) name: SmolStr,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// Whether several messages are summed up in it.
    pub(super) combined: bool,
}

struct Similar {
    messages: FxHashSet<Digest>,
    last: Timestamp,
}

#[derive(Clone)]
struct Written {
    name: SmolStr,
    count: u32,
    first: Timestamp,
}

struct Allowance {
    tokens: f64,
    at: Timestamp,
}

/// A 128-bit hash of the parts that identify a report: thousands are remembered, and the texts are long.
type Digest = u128;

pub(super) struct Correlator {
    similar: LruCache<Digest, Similar>,
    written: LruCache<Digest, Written>,
    allowances: LruCache<Digest, Allowance>,
    last_suffix: i128,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            similar: LruCache::new(REMEMBERED),
            written: LruCache::new(REMEMBERED),
            allowances: LruCache::new(REMEMBERED),
            last_suffix: 0,
        }
    }
}

impl Correlator {
    /// What to write for `report`, if anything. A count above one means that the named event exists.
    pub(super) fn correlate(&mut self, report: &Report) -> Option<Post> {
        let now = report.at;
        let Identity { source, group, event } = Identity::of(report);
        let combined = self.is_one_of_many(group, report);
        let message = match combined {
            true => format!("(combined from similar events): {}", report.message),
            false => report.message.clone(),
        };
        let identity = if combined { group } else { event };
        let post = match self.written.get(&identity).cloned() {
            Some(Written { name, count, first }) => {
                Post { name, message, count: count.saturating_add(1), first, last: now, combined }
            }
            None => Post { name: self.name_for(report), message, count: 1, first: now, last: now, combined },
        };
        let written = Written { name: post.name.clone(), count: post.count, first: post.first };
        self.written.put(identity, written);
        self.is_allowed(source, now).then_some(post)
    }

    /// Counts the messages with the report's reason; true when there are too many to write each of them.
    fn is_one_of_many(&mut self, group: Digest, report: &Report) -> bool {
        let now = report.at;
        let fresh = || Similar { messages: FxHashSet::default(), last: now };
        let similar = self.similar.get_or_insert_mut(group, fresh);
        if now.duration_since(similar.last).as_secs() > COMBINE_WITHIN_SECONDS {
            similar.messages.clear();
        }
        similar.last = now;
        let message = fnv128a(report.message.as_bytes());
        let known = similar.messages.contains(&message);
        let crowd = !known && similar.messages.len() + 1 >= SIMILAR_BEFORE_COMBINING;
        if !known && !crowd {
            similar.messages.insert(message);
        }
        crowd
    }

    fn is_allowed(&mut self, source: Digest, now: Timestamp) -> bool {
        let fresh = || Allowance { tokens: SPAM_BURST, at: now };
        let allowance = self.allowances.get_or_insert_mut(source, fresh);
        let passed = now.duration_since(allowance.at).as_secs_f64().max(0.0);
        allowance.at = now;
        allowance.tokens = (allowance.tokens + passed * SPAM_PER_SECOND).min(SPAM_BURST);
        let allowed = allowance.tokens >= 1.0;
        if allowed {
            allowance.tokens -= 1.0;
        }
        allowed
    }

    /// A name in upstream's form. Names must be unique: the suffix always grows, and its part below a microsecond depends on
    /// the source, since several controllers record events about one object.
    fn name_for(&mut self, report: &Report) -> SmolStr {
        let teller = i128::try_from(fnv128a(report.source.as_bytes()) % 1000).unwrap_or_default();
        let nanosecond = i128::from(report.at.as_microsecond()) * 1000 + teller;
        self.last_suffix = nanosecond.max(self.last_suffix + 1);
        let suffix = format_smolstr!(".{:x}", self.last_suffix);
        let room = 253 - suffix.len();
        let name = &report.about.name;
        let end = (0..=room.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        format_smolstr!("{}{suffix}", &name[..end])
    }
}

/// What events have in common. Each part contains the one before, so one pass over the texts hashes all three.
struct Identity {
    /// The same source, object and type: they share an allowance.
    source: Digest,
    /// The same reason, too: many of them are combined.
    group: Digest,
    /// The same message, too: they are the same event.
    event: Digest,
}

impl Identity {
    fn of(report: &Report) -> Self {
        let about = &report.about;
        let kind = match report.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let parts =
            [&report.source, &about.kind, &about.namespace, &about.name, &about.uid, &about.api_version];
        let source = parts.iter().fold(Fnv128a::default(), |hash, part| after(hash, part));
        let source = after(source, kind);
        let group = after(source, &report.reason);
        let event = after(group, &report.message);
        Self { source: source.finish(), group: group.finish(), event: event.finish() }
    }
}

/// Adds a part, and what separates it from the next.
fn after(hash: Fnv128a, part: &str) -> Fnv128a {
    hash.with(part.as_bytes()).with(b"\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ObjectRef;

    fn report(message: &str, at: i64) -> Report {
        let about = ObjectRef {
            kind: "ReplicaSet".into(),
            namespace: "ns".into(),
            name: "web".into(),
            uid: "u".into(),
            api_version: "apps/v1".into(),
            resource_version: "1".into(),
        };
        Report {
            source: "replicaset-controller".into(),
            about,
            kind: EventType::Normal,
            reason: "SuccessfulCreate".into(),
            message: message.into(),
            annotations: vec![],
            at: Timestamp::from_second(1_700_000_000 + at).unwrap(),
        }
    }

    /// What is written for a row of `message@second` reports: `message xCOUNT`, or `-` for nothing.
    fn written(reports: &str) -> String {
        let mut correlator = Correlator::default();
        let posts = reports.split_whitespace().map(|item| {
            let (message, at) = item.split_once('@').unwrap_or((item, "0"));
            match correlator.correlate(&report(message, at.parse().unwrap())) {
                None => "-".to_owned(),
                Some(post) if post.combined => format!("combined x{}", post.count),
                Some(post) => format!("{} x{}", post.message, post.count),
            }
        });
        posts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn repeats_are_counted_and_crowds_combined() {
        #[rustfmt::skip]
        let table = [
            ("a new event is created",               "a",                            "a x1"),
            ("the same again raises the count",      "a a@5 b a@9",                  "a x1, a x2, b x1, a x3"),
            ("the tenth message is combined",        "a b c d e f g h i j k",        "a x1, b x1, c x1, d x1, e x1, f x1, g x1, h x1, i x1, combined x1, combined x2"),
            ("ten minutes of silence reset it",      "a b c d e f g h i j j@601",    "a x1, b x1, c x1, d x1, e x1, f x1, g x1, h x1, i x1, combined x1, j x1"),
        ];
        for (case, reports, want) in table {
            assert_eq!(written(reports), want, "{case}");
        }
    }

    #[test]
    fn a_source_may_say_25_things_about_an_object_and_then_one_in_five_minutes() {
        let mut correlator = Correlator::default();
        let mut written = |at| correlator.correlate(&report("a", at)).is_some();
        assert_eq!((0..40).filter(|_| written(0)).count(), 25);
        assert!(!written(299));
        assert!(written(300));
        assert!(!written(301));
    }

    #[test]
    fn reports_that_differ_in_one_part_share_only_what_is_before_it() {
        let parts = |change: &dyn Fn(&mut Report)| {
            let mut report = report("a", 0);
            change(&mut report);
            let Identity { source, group, event } = Identity::of(&report);
            [source, group, event]
        };
        let first = parts(&|_| {});
        type Change = fn(&mut Report);
        let table: [(Change, usize); 8] = [
            (|r| r.at = Timestamp::UNIX_EPOCH, 3),
            (|r| r.message = "b".into(), 2),
            (|r| r.reason = "FailedCreate".into(), 1),
            (|r| r.kind = EventType::Warning, 0),
            (|r| r.about.uid = "v".into(), 0),
            (|r| r.source = "job-controller".into(), 0),
            // The same letters, divided otherwise.
            (|r| (r.about.namespace, r.about.name) = ("nsw".into(), "eb".into()), 0),
            (|r| (r.reason, r.message) = ("SuccessfulCreatea".into(), "".into()), 1),
        ];
        for (row, (change, shared)) in table.into_iter().enumerate() {
            let other = parts(&change);
            let same = first.iter().zip(&other).take_while(|(a, b)| a == b).count();
            assert_eq!(same, shared, "row {row}");
            assert!(first[shared..].iter().zip(&other[shared..]).all(|(a, b)| a != b), "row {row}");
        }
    }

    #[test]
    fn names_of_one_instant_differ_and_fit() {
        let mut correlator = Correlator::default();
        let mut long = report("a", 0);
        long.about.name = "ü".repeat(200).into();
        let first = correlator.correlate(&long).unwrap().name;
        long.message = "b".into();
        let second = correlator.correlate(&long).unwrap().name;
        assert_ne!(first, second);
        assert!(first.len() <= 253);
        long.source = "another".into();
        let third = Correlator::default().correlate(&long).unwrap().name;
        assert_ne!(first, third, "emitted by another controller");
    }
}
