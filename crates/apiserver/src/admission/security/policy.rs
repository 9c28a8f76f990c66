//! The `pod-security.kubernetes.io/…` labels of a namespace.

use std::fmt;

use crate::invalid::Cause;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The levels, from permissive to strict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The release whose rules apply: a minor version, or always the newest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Latest,
    Minor(u32),
}

/// A level as a release defines it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// What a namespace enforces and what it warns about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) warn: Standard,
}

impl Policy {
    /// Reads a namespace's labels; an invalid label is an error, and means the strictest level where it is enforced.
    pub(super) fn read<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> (Self, Vec<Cause>) {
        let mut policy = Self::default();
        let mut faults = Vec::new();
        let mut enforced = false;
        let (mut warn_level, mut warn_version) = (false, false);
        let mut own: Vec<(&str, &str)> =
            labels.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value))).collect();
        // Upstream looks at them in this order.
        let order = ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
        own.sort_by_key(|(key, _)| order.iter().position(|known| known == key));
        for (key, value) in own {
            let mut fault = |detail: &str| {
                faults.push(Cause::invalid(format!("metadata.labels[{PREFIX}{key}]"), value, detail));
            };
            match key {
                "enforce" => {
                    enforced = level(value).is_some();
                    policy.enforce.level = level(value).unwrap_or_else(|| {
                        fault(LEVELS);
                        Level::Restricted
                    });
                }
                "warn" => {
                    warn_level = true;
                    policy.warn.level = level(value).unwrap_or_else(|| {
                        fault(LEVELS);
                        Level::Privileged
                    });
                }
                "enforce-version" => policy.enforce.version = version(value, fault),
                "warn-version" => {
                    warn_version = true;
                    policy.warn.version = version(value, fault);
                }
                // Audit annotations are not kept, but their labels are validated.
                "audit" if level(value).is_none() => fault(LEVELS),
                "audit-version" => {
                    version(value, fault);
                }
                _ => {}
            }
        }
        // The author of a template should get the warnings of its pods.
        if enforced && !warn_level && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !warn_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, faults)
    }
}

const LEVELS: &str = "must be one of privileged, baseline, restricted";
const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn version(text: &str, fault: impl FnOnce(&str)) -> Version {
    if text == "latest" {
        return Version::Latest;
    }
    let minor = text.strip_prefix("v1.").filter(|minor| {
        minor.bytes().all(|byte| byte.is_ascii_digit()) && (*minor == "0" || !minor.starts_with('0'))
    });
    match minor.and_then(|minor| minor.parse().ok()) {
        Some(minor) => Version::Minor(minor),
        None => {
            fault(VERSIONS);
            Version::Latest
        }
    }
}
