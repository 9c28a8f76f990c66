//! Limits a recommendation: by the stabilization windows, by the scaling policies, and by the bounds of the spec. Pure.
//!
//! Upstream: `normalizeDesiredReplicas` and `normalizeDesiredReplicasWithBehaviors`.

use flyball_api::Timestamp;
use flyball_api::horizontal_pod_autoscaler::{Behavior, ScalingPolicy, ScalingRules};
use jiff::SignedDuration;
use smol_str::SmolStr;

use super::history::{History, Past, before, remember};

/// The bounds and the behavior of an autoscaler.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    pub min: i32,
    pub max: i32,
    pub behavior: Option<&'a Behavior>,
    /// The stabilization window for scaling down, unless the behavior sets one.
    pub downscale_window: SignedDuration,
    pub now: Timestamp,
}

/// The number of replicas to set, and what limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Normalized {
    pub replicas: i32,
    /// The earlier recommendation that counts instead of the new one.
    pub held: Option<Held>,
    pub limit: Limit,
    /// Whether the limit has changed the number.
    pub is_limited: bool,
}

/// An earlier recommendation that is still within its stabilization window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The direction that it stabilizes.
    pub direction: Direction,
    pub replicas: i32,
    /// The end of its stabilization window.
    pub until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Nothing,
    UpRate,
    DownRate,
    /// `spec.maxReplicas`.
    Max,
    /// `spec.minReplicas`.
    Min,
}

/// Without a behavior, an autoscaler may double the replicas in each sync, and always scale up to this many.
const ALWAYS_UP_TO: i32 = 4;

impl Limits<'_> {
    /// Limits a recommendation, and remembers it.
    pub fn normalize(&self, current: i32, recommended: i32, history: &mut History) -> Normalized {
        let (stabilized, held) = match self.behavior {
            None => self.stabilize_down(recommended, history),
            Some(behavior) => self.stabilize(behavior, current, recommended, history),
        };
        let (replicas, limit) = match self.behavior {
            None => self.limit_rate(current, stabilized),
            Some(behavior) => self.limit_by_policies(behavior, current, stabilized, history),
        };
        Normalized { replicas, held, limit, is_limited: replicas != stabilized }
    }

    /// The highest of the recent recommendations.
    fn stabilize_down(&self, recommended: i32, history: &mut History) -> (i32, Option<Held>) {
        let cutoff = before(self.now, self.downscale_window);
        let recent = history.recommended.iter().filter(|past| past.at >= cutoff);
        let new = Past { replicas: recommended, at: self.now };
        let highest = recent.copied().fold(new, highest);
        remember(&mut history.recommended, new, |past| past.at < cutoff);
        let held = held(Direction::Down, highest, self.downscale_window);
        (highest.replicas, (highest.replicas != recommended).then_some(held))
    }

    /// Up no higher than the lowest, and down no lower than the highest recommendation within the window for the direction.
    fn stabilize(
        &self,
        behavior: &Behavior,
        current: i32,
        recommended: i32,
        history: &mut History,
    ) -> (i32, Option<Held>) {
        let window = |rules: Option<&ScalingRules>, otherwise| {
            let window = rules.and_then(|rules| rules.stabilization_window_seconds);
            window.map_or(otherwise, |seconds| SignedDuration::from_secs(seconds.into()))
        };
        let up = window(behavior.scale_up.as_ref(), SignedDuration::ZERO);
        let whole_seconds = SignedDuration::from_secs(self.downscale_window.as_secs());
        let down = window(behavior.scale_down.as_ref(), whole_seconds);
        let (up_cutoff, down_cutoff) = (before(self.now, up), before(self.now, down));
        let since = |cutoff| history.recommended.iter().copied().filter(move |past| past.at > cutoff);
        let new = Past { replicas: recommended, at: self.now };
        let lowest = since(up_cutoff).fold(new, lowest);
        let highest = since(down_cutoff).fold(new, highest);
        remember(&mut history.recommended, new, |past| past.at < up_cutoff && past.at < down_cutoff);
        let stabilized = current.max(lowest.replicas).min(highest.replicas);
        let held = match recommended >= current {
            true => held(Direction::Up, lowest, up),
            false => held(Direction::Down, highest, down),
        };
        (stabilized, (stabilized != recommended).then_some(held))
    }

    fn limit_rate(&self, current: i32, wanted: i32) -> (i32, Limit) {
        let rate = current.saturating_mul(2).max(ALWAYS_UP_TO);
        let (most, limit) = if self.max > rate { (rate, Limit::UpRate) } else { (self.max, Limit::Max) };
        if wanted < self.min {
            (self.min, Limit::Min)
        } else if wanted > most {
            (most, limit)
        } else {
            (wanted, Limit::Nothing)
        }
    }

    fn limit_by_policies(
        &self,
        behavior: &Behavior,
        current: i32,
        wanted: i32,
        history: &History,
    ) -> (i32, Limit) {
        let upwards = Direction::Up.rules(behavior);
        let downwards = Direction::Down.rules(behavior);
        if wanted > current {
            let rate = self.policy_limit(Direction::Up, &upwards, current, history).max(current);
            let (most, limit) = if self.max > rate { (rate, Limit::UpRate) } else { (self.max, Limit::Max) };
            if wanted > most {
                return (most, limit);
            }
        } else if wanted < current {
            let rate = self.policy_limit(Direction::Down, &downwards, current, history).min(current);
            let (least, limit) =
                if self.min < rate { (rate, Limit::DownRate) } else { (self.min, Limit::Min) };
            if wanted < least {
                return (least, limit);
            }
        }
        (wanted, Limit::Nothing)
    }

    /// The furthest number of replicas that the policies for one direction allow.
    fn policy_limit(
        &self,
        direction: Direction,
        rules: &ScalingRules,
        current: i32,
        history: &History,
    ) -> i32 {
        let select = rules.select_policy.as_deref().unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let bounds = rules.policies.iter().filter_map(|policy| {
            let start = history.at_start_of(period(policy), current, self.now);
            direction.bound(policy, start)
        });
        // The largest change is the highest bound upwards and the lowest downwards.
        let bound =
            if (direction == Direction::Up) == (select != "Min") { bounds.max() } else { bounds.min() };
        bound.unwrap_or(current)
    }
}

