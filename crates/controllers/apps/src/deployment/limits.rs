//! How far the number of pods may stray from what is wanted while old pods are replaced.

use flyball_api::deployment::DeploymentSpec;
use flyball_api::intstr::{InvalidPercentage, Rounding};
use flyball_api::{IntOrString, deployment};
use smol_str::SmolStr;

/// How old pods are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    RollingUpdate,
    /// All old ones go before any new one comes.
    Recreate,
}

/// Why a strategy cannot be followed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStrategy {
    #[error("the strategy is {0:?}; RollingUpdate and Recreate are known")]
    Unknown(SmolStr),
    /// A bound makes no sense.
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
    /// How old pods are replaced.
    pub strategy: Strategy,
    /// How many pods are wanted.
    pub desired: i64,
    /// How many more there may be.
    pub surge: i64,
    /// How many may be missing.
    pub unavailable: i64,
}

impl Limits {
    /// Works out the bounds. Both may round down to nothing, and then no step would be allowed: one pod may
    /// be missing then, since surging could fail for want of quota.
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

    /// The most pods there may be.
    pub fn most(&self) -> i64 {
        self.desired + self.surge
    }

    /// The fewest pods that must be available.
    pub fn least_available(&self) -> i64 {
        self.desired - self.unavailable
    }

    /// Whether old pods are replaced step by step.
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
    // A percentage may be as large as one likes; a number of pods may not.
    resolved
        .map(|number| number.min(i64::from(i32::MAX)))
        .map_err(|source| InvalidStrategy::Bound { field, source })
}
