//! Cron schedules, parsed as upstream parses them (robfig/cron v3, the standard parser). `next` computes when a schedule fires.

mod next;
#[cfg(test)]
mod tests;
mod zone;

use std::fmt;

pub use zone::{UnknownZone, Zone};

use crate::time::{InvalidDuration, parse_duration};

/// Set if a field was written as `*`, and not as a list of all its values.
const STAR: u64 = 1 << 63;

#[derive(Debug, Clone)]
pub enum Schedule {
    /// This many seconds after the previous time.
    Every(i64),
    Clock(Box<Clock>),
}

/// The minutes, hours, days, months and weekdays at which a schedule fires, as bit sets.
#[derive(Debug, Clone)]
pub struct Clock {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    zone: Zone,
}

/// Why a text is not a schedule, with upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    #[error("empty spec string")]
    Empty,
    #[error("invalid schedule format: a space must follow the time zone")]
    ZoneOnly,
    #[error("provided bad location {0}: {1}")]
    Zone(String, UnknownZone),
    #[error("expected exactly 5 fields, found {0}: [{1}]")]
    Fields(usize, String),
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {0:?}: {1}")]
    Number(String, &'static str),
    #[error("negative number ({0}) not allowed: {1}")]
    Negative(i64, String),
    #[error("beginning of range ({0}) below minimum ({1}): {2}")]
    TooLow(u64, u64, String),
    #[error("end of range ({0}) above maximum ({1}): {2}")]
    TooHigh(u64, u64, String),
    #[error("beginning of range ({0}) beyond end of range ({1}): {2}")]
    Backwards(u64, u64, String),
    #[error("step of range should be a positive number: {0}")]
    Step(String),
    #[error("failed to parse duration {0}: {1}")]
    Duration(String, String),
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
}

/// The valid values of a field.
struct Bounds {
    min: u64,
    max: u64,
    /// Names of the values from `min` on.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Schedule {
    /// Parses a schedule. `local` is the time zone of schedules without one.
    pub fn parse(text: &str, local: &Zone) -> Result<Self, InvalidSchedule> {
        if text.is_empty() {
            return Err(InvalidSchedule::Empty);
        }
        let (mut zone, mut spec) = (local.clone(), text);
        if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, rest) = rest.split_once(' ').ok_or(InvalidSchedule::ZoneOnly)?;
            zone = Zone::load(name, local).map_err(|error| InvalidSchedule::Zone(name.to_owned(), error))?;
            spec = rest.trim();
        }
        if spec.starts_with('@') {
            return descriptor(spec, zone);
        }
        let fields: Vec<&str> = spec.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(InvalidSchedule::Fields(fields.len(), fields.join(" ")));
        };
        Ok(Self::Clock(Box::new(Clock {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
            zone,
        })))
    }
}

/// `@daily` and the like.
fn descriptor(text: &str, zone: Zone) -> Result<Schedule, InvalidSchedule> {
    if let Some(interval) = text.strip_prefix("@every ") {
        let interval = parse_duration(interval)
            .map_err(|error: InvalidDuration| InvalidSchedule::Duration(text.to_owned(), error.as_go()))?;
        return Ok(Schedule::Every(interval.as_secs().max(1)));
    }
    // Each fires at the first value of all smaller fields.
    let (days, months, weekdays) = match text {
        "@yearly" | "@annually" => (1 << DAYS.min, 1 << MONTHS.min, all(&WEEKDAYS)),
        "@monthly" => (1 << DAYS.min, all(&MONTHS), all(&WEEKDAYS)),
        "@weekly" => (all(&DAYS), all(&MONTHS), 1 << WEEKDAYS.min),
        "@daily" | "@midnight" | "@hourly" => (all(&DAYS), all(&MONTHS), all(&WEEKDAYS)),
        _ => return Err(InvalidSchedule::Descriptor(text.to_owned())),
    };
    let hours = if text == "@hourly" { all(&HOURS) } else { 1 << HOURS.min };
    Ok(Schedule::Clock(Box::new(Clock { minutes: 1 << MINUTES.min, hours, days, months, weekdays, zone })))
}

/// Every value, written as a star.
fn all(bounds: &Bounds) -> u64 {
    bits(bounds.min, bounds.max, 1) | STAR
}

/// A comma-separated list of ranges. Empty parts are skipped, so a field can be empty and never match.
fn field(text: &str, bounds: &Bounds) -> Result<u64, InvalidSchedule> {
    text.split(',').filter(|part| !part.is_empty()).try_fold(0, |bits, part| Ok(bits | range(part, bounds)?))
}

/// `*`, `?`, `n`, `n-m`, each with `/step`; `n/step` ends at the largest value.
fn range(text: &str, bounds: &Bounds) -> Result<u64, InvalidSchedule> {
    let own = || text.to_owned();
    let slashes: Vec<&str> = text.split('/').collect();
    let hyphens: Vec<&str> = slashes.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end, mut star) = match hyphens[..] {
        // Upstream: parser.go, getRange: ignores what follows the star up to a slash.
        ["*" | "?", ..] => (bounds.min, bounds.max, STAR),
        [one] => {
            let value = value(one, bounds)?;
            (value, value, 0)
        }
        [first, last] => (value(first, bounds)?, value(last, bounds)?, 0),
        _ => {
            // Upstream parses the first value before it counts hyphens, so that error has precedence.
            value(hyphens.first().copied().unwrap_or_default(), bounds)?;
            return Err(InvalidSchedule::Hyphens(own()));
        }
    };
    let step = match slashes[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if hyphens.len() == 1 {
                end = bounds.max;
            }
            if step > 1 {
                star = 0;
            }
            step
        }
        _ => return Err(InvalidSchedule::Slashes(own())),
    };
    match () {
        _ if start < bounds.min => Err(InvalidSchedule::TooLow(start, bounds.min, own())),
        _ if end > bounds.max => Err(InvalidSchedule::TooHigh(end, bounds.max, own())),
        _ if start > end => Err(InvalidSchedule::Backwards(start, end, own())),
        _ if step == 0 => Err(InvalidSchedule::Step(own())),
        _ => Ok(bits(start, end, step) | star),
    }
}

fn value(text: &str, bounds: &Bounds) -> Result<u64, InvalidSchedule> {
    let name = text.to_lowercase();
    match (bounds.min..).zip(bounds.names).find(|(_, known)| **known == name) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, InvalidSchedule> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let problem = if is_number { "value out of range" } else { "invalid syntax" };
    let value: i64 = text.parse().map_err(|_| InvalidSchedule::Number(text.to_owned(), problem))?;
    u64::try_from(value).map_err(|_| InvalidSchedule::Negative(value, text.to_owned()))
}

/// The values from `start` to `end`, both below 63, in steps.
fn bits(start: u64, end: u64, step: u64) -> u64 {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    (start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value)
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(seconds) => write!(f, "every {seconds} s"),
            Self::Clock(clock) => write!(
                f,
                "{:x}/{:x}/{:x}/{:x}/{:x}",
                clock.minutes, clock.hours, clock.days, clock.months, clock.weekdays
            ),
        }
    }
}
