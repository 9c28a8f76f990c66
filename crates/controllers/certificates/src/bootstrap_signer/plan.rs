//! Which signatures `cluster-info` should have. Pure.

use std::collections::BTreeMap;

use flyball_api::{ConfigMap, Labels};

use super::jws;
use crate::bootstrap_token::SigningToken;

const CONTENT: &str = "kubeconfig";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// The ConfigMap with the right signatures; none if it has them, or if there is nothing to sign.
pub fn resigned(info: &ConfigMap, tokens: impl IntoIterator<Item = SigningToken>) -> Option<ConfigMap> {
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
