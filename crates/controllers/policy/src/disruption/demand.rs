//! The bounds of a budget: how many pods there should be, and how many of them must be healthy. Pure.

use std::sync::Arc;

use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudgetSpec;
use flyball_api::{IntOrString, OwnerReference};

/// The bound in a budget's spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand<'a> {
    None,
    /// `minAvailable` as a number.
    Healthy(i32),
    /// `minAvailable` as a percentage of the scale.
    Part(&'a IntOrString),
    /// `maxUnavailable`.
    AllBut(&'a IntOrString),
}

/// How many pods there should be, and how many of them must be healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Required {
    /// Pods that there should be.
    pub expected: i32,
    /// Pods that must be healthy.
    pub desired: i32,
}

impl Required {
    /// How many pods may be disrupted. None while no pod is expected, so that the first pods are protected until they are
    /// counted.
    pub fn allowed(self, healthy: i32) -> i32 {
        if self.expected <= 0 { 0 } else { healthy.saturating_sub(self.desired).max(0) }
    }
}

impl<'a> Demand<'a> {
    /// The server validates that at most one bound is given.
    pub fn of(spec: &'a PodDisruptionBudgetSpec) -> Self {
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(missing), _) => Self::AllBut(missing),
            (None, Some(IntOrString::Int(number))) => Self::Healthy(*number),
            (None, Some(part)) => Self::Part(part),
            (None, None) => Self::None,
        }
    }

    /// Whether it depends on the scale of the owners.
    pub fn needs_scale(self) -> bool {
        matches!(self, Self::Part(_) | Self::AllBut(_))
    }

    /// The numbers for `pods` pods, of which their owners want `scale`.
    pub fn required(self, pods: usize, scale: i32) -> Result<Required, InvalidPercentage> {
        let of_scale = |part: &IntOrString| part.resolve(scale.into(), Rounding::Up).map(narrow);
        let desired = match self {
            Self::None => return Ok(Required { expected: 0, desired: 0 }),
            Self::Healthy(desired) => {
                return Ok(Required { expected: i32::try_from(pods).unwrap_or(i32::MAX), desired });
            }
            Self::Part(part) => of_scale(part)?,
            Self::AllBut(missing) => scale.saturating_sub(of_scale(missing)?).max(0),
        };
        Ok(Required { expected: scale, desired })
    }
}

fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// The owners of a budget's pods.
#[derive(Debug, Default, PartialEq)]
pub struct PodOwners<'a> {
    /// Each controller once, with its first pod.
    pub owners: Vec<(&'a OwnerReference, &'a Pod)>,
    /// The names of pods without a controller.
    pub unmanaged: Vec<&'a str>,
}

/// The owners of pods, in the order of the pods.
pub fn owners_of(pods: &[Arc<Pod>]) -> PodOwners<'_> {
    let mut found = PodOwners::default();
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
