//! `flyball clock`: what the clock of a cluster shows, and how it is moved.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::time::parse_duration;
use flyball_playground::timeline::{Dial, FASTEST, TimeError};
use flyball_runtime::Clock;
use serde::{Deserialize, Serialize};

use crate::args;
use crate::lines::say;
use crate::named;
use crate::named::channel::Request;

const DAY: u64 = 86_400;

/// What a clock shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    now: Timestamp,
    /// Seconds that it is ahead of the machine's.
    ahead: i64,
    speed: u32,
}

pub(crate) async fn run(args: &args::Clock) -> anyhow::Result<()> {
    let (name, mut connection) = named::running(args.cluster.name.as_ref()).await?;
    let shown: Shown = connection.request(&Request::Clock { by: args.by, speed: args.speed }).await?;
    say!("{}", text(name.as_str(), &shown));
    Ok(())
}

/// Moves a clock, sets its speed, or neither.
pub(crate) async fn turn(dial: &Dial, by: Option<Duration>, speed: Option<u32>) -> Result<Shown, TimeError> {
    if let Some(by) = by {
        dial.advance(by).await?;
    }
    if let Some(speed) = speed {
        dial.set_speed(speed).await?;
    }
    let now = dial.now();
    let ahead = now.as_second().saturating_sub(Clock::system().now().as_second());
    Ok(Shown { now, ahead, speed: dial.speed() })
}

fn text(name: &str, shown: &Shown) -> String {
    let ahead = match u64::try_from(shown.ahead) {
        // A second is lost on the way here.
        Ok(0..=1) | Err(_) => "the time of this machine".to_owned(),
        Ok(ahead) => format!("{} ahead of this machine", span(ahead)),
    };
    let speed = match shown.speed {
        1 => String::new(),
        speed => format!(", and goes {speed} times as fast"),
    };
    format!("The clock of {name:?} shows {:.0}, {ahead}{speed}.", shown.now)
}

/// `1d 2h 5s`
fn span(seconds: u64) -> String {
    let parts =
        [(seconds / DAY, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts: Vec<String> =
        parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    parts.join(" ")
}

/// The argument `+1h30m` or `+2d`.
pub(crate) fn forward(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("the clock does not go back: what has happened stays".to_owned());
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Some(days) = plain.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()) {
        return Ok(Duration::from_secs(days.saturating_mul(DAY)));
    }
    let parsed = parse_duration(plain).ok().and_then(|by| Duration::try_from(by).ok());
    parsed.ok_or_else(|| format!("{text:?} is not a time such as +90s, +1h30m or +2d"))
}

/// The argument `60x`.
pub(crate) fn speed(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let number = number.filter(|speed| (1..=FASTEST).contains(speed));
    number.ok_or_else(|| format!("a whole number from 1x to {FASTEST}x is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_forward_only() {
        #[rustfmt::skip]
        let table = [
            ("+1h",    Ok(3600)),
            ("1h30m",  Ok(5400)),
            ("+2d",    Ok(172_800)),
            ("-1h",    Err("the clock does not go back")),
            ("soon",   Err("\"soon\" is not a time such as +90s")),
            ("+",      Err("\"+\" is not a time")),
            ("1",      Err("\"1\" is not a time")),
        ];
        for (given, want) in table {
            match (forward(given), want) {
                (Ok(by), Ok(seconds)) => assert_eq!(by.as_secs(), seconds, "{given}"),
                (Err(said), Err(why)) => assert!(said.starts_with(why), "{given}: {said}"),
                (got, _) => panic!("{given}: {got:?}"),
            }
        }
    }

    #[test]
    fn speeds_are_whole_and_bounded() {
        assert_eq!((speed("60x"), speed("1")), (Ok(60), Ok(1)));
        for wrong in ["0x", "10001x", "-1x", "1.5x", "x", ""] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_clock_says_how_far_ahead_it_is() {
        let shown =
            |ahead, speed| text("a", &Shown { now: "2026-03-01T12:00:00.5Z".parse().unwrap(), ahead, speed });
        assert_eq!(shown(0, 1), "The clock of \"a\" shows 2026-03-01T12:00:00Z, the time of this machine.");
        let ahead = "The clock of \"a\" shows 2026-03-01T12:00:00Z, 1d 1h 5s ahead of this machine, and goes 60 times as fast.";
        assert_eq!(shown(DAY as i64 + 3605, 60), ahead);
    }
}
