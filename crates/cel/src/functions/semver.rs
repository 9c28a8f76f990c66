//! Semantic versions, as Kubernetes reads them.

use std::cmp::Ordering;
use std::fmt;

use super::{overload, text_of};
use crate::error::Error;
use crate::go::quoted;
use crate::value::Value;

/// `1.2.3-rc.1+build`
#[derive(Debug, Clone)]
pub struct Semver {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    before: Vec<Part>,
    build: Vec<String>,
}

/// A part of the pre-release. Numbers are lower than words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Semver {
    /// From the arguments of `semver` or `isSemver`.
    pub(super) fn read(args: &[Value<'_>]) -> Result<Self, Error> {
        let text = text_of(args.first())?;
        match args.get(1) {
            None | Some(Value::Bool(false)) => Self::parse(text).map_err(Error::new),
            Some(Value::Bool(true)) => Self::parse(&normalized(text)).map_err(Error::new),
            Some(_) => overload(),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) =
            rest.split_once('-').map_or((rest, None), |(rest, before)| (rest, Some(before)));
        let numbers =
            [("major", major), ("minor", minor), ("patch", patch)].map(|(name, text)| number(name, text));
        let [major, minor, patch] = numbers;
        let (major, minor, patch) = (major?, minor?, patch?);
        let before: Result<Vec<Part>, String> =
            before.into_iter().flat_map(|text| text.split('.')).map(part).collect();
        let before = before?;
        let build: Vec<String> =
            build.into_iter().flat_map(|text| text.split('.')).map(str::to_owned).collect();
        for word in &build {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !word.chars().all(is_word) {
                return Err(format!("Invalid character(s) found in build meta data {}", quoted(word)));
            }
        }
        Ok(Self { major, minor, patch, before, build })
    }

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.before.cmp(&other.before),
            }
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let title = match name {
        "major" => "Major",
        "minor" => "Minor",
        _ => "Patch",
    };
    if !text.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quoted(text)));
    }
    text.parse().map_err(|_| {
        let problem = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {problem}", quoted(text))
    })
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quoted(text)
            ));
        }
        return text
            .parse()
            .map(Part::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quoted(text)));
    }
    if text.chars().all(is_word) {
        return Ok(Part::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", quoted(text)))
}

/// The text without a `v` and leading zeros, and with all three numbers.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.to_owned();
            }
            let stripped = part.trim_start_matches('0');
            match stripped.starts_with(|c: char| c.is_ascii_digit()) {
                true => stripped.to_owned(),
                false => format!("0{stripped}"),
            }
        })
        .collect();
    if parts.len() < 3 {
        let last = parts.last().cloned().unwrap_or_default();
        if last.contains(['+', '-']) {
            return parts.join("."); // refused as too short
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
    }
    parts.join(".")
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (at, part) in self.before.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Word(word) => f.write_str(word)?,
            }
        }
        for (at, word) in self.build.iter().enumerate() {
            write!(f, "{}{word}", if at == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}
