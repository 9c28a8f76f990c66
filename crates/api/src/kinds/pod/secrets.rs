//! The places of a pod that refer to a secret. Only the names are decoded.

use serde::Deserialize;
use smol_str::SmolStr;

use super::Named;
use crate::de::null_default;
use crate::{RawJson, intern};

/// One variable of a container's environment.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EnvWire {
    value_from: Option<ValueFromWire>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueFromWire {
    secret_key_ref: Option<Named>,
}

impl EnvWire {
    pub(super) fn secret(self) -> Option<SmolStr> {
        Some(self.value_from?.secret_key_ref?.name)
    }
}

/// Many variables of a container's environment at once.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EnvFromWire {
    secret_ref: Option<Named>,
}

impl EnvFromWire {
    pub(super) fn secret(self) -> Option<SmolStr> {
        Some(self.secret_ref?.name)
    }
}

/// A volume made of a secret.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SecretWire {
    #[serde(deserialize_with = "intern::text")]
    pub(super) secret_name: SmolStr,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ProjectedWire {
    #[serde(deserialize_with = "null_default")]
    sources: Vec<ProjectionWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectionWire {
    secret: Option<Named>,
}

impl ProjectedWire {
    pub(super) fn secrets(&self) -> impl Iterator<Item = SmolStr> {
        self.sources.iter().filter_map(|source| Some(source.secret.as_ref()?.name.clone()))
    }
}

/// A volume whose driver needs a secret.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SecretRefWire {
    pub(super) secret_ref: Option<Named>,
}

/// The secret of a volume that is kept as served.
pub(super) fn named_in(source: &RawJson) -> Option<SmolStr> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Source {
        secret_name: Option<SmolStr>,
        secret_ref: Option<Named>,
    }
    let source: Source = source.to().ok()?;
    source.secret_name.or_else(|| Some(source.secret_ref?.name))
}
