//! Taints of nodes and tolerations of pods.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::intern::{self, Interner, Repeats};
use crate::time::{self, Timestamp};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    #[serde(deserialize_with = "intern::text")]
    pub key: SmolStr,
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub value: SmolStr,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: SmolStr,
    /// When a `NoExecute` taint was set.
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// The taint key; empty with operator `Exists` for all keys.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub key: SmolStr,
    /// `Exists`, `Equal` (the default), `Lt` or `Gt`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub operator: SmolStr,
    /// The taint value under `Equal`.
    #[serde(deserialize_with = "intern::text", skip_serializing_if = "SmolStr::is_empty")]
    pub value: SmolStr,
    /// The effect tolerated; empty for all.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub effect: SmolStr,
    /// How long a `NoExecute` taint is tolerated; absent: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Repeats for Toleration {
    fn table() -> &'static Interner<[Self]> {
        static TABLE: Interner<[Toleration]> = Interner::new();
        &TABLE
    }
}

impl Toleration {
    /// `comparisons`: whether the numeric operators `Lt` and `Gt` are enabled.
    pub fn tolerates(&self, taint: &Taint, comparisons: bool) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        effect && key && self.tolerates_value(&taint.value, comparisons)
    }

    fn tolerates_value(&self, value: &str, comparisons: bool) -> bool {
        match self.operator.as_str() {
            "" | "Equal" => self.value == value,
            "Exists" => true,
            operator @ ("Lt" | "Gt") if comparisons => {
                let (Some(own), Some(taint)) = (integer(&self.value), integer(value)) else {
                    return false;
                };
                if operator == "Lt" { taint < own } else { taint > own }
            }
            _ => false,
        }
    }
}

/// A decimal integer in its only form: no plus sign, no leading zeros.
fn integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_answer_taints_by_effect_key_and_operator() {
        let taint =
            Taint { key: "k".into(), value: "5".into(), effect: "NoExecute".into(), time_added: None };
        #[rustfmt::skip]
        let table = [
            // key  operator    value  effect        comparisons  tolerated
            ("",    "Exists",   "",    "",           false,       true),
            ("k",   "Exists",   "",    "NoExecute",  false,       true),
            ("k",   "Exists",   "",    "NoSchedule", false,       false),
            ("k",   "",         "5",   "",           false,       true),
            ("k",   "Equal",    "6",   "",           false,       false),
            ("j",   "Exists",   "",    "",           false,       false),
            ("k",   "Lt",       "6",   "",           true,        true),
            ("k",   "Lt",       "6",   "",           false,       false),
            ("k",   "Gt",       "4",   "",           true,        true),
            ("k",   "Gt",       "5",   "",           true,        false),
            ("k",   "Gt",       "four", "",          true,        false),
            ("k",   "Gt",       "04",  "",           true,        false),
            ("k",   "Nonsense", "5",   "",           true,        false),
        ];
        for (key, operator, value, effect, comparisons, want) in table {
            let toleration = Toleration {
                key: key.into(),
                operator: operator.into(),
                value: value.into(),
                effect: effect.into(),
                toleration_seconds: None,
            };
            assert_eq!(toleration.tolerates(&taint, comparisons), want, "{toleration:?}");
        }
    }
}
