//! What PersistentVolumeClaims use of a quota.

use std::sync::Arc;

use flyball_api::{PersistentVolumeClaim, Quantity, ResourceList};

use super::Features;
use crate::resourcequota::names::OfVolumeClaims;
use crate::resourcequota::scopes::Scopes;

/// The annotation for the storage class, which takes precedence over the field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What the claims in scope use of each of `names`.
pub fn usage(
    claims: &[Arc<PersistentVolumeClaim>],
    names: &[&str],
    scopes: &Scopes,
    features: Features,
) -> ResourceList {
    let in_scope = |claim: &&Arc<PersistentVolumeClaim>| {
        scopes.is_empty() || features.volume_attributes && scopes.hold_claim(claim)
    };
    let claims: Vec<&Arc<PersistentVolumeClaim>> = claims.iter().filter(in_scope).collect();
    let sum = |of: OfVolumeClaims<'_>| -> Quantity {
        let of_class = claims.iter().filter(|claim| of.class.is_none_or(|wanted| class(claim) == wanted));
        match of.bytes {
            true => of_class.map(|claim| bytes(claim, features)).sum(),
            false => Quantity::new(i64::try_from(of_class.count()).unwrap_or(i64::MAX)),
        }
    };
    names.iter().filter_map(|name| Some((*name, sum(OfVolumeClaims::parse(name)?)))).collect()
}

/// The storage class of a claim; empty for none.
fn class(claim: &PersistentVolumeClaim) -> &str {
    let old = claim.metadata.annotations.get(CLASS);
    old.or(claim.spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// The bytes of a claim: its request, or what is allocated while an expansion is being reverted.
fn bytes(claim: &PersistentVolumeClaim, features: Features) -> Quantity {
    let Some(asked) = claim.spec.resources.requests.get("storage").map(whole) else { return Quantity::ZERO };
    let given = claim.status.allocated_resources.get("storage").filter(|_| features.volume_recovery);
    given.map(whole).filter(|given| *given > asked).unwrap_or(asked)
}

/// Quotas count whole bytes.
fn whole(amount: Quantity) -> Quantity {
    let rounded = Quantity::new(amount.value()).with_format(amount.format());
    if rounded == amount { amount } else { rounded }
}
