//! Feature gates, with upstream's table and rules. They are a value, not a global.

mod history;
mod read;
mod table;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

pub use history::{History, Spec, Stage};
pub use read::Gate;

use self::read::{GROUPS, UNREAD};
use self::table::TABLE;
use crate::version::{Minor, OLDEST, Versions};

/// Why a `--feature-gates` value was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Not `Name=true` or `Name=false`.
    #[error("{0:?} is not of the form Name=true or Name=false")]
    Malformed(String),
    #[error("there is no feature gate {name:?}{}", .nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        name: String,
        /// The known name that looks most like it.
        nearest: Option<&'static str>,
    },
    #[error("feature gate {name} is locked to {value} in version {emulated}")]
    Locked {
        name: &'static str,
        /// The only value it may have.
        value: bool,
        emulated: Minor,
    },
    #[error("version {emulated} has no feature gate {name}{}", .introduced.map(|v| format!("; it came with {v}")).unwrap_or_default())]
    TooNew { name: &'static str, introduced: Option<Minor>, emulated: Minor },
    #[error("feature gate {name} is on, but needs {}, off", .missing.join(" and "))]
    Needs { name: &'static str, missing: Vec<&'static str> },
    /// A component that is not part of this binary.
    #[error("feature gates of component {0:?} cannot be set here; the only component is \"kube\"")]
    Component(String),
    /// Both `Name=…` and `kube:Name=…` were used.
    #[error("feature gates are given both with and without the prefix \"kube:\"; use one form for all")]
    Mixed,
}

/// The gates of this process. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Gates {
    settings: Arc<Settings>,
}

#[derive(Debug, Default)]
struct Settings {
    versions: Versions,
    /// What was set explicitly.
    given: BTreeMap<&'static str, bool>,
    /// The same, and what the groups set.
    set: BTreeMap<&'static str, bool>,
}

impl Gates {
    /// Parses `--feature-gates` values, each `[component:]Name=bool[,…]`; if a gate is set twice, the last value is used.
    pub fn parse<S: AsRef<str>>(values: &[S]) -> Result<Self, Vec<GateError>> {
        Self::emulating(Versions::default(), values)
    }

    /// Like [`Self::parse`], with stages, defaults and locks of other versions.
    pub fn emulating<S: AsRef<str>>(versions: Versions, values: &[S]) -> Result<Self, Vec<GateError>> {
        let given = given(values).map_err(|error| vec![error])?;
        let refused: Vec<GateError> =
            given.iter().filter_map(|(name, value)| refusal(name, *value, versions)).collect();
        if !refused.is_empty() {
            return Err(refused);
        }
        let set = with_groups(&given, versions);
        let gates = Self { settings: Arc::new(Settings { versions, given, set }) };
        let unmet = gates.unmet();
        if unmet.is_empty() { Ok(gates) } else { Err(unmet) }
    }

    pub fn enabled(&self, gate: Gate) -> bool {
        self.is_on(gate.name())
    }

    pub fn versions(&self) -> Versions {
        self.settings.versions
    }

    /// Every gate that the emulated version has, with its effective value, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static Spec, bool)> + '_ {
        TABLE.iter().filter_map(|gate| {
            let spec = gate.at(self.settings.versions)?;
            Some((gate.name, spec, self.is_on(gate.name)))
        })
    }

    /// The gates that were set explicitly, by name.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &'static Spec, bool)> + '_ {
        self.all().filter(|(name, ..)| self.settings.given.contains_key(name))
    }

    fn is_on(&self, name: &str) -> bool {
        let default = || find(name)?.at(self.settings.versions).map(|spec| spec.default);
        self.settings.set.get(name).copied().or_else(default).unwrap_or(false)
    }

    /// The gates that are on without those that they need.
    fn unmet(&self) -> Vec<GateError> {
        let on = TABLE.iter().filter(|gate| self.is_on(gate.name));
        on.filter_map(|gate| {
            let missing: Vec<&str> = gate.needs.iter().copied().filter(|other| !self.is_on(other)).collect();
            (!missing.is_empty()).then_some(GateError::Needs { name: gate.name, missing })
        })
        .collect()
    }
}

/// The gate of that name.
pub fn find(name: &str) -> Option<&'static History> {
    TABLE.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|at| &TABLE[at])
}

/// Why setting the gate changes nothing in any program of Flyball; `None` if some code reads it.
pub fn without_effect(name: &str) -> Option<&'static str> {
    let is_locked = || {
        let oldest = find(name)?.at(Versions::emulating(OLDEST))?;
        oldest.locked.then_some("its value is locked in every version")
    };
    if GROUPS.contains(&name) || Gate::named(name).is_some() {
        return None;
    }
    let listed = UNREAD.iter().find(|(_, gates)| gates.contains(&name)).map(|(why, _)| *why);
    listed.or_else(is_locked)
}

fn given<S: AsRef<str>>(values: &[S]) -> Result<BTreeMap<&'static str, bool>, GateError> {
    let mut given = BTreeMap::new();
    let mut prefixes = [false; 2];
    let items = values.iter().flat_map(|value| value.as_ref().split(',')).map(str::trim);
    for item in items.filter(|item| !item.is_empty()) {
        let (component, setting) = item.split_once(':').unwrap_or(("", item));
        match component.trim() {
            "" => prefixes[0] = true,
            "kube" => prefixes[1] = true,
            other => return Err(GateError::Component(other.to_owned())),
        }
        let (name, value) = setting_of(setting)?;
        given.insert(name, value);
    }
    if prefixes == [true, true] { Err(GateError::Mixed) } else { Ok(given) }
}

fn setting_of(text: &str) -> Result<(&'static str, bool), GateError> {
    let malformed = || GateError::Malformed(text.trim().to_owned());
    let (name, value) = text.split_once('=').ok_or_else(malformed)?;
    let name = name.trim();
    let value = match value.trim() {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => true,
        "0" | "f" | "F" | "false" | "False" | "FALSE" => false,
        _ => return Err(malformed()),
    };
    let unknown = || GateError::Unknown { name: name.to_owned(), nearest: nearest(name) };
    Ok((find(name).ok_or_else(unknown)?.name, value))
}

/// Why a gate cannot have this value in these versions.
fn refusal(name: &'static str, value: bool, versions: Versions) -> Option<GateError> {
    let gate = find(name)?;
    let emulated = versions.emulated;
    match gate.at(versions) {
        None => Some(GateError::TooNew { name, introduced: gate.introduced(), emulated }),
        Some(spec) if spec.locked && spec.default != value => {
            Some(GateError::Locked { name, value: spec.default, emulated })
        }
        Some(_) => None,
    }
}

/// `AllAlpha` and `AllBeta` set every gate of their stage that is not set itself.
fn with_groups(given: &BTreeMap<&'static str, bool>, versions: Versions) -> BTreeMap<&'static str, bool> {
    let mut set = given.clone();
    for (group, stage) in GROUPS.into_iter().zip([Stage::Alpha, Stage::Beta]) {
        let Some(&value) = given.get(group) else { continue };
        let members = TABLE.iter().filter(|gate| gate.at(versions).is_some_and(|spec| spec.stage == stage));
        for gate in members.filter(|gate| !GROUPS.contains(&gate.name)) {
            set.entry(gate.name).or_insert(value);
        }
    }
    set
}

fn nearest(name: &str) -> Option<&'static str> {
    crate::nearest(name, TABLE.iter().map(|gate| gate.name))
}
