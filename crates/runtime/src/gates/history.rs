//! The history of a feature gate: since which version it has which stage and default.

use std::fmt;

use crate::version::{Minor, Versions};

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

/// A gate and what it was in each version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// As `--feature-gates` takes it.
    pub name: &'static str,
    /// By version.
    specs: &'static [Spec],
    /// Gates without which this one cannot be on.
    pub needs: &'static [&'static str],
}

/// What a gate is from a version on, until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    pub since: Minor,
    pub stage: Stage,
    pub default: bool,
    /// Whether the default is the only value allowed.
    pub locked: bool,
    /// The oldest control plane with which this is valid; with an older one, the spec before is.
    compatible_with: Option<Minor>,
}

pub(super) const fn gate(name: &'static str, specs: &'static [Spec]) -> History {
    History { name, specs, needs: &[] }
}

pub(super) const fn since(major: u32, minor: u32, stage: Stage, default: bool) -> Spec {
    Spec { since: Minor::new(major, minor), stage, default, locked: false, compatible_with: None }
}

impl Spec {
    pub(super) const fn locked(self) -> Self {
        Self { locked: true, ..self }
    }

    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "no gate of this release has it; the table's printer knows it")
    )]
    pub(super) const fn compatible_with(self, major: u32, minor: u32) -> Self {
        Self { compatible_with: Some(Minor::new(major, minor)), ..self }
    }
}

impl History {
    pub(super) const fn needs(self, others: &'static [&'static str]) -> Self {
        Self { needs: others, ..self }
    }

    /// What the gate is in these versions; `None` if it does not exist yet.
    pub fn at(&self, versions: Versions) -> Option<&'static Spec> {
        self.specs.iter().rev().find(|spec| {
            spec.since <= versions.emulated
                && spec.compatible_with.is_none_or(|oldest| oldest <= versions.min_compatibility)
        })
    }

    /// The version that introduced it.
    pub fn introduced(&self) -> Option<Minor> {
        self.specs.first().map(|spec| spec.since)
    }
}
