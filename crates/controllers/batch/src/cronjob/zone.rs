//! Time zones of schedules. Like upstream, the program contains the time zone database.

use flyball_api::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// An unknown time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(String);

/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of this machine, for schedules without a time zone.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// The zone of this name; `local` is the zone for `Local`.
    ///
    /// # Errors
    /// The name is not in the database, which is case-sensitive.
    pub fn load(name: &str, local: &Zone) -> Result<Self, UnknownZone> {
        match name {
            "" | "UTC" => return Ok(Self::UTC),
            "Local" => return Ok(local.clone()),
            _ => {}
        }
        let found = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        found.map(Self).ok_or_else(|| UnknownZone(name.to_owned()))
    }

    /// The local time at a time in seconds since 1970.
    pub fn wall(&self, seconds: i64) -> DateTime {
        let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        self.0.to_datetime(time)
    }

    /// The time in seconds since 1970 at which the local time is `wall`. For a local time that is ambiguous or skipped, the
    /// result is that of Go's `time.Date`, as it decides when Jobs start.
    pub fn seconds(&self, wall: DateTime) -> i64 {
        let Ok(as_utc) = TimeZone::UTC.to_timestamp(wall).map(Timestamp::as_second) else { return i64::MAX };
        match self.offset(as_utc) {
            0 => as_utc,
            guess => as_utc - self.offset(as_utc - guess),
        }
    }

    /// A time in this zone, as RFC 3339.
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
