//! Feature gates, with upstream's table and rules. They are a value, not a global.

mod table;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc};

pub use table::{GATES, Gate};

/// The stage of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Disabled by default; may be removed.
    Alpha,
    /// Enabled or disabled by default; may change.
    Beta,
    /// Generally available; the gate stays for a few releases.
    Ga,
    Deprecated,
}

impl fmt::Display for Stage {
    /// As the metric `kubernetes_feature_enabled` and help texts write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        })
    }
}

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
    #[error("feature gate {name} is locked to {value}")]
    Locked {
        name: &'static str,
        /// The only value it may have.
        value: bool,
    },
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
    set: Arc<BTreeMap<&'static str, bool>>,
}

impl Gates {
    /// Parses `--feature-gates` values, each `[component:]Name=bool[,…]`; if a gate is set twice, the last value is used.
    pub fn parse<S: AsRef<str>>(values: &[S]) -> Result<Self, GateError> {
        let mut given: BTreeMap<&'static str, bool> = BTreeMap::new();
        let mut prefixes = [false; 2];
        let items = values.iter().flat_map(|value| value.as_ref().split(',')).map(str::trim);
        for item in items.filter(|item| !item.is_empty()) {
            let (component, setting) = item.split_once(':').unwrap_or(("", item));
            match component.trim() {
                "" => prefixes[0] = true,
                "kube" => prefixes[1] = true,
                other => return Err(GateError::Component(other.to_owned())),
            }
            let (gate, value) = setting_of(setting)?;
            given.insert(gate.name, value);
        }
        if prefixes == [true, true] {
            return Err(GateError::Mixed);
        }
        Ok(Self { set: Arc::new(with_groups(given)) })
    }

    /// Whether a gate is enabled. Unknown gates are disabled.
    pub fn enabled(&self, name: &str) -> bool {
        self.set.get(name).copied().unwrap_or_else(|| find(name).is_some_and(|gate| gate.default))
    }

    /// Every gate with its effective value, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static Gate, bool)> + '_ {
        GATES.iter().map(|gate| (gate, self.enabled(gate.name)))
    }

    /// The gates that were set explicitly, by name.
    pub fn chosen(&self) -> impl Iterator<Item = (&'static str, bool)> + '_ {
        self.set.iter().map(|(name, value)| (*name, *value))
    }
}

/// The gate of that name.
pub fn find(name: &str) -> Option<&'static Gate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|at| &GATES[at])
}

fn setting_of(text: &str) -> Result<(&'static Gate, bool), GateError> {
    let malformed = || GateError::Malformed(text.trim().to_owned());
    let (name, value) = text.split_once('=').ok_or_else(malformed)?;
    let name = name.trim();
    let value = match value.trim() {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => true,
        "0" | "f" | "F" | "false" | "False" | "FALSE" => false,
        _ => return Err(malformed()),
    };
    let gate =
        find(name).ok_or_else(|| GateError::Unknown { name: name.to_owned(), nearest: nearest(name) })?;
    if gate.locked && value != gate.default {
        return Err(GateError::Locked { name: gate.name, value: gate.default });
    }
    Ok((gate, value))
}

/// `AllAlpha` and `AllBeta` set every gate of their stage that is not set itself.
fn with_groups(given: BTreeMap<&'static str, bool>) -> BTreeMap<&'static str, bool> {
    let mut set = given.clone();
    for (group, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
        let Some(&value) = given.get(group) else { continue };
        let members = GATES.iter().filter(|gate| gate.stage == stage && !gate.locked);
        for gate in members.filter(|gate| !is_group(gate.name)) {
            set.entry(gate.name).or_insert(value);
        }
    }
    set
}

fn is_group(name: &str) -> bool {
    matches!(name, "AllAlpha" | "AllBeta")
}

fn nearest(name: &str) -> Option<&'static str> {
    crate::nearest(name, GATES.iter().map(|gate| gate.name))
}
