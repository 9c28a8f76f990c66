//! How the decisions of two replays differ: which kinds of decisions, in which minute, how many more or fewer. Pure.
//!
//! Objects with generated names are others in each replay as soon as anything differs, so they are counted, never paired.

use std::collections::BTreeMap;

use flyball_api::Timestamp;
use flyball_runtime::decisions::{Decision, Outcome};
use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};

use crate::history::History;

const MINUTE: i64 = 60;
/// The letters of generated suffixes, and their number.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;

/// Decisions that count as the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sort {
    pub controller: &'static str,
    pub action: &'static str,
    /// Of the object, with the subresource that was written.
    pub kind: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    /// `*` stands for what is generated.
    pub name: SmolStr,
    pub outcome: &'static str,
}

/// How often such a decision was made in one minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub minute: Timestamp,
    #[serde(flatten)]
    pub sort: Sort,
    pub before: usize,
    pub after: usize,
    /// The reason of the first one.
    pub why: SmolStr,
}

#[derive(Default)]
struct Count {
    before: usize,
    after: usize,
    why: Option<SmolStr>,
}

/// What is different in `after`, by time.
pub fn differences(before: &History, after: &History) -> Vec<Difference> {
    let mut counts: BTreeMap<(Timestamp, Sort), Count> = BTreeMap::new();
    // The reasons of what is new come first.
    for decision in &after.0 {
        let count = counts.entry((minute(decision), sort(decision))).or_default();
        count.after += 1;
        count.why.get_or_insert_with(|| decision.why.clone());
    }
    for decision in &before.0 {
        let count = counts.entry((minute(decision), sort(decision))).or_default();
        count.before += 1;
        count.why.get_or_insert_with(|| decision.why.clone());
    }
    let differing = counts.into_iter().filter(|(_, count)| count.before != count.after);
    differing
        .map(|((minute, sort), Count { before, after, why })| Difference {
            minute,
            sort,
            before,
            after,
            why: why.unwrap_or_default(),
        })
        .collect()
}

fn minute(decision: &Decision) -> Timestamp {
    let second = decision.time.as_second().div_euclid(MINUTE) * MINUTE;
    Timestamp::from_second(second).unwrap_or(decision.time)
}

fn sort(decision: &Decision) -> Sort {
    let Decision { controller, action, target, subresource, outcome, .. } = decision;
    let kind = match subresource.is_empty() {
        true => target.kind.clone(),
        false => format_smolstr!("{}/{subresource}", target.kind),
    };
    Sort {
        controller,
        action,
        kind,
        namespace: target.namespace.clone(),
        name: without_suffix(&target.name),
        outcome: match outcome {
            Outcome::Done => "done",
            Outcome::Refused(_) => "refused",
            Outcome::Unknown(_) => "unknown",
            Outcome::NotSent(_) => "not-sent",
        },
    }
}

/// A name without what the server has generated.
fn without_suffix(name: &SmolStr) -> SmolStr {
    let is_generated = |end: &str| end.len() == SUFFIX && end.chars().all(|c| GENERATED.contains(c));
    match name.rsplit_once('-') {
        Some((base, end)) if is_generated(end) => format_smolstr!("{base}-*"),
        // The hash of a volume attachment covers the node.
        Some(("csi", hash)) if hash.len() == 64 => SmolStr::new_static("csi-*"),
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::Key;
    use flyball_runtime::decisions::Subject;
    use std::time::Duration;

    fn history(text: &str) -> History {
        let decision = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[second, action, name] = &words[..] else { panic!("{line}") };
            Decision {
                id: 0,
                time: Timestamp::from_second(1_772_366_400 + second.parse::<i64>().unwrap()).unwrap(),
                controller: "replicaset-controller",
                owner: "ns/web".into(),
                action: if action == "create" { "create" } else { "delete" },
                target: Subject::new("Pod", &Key::new("ns", name)),
                subresource: "".into(),
                why: format_smolstr!("because of {name}"),
                outcome: if name.starts_with("bad") {
                    Outcome::Refused("no".to_owned())
                } else {
                    Outcome::Done
                },
                took_ms: Duration::ZERO,
            }
        };
        History(text.split(',').map(str::trim).filter(|line| !line.is_empty()).map(decision).collect())
    }

    #[test]
    fn kinds_of_decisions_are_counted_by_the_minute() {
        #[rustfmt::skip]
        let table = [
            // case                              before                    after                                    want
            ("equal",                            "1 create db-0",          "1 create db-0",                         ""),
            ("generated names do not matter",    "1 create web-bcdfg",     "2 create web-xwvzq",                    ""),
            ("another minute does",              "1 create db-0",          "61 create db-0",                        "12:00 db-0 1>0, 12:01 db-0 0>1"),
            ("so does the number",               "1 create web-bcdfg",     "1 create web-bcdfg, 2 create web-cdfgh", "12:00 web-* 1>2"),
            ("and the action",                   "1 create db-0",          "1 delete db-0",                         "12:00 db-0 1>0, 12:00 db-0 0>1"),
            ("a name that only looks like one",  "1 create team-proxy",    "",                                      "12:00 team-proxy 1>0"),
            ("an outcome",                       "",                       "1 create bad",                          "12:00 bad 0>1"),
        ];
        for (case, before, after, want) in table {
            let found = differences(&history(before), &history(after));
            let shown: Vec<String> = found
                .iter()
                .map(|one| {
                    format!("{} {} {}>{}", one.minute.strftime("%H:%M"), one.sort.name, one.before, one.after)
                })
                .collect();
            assert_eq!(shown.join(", "), want, "{case}");
        }
    }

    #[test]
    fn the_first_reason_of_what_is_new_is_shown() {
        let found =
            differences(&history("1 create web-bcdfg"), &history("1 create web-xwvzq, 2 create web-bcdfg"));
        assert_eq!(found[0].why, "because of web-xwvzq");
    }
}
