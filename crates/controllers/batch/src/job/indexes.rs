//! Sets of completion indexes, in the short form that a Job's status has: `0,3-5`. Pure.

use std::fmt;

/// A set of indexes: intervals in order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(Vec<Interval>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: u32,
    last: u32,
}

impl Indexes {
    /// Parses the indexes of a status or a rule that are below `completions`. Invalid parts are ignored: a user must have
    /// edited them, and they must not stop the Job.
    pub fn parse(text: &str, completions: u32) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first < completions && first <= last)
                .then(|| Interval { first, last: last.min(completions - 1) })
        };
        Self::from_intervals(text.split(',').filter_map(interval).collect())
    }

    fn from_intervals(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable();
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for next in intervals {
            match merged.last_mut() {
                Some(held) if next.first <= held.last.saturating_add(1) => {
                    held.last = held.last.max(next.last)
                }
                _ => merged.push(next),
            }
        }
        Self(merged)
    }

    pub fn union(&self, other: &Self) -> Self {
        Self::from_intervals(self.0.iter().chain(&other.0).copied().collect())
    }

    pub fn total(&self) -> usize {
        self.0.iter().map(|interval| (interval.last - interval.first) as usize + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, index: u32) -> bool {
        let at = self.0.partition_point(|interval| interval.last < index);
        self.0.get(at).is_some_and(|interval| interval.first <= index)
    }

    /// The size of the intersection.
    pub fn in_common(&self, other: &Self) -> usize {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut count = 0;
        while let (Some(one), Some(two)) = (ours.peek(), theirs.peek()) {
            let (first, last) = (one.first.max(two.first), one.last.min(two.last));
            if first <= last {
                count += (last - first) as usize + 1;
            }
            if one.last < two.last {
                ours.next()
            } else {
                theirs.next()
            };
        }
        count
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub fn first_missing(&self, count: usize, completions: u32) -> Vec<u32> {
        let mut missing = vec![];
        let mut next = 0;
        let beyond = Interval { first: completions, last: completions };
        for taken in self.0.iter().chain([&beyond]) {
            let gap = next..taken.first.min(completions);
            missing.extend(gap.take(count - missing.len()));
            next = next.max(taken.last.saturating_add(1));
        }
        missing
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        Self::from_intervals(
            indexes.into_iter().map(|index| Interval { first: index, last: index }).collect(),
        )
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Interval { first, last }) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}
