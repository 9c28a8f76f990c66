//! How fast an autoscaler may go: stabilisation over recent recommendations, policies on each step, and the bounds of
//! its spec. Pure.
//!
//! Upstream: `normalizeDesiredReplicas` and `normalizeDesiredReplicasWithBehaviors`.

use flyball_api::Timestamp;
use flyball_api::horizontal_pod_autoscaler::{Behavior, ScalingPolicy, ScalingRules};
use jiff::SignedDuration;
use smol_str::SmolStr;

use super::history::{History, Past, before, remember};

/// Between which numbers of replicas, and at what pace.
#[derive(Debug, Clone, Copy)]
pub struct Pace<'a> {
    pub min: i32,
    pub max: i32,
    /// What the user says about pace.
    pub behavior: Option<&'a Behavior>,
    /// How long what was recommended holds back a step down, unless the behaviour says otherwise.
    pub downscale_window: SignedDuration,
    pub now: Timestamp,
}

/// The replicas to aim at, and what has a part in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paced {
    pub replicas: i32,
    /// Whether recent recommendations hold it back.
    pub held_back: HeldBack,
    pub limit: Limit,
    /// Whether that limit is what made it other than it would be.
    pub is_limited: bool,
}

/// Whether recent recommendations hold a step back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    Not,
    Up,
    Down,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Nothing,
    UpRate,
    DownRate,
    /// The most replicas there may be.
    Max,
    /// The fewest replicas there may be.
    Min,
}

/// Without a behaviour an autoscaler may double its replicas at each step, or go to this many.
const ALWAYS_UP_TO: i32 = 4;

impl Pace<'_> {
    /// Brings what the measures recommend into step, and remembers it.
    pub fn keep(&self, current: i32, recommended: i32, history: &mut History) -> Paced {
        let (stabilized, held_back) = match self.behavior {
            None => self.hold_down(recommended, history),
            Some(behavior) => self.hold(behavior, current, recommended, history),
        };
        let (replicas, limit) = match self.behavior {
            None => self.bound(current, stabilized),
            Some(behavior) => self.follow(behavior, current, stabilized, history),
        };
        Paced { replicas, held_back, limit, is_limited: replicas != stabilized }
    }

    /// The highest of the recent recommendations.
    fn hold_down(&self, recommended: i32, history: &mut History) -> (i32, HeldBack) {
        let cutoff = before(self.now, self.downscale_window);
        let recent = history.recommended.iter().filter(|past| past.at >= cutoff);
        let highest = recent.map(|past| past.replicas).fold(recommended, i32::max);
        let new = Past { replicas: recommended, at: self.now };
        remember(&mut history.recommended, new, |past| past.at < cutoff);
        (highest, if highest == recommended { HeldBack::Not } else { HeldBack::Down })
    }

    /// No higher than the lowest and no lower than the highest recommendation of the windows for either direction.
    fn hold(
        &self,
        behavior: &Behavior,
        current: i32,
        recommended: i32,
        history: &mut History,
    ) -> (i32, HeldBack) {
        let cutoff = |rules: Option<&ScalingRules>, otherwise| {
            let window = rules.and_then(|rules| rules.stabilization_window_seconds);
            before(self.now, window.map_or(otherwise, |seconds| SignedDuration::from_secs(seconds.into())))
        };
        let up = cutoff(behavior.scale_up.as_ref(), SignedDuration::ZERO);
        let whole_seconds = SignedDuration::from_secs(self.downscale_window.as_secs());
        let down = cutoff(behavior.scale_down.as_ref(), whole_seconds);
        let since = |cutoff| history.recommended.iter().filter(move |past| past.at > cutoff);
        let lowest = since(up).map(|past| past.replicas).fold(recommended, i32::min);
        let highest = since(down).map(|past| past.replicas).fold(recommended, i32::max);
        let new = Past { replicas: recommended, at: self.now };
        remember(&mut history.recommended, new, |past| past.at < up && past.at < down);
        let stabilized = current.max(lowest).min(highest);
        let held_back = match stabilized == recommended {
            true => HeldBack::Not,
            false if recommended >= current => HeldBack::Up,
            false => HeldBack::Down,
        };
        (stabilized, held_back)
    }

    fn bound(&self, current: i32, wanted: i32) -> (i32, Limit) {
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

    fn follow(&self, behavior: &Behavior, current: i32, wanted: i32, history: &History) -> (i32, Limit) {
        let upwards = Direction::Up.rules(behavior);
        let downwards = Direction::Down.rules(behavior);
        if wanted > current {
            let rate = self.rate(Direction::Up, &upwards, current, history).max(current);
            let (most, limit) = if self.max > rate { (rate, Limit::UpRate) } else { (self.max, Limit::Max) };
            if wanted > most {
                return (most, limit);
            }
        } else if wanted < current {
            let rate = self.rate(Direction::Down, &downwards, current, history).min(current);
            let (least, limit) =
                if self.min < rate { (rate, Limit::DownRate) } else { (self.min, Limit::Min) };
            if wanted < least {
                return (least, limit);
            }
        }
        (wanted, Limit::Nothing)
    }

    /// How far the policies let it go in one direction.
    fn rate(&self, direction: Direction, rules: &ScalingRules, current: i32, history: &History) -> i32 {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    /// The rules for it. The server fills in those that the user left out; these are the ones it would.
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

    /// How far a policy lets it go from what there was at the start of its period.
    fn bound(self, policy: &ScalingPolicy, start: i32) -> Option<i32> {
        let times = |factor: f64| f64::from(start) * factor;
        let part = f64::from(policy.value) / 100.0;
        match (policy.type_.as_str(), self) {
            ("Pods", Self::Up) => Some(start.saturating_add(policy.value)),
            ("Pods", Self::Down) => Some(start.saturating_sub(policy.value)),
            // Rounded up, or a few replicas would never become more.
            ("Percent", Self::Up) => Some(times(1.0 + part).ceil() as i32),
            ("Percent", Self::Down) => Some(times(1.0 - part) as i32),
            _ => None,
        }
    }
}

fn period(policy: &ScalingPolicy) -> SignedDuration {
    SignedDuration::from_secs(policy.period_seconds.into())
}

/// The longest period of any policy for a step from one number of replicas to another.
pub fn longest_period(behavior: &Behavior, from: i32, to: i32) -> SignedDuration {
    let direction = if to > from { Direction::Up } else { Direction::Down };
    direction.rules(behavior).policies.iter().map(period).max().unwrap_or_default()
}
