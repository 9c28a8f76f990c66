//! What a budget demands: how many pods there should be, and how many of them must be healthy.

use std::sync::Arc;

use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudgetSpec;
use flyball_api::{IntOrString, OwnerReference};

/// What a budget asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand<'a> {
    Nothing,
    /// This many healthy pods, however many there are.
    Healthy(i32),
    /// This part of all pods that there should be.
    Part(&'a IntOrString),
    /// All pods that there should be, but for these.
    AllBut(&'a IntOrString),
}

/// How many pods there should be, and how many of them must be healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Pods that should be there.
    pub expected: i32,
    /// Pods that must be healthy.
    pub desired: i32,
}

impl<'a> Demand<'a> {
    /// The demand of a budget. The server sees to it that at most one bound is given.
    pub fn of(spec: &'a PodDisruptionBudgetSpec) -> Self {
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(missing), _) => Self::AllBut(missing),
            (None, Some(IntOrString::Int(number))) => Self::Healthy(*number),
            (None, Some(part)) => Self::Part(part),
            (None, None) => Self::Nothing,
        }
    }

    /// Whether it depends on the scale of the pods' owners.
    pub fn needs_scale(self) -> bool {
        matches!(self, Self::Part(_) | Self::AllBut(_))
    }

    /// The numbers for `pods` pods, whose owners want `scale` of them.
    pub fn quota(self, pods: usize, scale: i32) -> Result<Quota, InvalidPercentage> {
        let of_scale = |part: &IntOrString| part.resolve(scale.into(), Rounding::Up).map(narrow);
        let desired = match self {
            Self::Nothing => return Ok(Quota { expected: 0, desired: 0 }),
            Self::Healthy(desired) => {
                return Ok(Quota { expected: i32::try_from(pods).unwrap_or(i32::MAX), desired });
            }
            Self::Part(part) => of_scale(part)?,
            Self::AllBut(missing) => scale.saturating_sub(of_scale(missing)?).max(0),
        };
        Ok(Quota { expected: scale, desired })
    }
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Who answers for how many pods there should be.
#[derive(Debug, Default, PartialEq)]
pub struct Answerable<'a> {
    /// Each controlling owner once, with its first pod.
    pub owners: Vec<(&'a OwnerReference, &'a Pod)>,
    /// The names of pods that nobody controls.
    pub unmanaged: Vec<&'a str>,
}

/// The owners of some pods, in the pods' order.
pub fn answerable(pods: &[Arc<Pod>]) -> Answerable<'_> {
    let mut found = Answerable::default();
    let mut known = std::collections::BTreeSet::new();
    for pod in pods {
        match pod.metadata.controller() {
            None => found.unmanaged.push(&pod.metadata.name),
            Some(owner) if known.insert(owner.uid.to_smol_str()) => found.owners.push((owner, pod)),
            Some(_) => {}
        }
    }
    found
}