/// The one with more replicas; of equal ones the later.
fn highest(one: Past, other: Past) -> Past {
    if (other.replicas, other.at) > (one.replicas, one.at) { other } else { one }
}

/// The one with fewer replicas; of equal ones the later.
fn lowest(one: Past, other: Past) -> Past {
    let is_lower = other.replicas < one.replicas || (other.replicas == one.replicas && other.at > one.at);
    if is_lower { other } else { one }
}

fn held(direction: Direction, past: Past, window: SignedDuration) -> Held {
    let until = past.at.checked_add(window).unwrap_or(Timestamp::MAX);
    Held { direction, replicas: past.replicas, until }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

impl Direction {
    /// The rules for it, with the server's defaults for those that are not set.
    fn rules(self, behavior: &Behavior) -> ScalingRules {
        let given = match self {
            Self::Up => &behavior.scale_up,
            Self::Down => &behavior.scale_down,
        };
        let policy =
            |type_, value| ScalingPolicy { type_: SmolStr::new_static(type_), value, period_seconds: 15 };
        given.clone().unwrap_or_else(|| ScalingRules {
            policies: match self {
                Self::Up => vec![policy("Pods", 4), policy("Percent", 100)],
                Self::Down => vec![policy("Percent", 100)],
            },
            ..ScalingRules::default()
        })
    }

    /// The furthest number that a policy allows, from the number of replicas at the start of its period.
    fn bound(self, policy: &ScalingPolicy, start: i32) -> Option<i32> {
        let times = |factor: f64| f64::from(start) * factor;
        let part = f64::from(policy.value) / 100.0;
        match (policy.type_.as_str(), self) {
            ("Pods", Self::Up) => Some(start.saturating_add(policy.value)),
            ("Pods", Self::Down) => Some(start.saturating_sub(policy.value)),
            // Rounded up, as otherwise a few replicas could never become more.
            ("Percent", Self::Up) => Some(times(1.0 + part).ceil() as i32),
            ("Percent", Self::Down) => Some(times(1.0 - part) as i32),
            _ => None,
        }
    }
}

fn period(policy: &ScalingPolicy) -> SignedDuration {
    SignedDuration::from_secs(policy.period_seconds.into())
}

/// The longest period of the policies that apply to a rescale.
pub fn longest_period(behavior: &Behavior, from: i32, to: i32) -> SignedDuration {
    let direction = if to > from { Direction::Up } else { Direction::Down };
    direction.rules(behavior).policies.iter().map(period).max().unwrap_or_default()
}
