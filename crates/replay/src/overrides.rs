//! What is different in a replay: "what if we lose zone b at noon?". Pure.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::time::parse_duration;
use serde_json::Value;
use smol_str::SmolStr;

use crate::script::Script;

const DAY: i64 = 86_400;

/// A time of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Start,
    /// So long after the start.
    After(Duration),
    At(Timestamp),
    /// The first time that the clock shows this, in seconds since midnight, UTC.
    TimeOfDay(i64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time: 12:00 or 12:00:30 (UTC), 2026-03-01T12:00:00Z, or +1h30m from the start")]
pub struct NoTime(String);

impl FromStr for When {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        let wrong = || NoTime(text.to_owned());
        if let Some(after) = text.strip_prefix('+') {
            let after = parse_duration(after).ok().and_then(|after| Duration::try_from(after).ok());
            return after.map(Self::After).ok_or_else(wrong);
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self::At(at));
        }
        let parts: Option<Vec<i64>> = text
            .split(':')
            .map(|part| {
                part.parse().ok().filter(|_| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()))
            })
            .collect();
        match parts.as_deref() {
            Some(&[hour @ 0..=23, minute @ 0..=59]) => Ok(Self::TimeOfDay(hour * 3600 + minute * 60)),
            Some(&[hour @ 0..=23, minute @ 0..=59, second @ 0..=59]) => {
                Ok(Self::TimeOfDay(hour * 3600 + minute * 60 + second))
            }
            _ => Err(wrong()),
        }
    }
}

impl When {
    fn resolve(self, script: &Script) -> Option<Timestamp> {
        let start = script.start;
        let at = match self {
            Self::Start => start,
            Self::After(after) => start.checked_add(after).ok()?,
            Self::At(at) => at,
            Self::TimeOfDay(second) => {
                let midnight = start.as_second().div_euclid(DAY) * DAY;
                let today = Timestamp::from_second(midnight + second).ok()?;
                match today < start {
                    true => Timestamp::from_second(midnight + second + DAY).ok()?,
                    false => today,
                }
            }
        };
        (start..=script.end).contains(&at).then_some(at)
    }
}

/// `WHAT@TIME`, or `WHAT` from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed<T> {
    pub what: T,
    pub when: When,
}

