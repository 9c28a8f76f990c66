//! The signatures of `cluster-info`. Pure.

use std::collections::BTreeMap;

use flyball_api::{ConfigMap, Labels};
use flyball_runtime::{ErrorKinds, Plan, Write};

use super::jws;
use crate::bootstrap_token::SigningToken;

const CONTENT: &str = "kubeconfig";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// Replaces the signatures of `info` by those of `tokens`, if it has others.
pub fn plan(info: &ConfigMap, tokens: impl IntoIterator<Item = SigningToken>) -> Plan {
    let why = "it must have the signatures of all signing bootstrap tokens, and no others";
    let replace = |signed| Write::replace::<ConfigMap>(&signed).why(why).ignore(ErrorKinds::NOT_FOUND);
    Plan::of(resigned(info, tokens).map(replace))
}

/// The ConfigMap with the right signatures; `None` if it has them, or if there is nothing to sign.
fn resigned(info: &ConfigMap, tokens: impl IntoIterator<Item = SigningToken>) -> Option<ConfigMap> {
    let content = info.data.get(CONTENT)?;
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    for token in tokens {
        let name = format!("{SIGNATURE_PREFIX}{}", token.id);
        wanted.entry(name).or_insert_with(|| jws::detached(content, &token));
    }
    let is_signature = |key: &str| key.starts_with(SIGNATURE_PREFIX);
    let present = info.data.iter().filter(|(key, _)| is_signature(key));
    if present.eq(wanted.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
        return None;
    }
    let others = info.data.iter().filter(|(key, _)| !is_signature(key));
    let others = others.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some(ConfigMap { data: Labels::from_iter(others.chain(wanted)), ..info.clone() })
}
