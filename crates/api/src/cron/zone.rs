//! Time zones of schedules, from the bundled database.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(String);

#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of this name, which is case-sensitive. `local` is the zone that the name `Local` stands for.
    pub fn load(name: &str, local: &Zone) -> Result<Self, UnknownZone> {
        match name {
            "" | "UTC" => return Ok(Self::UTC),
            "Local" => return Ok(local.clone()),
            _ => {}
        }
        let found = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        found.map(Self).ok_or_else(|| UnknownZone(name.to_owned()))
    }

    /// The local time, given seconds since 1970.
    pub fn wall(&self, seconds: i64) -> DateTime {
        let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        self.0.to_datetime(time)
    }

    /// The time at which clocks show `wall`, in seconds since 1970. For a local time that occurs twice or never, the
    /// result is that of Go's `time.Date`, since it decides when Jobs start.
    pub fn seconds_at(&self, wall: DateTime) -> i64 {
        let Ok(as_utc) = TimeZone::UTC.to_timestamp(wall).map(Timestamp::as_second) else { return i64::MAX };
        // The offset depends on the time that is sought. The one at `as_utc` is a guess, which is off by a day at most; at the time
        // that follows from it, the offset is right unless the clocks change in between.
        match self.offset(as_utc) {
            0 => as_utc,
            guess => as_utc - self.offset(as_utc - guess),
        }
    }

    /// RFC 3339 with the offset of this zone.
    pub fn format(&self, time: Timestamp) -> String {
        let offset = self.0.to_offset(time);
        let wall = offset.to_datetime(time).strftime("%Y-%m-%dT%H:%M:%S");
        match offset.seconds() / 60 {
            0 => format!("{wall}Z"),
            minutes => {
                let (sign, minutes) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
                format!("{wall}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }

    fn offset(&self, seconds: i64) -> i64 {
        let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        self.0.to_offset(time).seconds().into()
    }
}

impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Self {
        Self(zone)
    }
}