impl<T: for<'a> From<&'a str>> FromStr for Timed<T> {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        match text.rsplit_once('@') {
            Some((what, when)) => Ok(Self { what: what.into(), when: when.parse()? }),
            None => Ok(Self { what: text.into(), when: When::Start }),
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub flags: Vec<String>,
    /// The objects of manifests, with the names of their files.
    pub apply: Vec<Timed<Manifests>>,
    pub lose_nodes: Vec<Timed<String>>,
    pub lose_zones: Vec<Timed<String>>,
}

impl Asked {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests {
    pub file: PathBuf,
    pub objects: Vec<Value>,
}

/// What is different, with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    pub at: Timestamp,
    pub what: Different,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Different {
    /// These nodes stop, and do not come back.
    Lost(Vec<SmolStr>),
    Apply(Value),
}

/// Why something cannot be different in this recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("there is no node {name:?} in the recording; there are: {}", known.join(", "))]
    Node { name: String, known: Vec<String> },
    #[error("there is no zone {name:?} in the recording; there are: {}", known.join(", "))]
    Zone { name: String, known: Vec<String> },
    #[error("no node of the recording has a zone (the label topology.kubernetes.io/zone)")]
    NoZones,
    #[error("the time of {what} is not within the recording, which goes from {start:.0} to {end:.0}")]
    Time { what: String, start: Timestamp, end: Timestamp },
}

/// What is asked for, in order of time.
pub fn resolve(asked: &Asked, script: &Script) -> Result<Vec<Override>, Unfit> {
    let at = |when: When, what: String| {
        let (start, end) = (script.start, script.end);
        when.resolve(script).ok_or(Unfit::Time { what, start, end })
    };
    let mut all = Vec::new();
    for Timed { what, when } in &asked.lose_nodes {
        if !script.nodes.contains_key(what.as_str()) {
            let known = script.nodes.keys().map(ToString::to_string).collect();
            return Err(Unfit::Node { name: what.clone(), known });
        }
        let at = at(*when, format!("--lose-node {what}"))?;
        all.push(Override { at, what: Different::Lost(vec![what.as_str().into()]) });
    }
    for Timed { what, when } in &asked.lose_zones {
        let nodes = zone(what, script)?;
        all.push(Override { at: at(*when, format!("--lose-zone {what}"))?, what: Different::Lost(nodes) });
    }
    for Timed { what, when } in &asked.apply {
        let at = at(*when, format!("--apply {}", what.file.display()))?;
        all.extend(what.objects.iter().map(|object| Override { at, what: Different::Apply(object.clone()) }));
    }
    all.sort_by_key(|one| one.at);
    Ok(all)
}

fn zone(name: &str, script: &Script) -> Result<Vec<SmolStr>, Unfit> {
    let of_zone = script.nodes.iter().filter(|(_, zone)| *zone == name && !zone.is_empty());
    let nodes: Vec<SmolStr> = of_zone.map(|(node, _)| node.clone()).collect();
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let mut known: Vec<String> = script.nodes.values().map(ToString::to_string).collect();
    known.retain(|zone| !zone.is_empty());
    known.sort_unstable();
    known.dedup();
    match known.is_empty() {
        true => Err(Unfit::NoZones),
        false => Err(Unfit::Zone { name: name.to_owned(), known }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        let nodes = [("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "")];
        Script {
            start: "2026-03-01T11:30:00Z".parse().unwrap(),
            end: "2026-03-02T11:00:00Z".parse().unwrap(),
            objects: vec![],
            steps: vec![],
            nodes: nodes.into_iter().map(|(node, zone)| (node.into(), zone.into())).collect(),
            autoscales: true,
            toleration: Duration::from_secs(300),
            service_cidrs: vec![],
            left_to_components: 0,
            notes: vec![],
        }
    }

    #[test]
    fn times_are_read_against_the_recording() {
        #[rustfmt::skip]
        let table = [
            ("12:00",                "2026-03-01T12:00:00Z"),
            ("12:00:30",             "2026-03-01T12:00:30Z"),
            ("10:00",                "2026-03-02T10:00:00Z"),
            ("+1h30m",               "2026-03-01T13:00:00Z"),
            ("2026-03-02T01:00:00Z", "2026-03-02T01:00:00Z"),
            ("2026-03-03T01:00:00Z", "outside"),
            ("11:15",                "outside"),
            ("+24h",                 "outside"),
            ("noon",                 "no time"),
            ("24:00",                "no time"),
            ("1:00",                 "no time"),
            ("12:00:00:00",          "no time"),
            ("+",                    "no time"),
        ];
        for (text, want) in table {
            let said = match text.parse::<When>() {
                Ok(when) => when.resolve(&script()).map_or("outside".to_owned(), |at| at.to_string()),
                Err(error) => {
                    assert!(error.to_string().contains(text));
                    "no time".to_owned()
                }
            };
            assert_eq!(said, want, "{text}");
        }
    }

    #[test]
    fn nodes_and_zones_are_those_of_the_recording() {
        let timed = |text: &str| vec![text.parse::<Timed<String>>().unwrap()];
        let nodes = |text: &str| Asked { lose_nodes: timed(text), ..Asked::default() };
        let zones = |text: &str| Asked { lose_zones: timed(text), ..Asked::default() };
        #[rustfmt::skip]
        let table = [
            (nodes("n1@12:00"), "2026-03-01T12:00:00Z n1"),
            (nodes("n1"),       "2026-03-01T11:30:00Z n1"),
            (zones("b@12:00"),  "2026-03-01T12:00:00Z n2 n3"),
            (nodes("x"),        "there is no node \"x\" in the recording; there are: n1, n2, n3, n4"),
            (zones("c"),        "there is no zone \"c\" in the recording; there are: a, b"),
            (zones("b@11:00:01"), "the time of --lose-zone b is not within the recording, which goes from 2026-03-01T11:30:00Z to 2026-03-02T11:00:00Z"),
        ];
        for (asked, want) in table {
            let said = match resolve(&asked, &script()) {
                Ok(found) => match &found[..] {
                    [Override { at, what: Different::Lost(nodes) }] => format!("{at} {}", nodes.join(" ")),
                    other => panic!("{other:?}"),
                },
                Err(error) => error.to_string(),
            };
            assert_eq!(said, want);
        }
        let bare = Script { nodes: [("n".into(), "".into())].into(), ..script() };
        assert_eq!(resolve(&zones("a"), &bare), Err(Unfit::NoZones));
    }
}
