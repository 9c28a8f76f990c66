//! The bounds on the number of pods during a rollout. Pure.

use flyball_api::deployment::DeploymentSpec;
use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::{IntOrString, deployment};
use smol_str::SmolStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    RollingUpdate,
    /// All old pods are deleted before any new pod is created.
    Recreate,
}

/// Why a strategy is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStrategy {
    #[error("the strategy is {0:?}; RollingUpdate and Recreate are known")]
    Unknown(SmolStr),
    /// A bound is neither a number nor a percentage.
    #[error("{field}")]
    Bound {
        field: &'static str,
        #[source]
        source: InvalidPercentage,
    },
}

/// The strategy and its bounds in numbers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub strategy: Strategy,
    /// `spec.replicas`.
    pub desired: i64,
    /// The maximum number of pods above that.
    pub surge: i64,
    /// The maximum number of unavailable pods.
    pub unavailable: i64,
}

impl Limits {
    /// Computes the bounds. If both round to zero, no step would be possible: then one pod may be unavailable, as a surge
    /// could exceed a quota.
    pub fn of(spec: &DeploymentSpec) -> Result<Self, InvalidStrategy> {
        let desired = i64::from(spec.replicas.unwrap_or(1));
        match spec.strategy.type_.as_str() {
            deployment::RECREATE => {
                Ok(Self { strategy: Strategy::Recreate, desired, surge: 0, unavailable: 0 })
            }
            deployment::ROLLING_UPDATE => {
                let bounds = spec.strategy.rolling_update.clone().unwrap_or_default();
                let surge = resolve("maxSurge", bounds.max_surge, desired, Rounding::Up)?;
                let unavailable =
                    match resolve("maxUnavailable", bounds.max_unavailable, desired, Rounding::Down)? {
                        0 if surge == 0 => 1,
                        number => number,
                    };
                let unavailable = unavailable.min(desired);
                Ok(Self { strategy: Strategy::RollingUpdate, desired, surge, unavailable })
            }
            other => Err(InvalidStrategy::Unknown(other.into())),
        }
    }

    /// The maximum number of pods.
    pub fn most(&self) -> i64 {
        self.desired + self.surge
    }

    /// The minimum number of available pods.
    pub fn least_available(&self) -> i64 {
        self.desired - self.unavailable
    }

    /// Whether this is a rolling update.
    pub fn is_rolling(&self) -> bool {
        self.strategy == Strategy::RollingUpdate
    }
}

fn resolve(
    field: &'static str,
    bound: Option<IntOrString>,
    desired: i64,
    rounding: Rounding,
) -> Result<i64, InvalidStrategy> {
    let resolved = bound.unwrap_or_default().resolve(desired, rounding);
    // A percentage has no upper limit, but the number of pods has.
    resolved
        .map(|number| number.min(i64::from(i32::MAX)))
        .map_err(|source| InvalidStrategy::Bound { field, source })
}
