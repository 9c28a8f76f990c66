//! Time zones as schedules name them. Upstream carries the database with it, and so do we.

use flyball_api::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A name that is no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(String);

/// A time zone, asked in whole seconds.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone without a name.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of this machine, in which schedules are meant that name none.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// The zone of this name; `local` is what `Local` means.
    ///
    /// # Errors
    /// The name is not in the database. Upper and lower case matter.
    pub fn load(name: &str, local: &Zone) -> Result<Self, UnknownZone> {
        match name {
            "" | "UTC" => return Ok(Self::UTC),
            "Local" => return Ok(local.clone()),
            _ => {}
        }
        let found = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        found.map(Self).ok_or_else(|| UnknownZone(name.to_owned()))
    }

    /// What clocks show at a moment, given in seconds since 1970.
    pub fn wall(&self, seconds: i64) -> DateTime {
        let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        self.0.to_datetime(moment)
    }

    /// The moment at which clocks show `wall`, in seconds since 1970. Where they show it twice or not at all,
    /// this gives what Go's `time.Date` gives, as which of the two decides when Jobs start.
    pub fn moment(&self, wall: DateTime) -> i64 {
        let Ok(as_utc) = TimeZone::UTC.to_timestamp(wall).map(Timestamp::as_second) else { return i64::MAX };
        match self.offset(as_utc) {
            0 => as_utc,
            guess => as_utc - self.offset(as_utc - guess),
        }
    }

    /// How a moment is written in this zone, as RFC 3339.
    pub fn format(&self, moment: Timestamp) -> String {
        let offset = self.0.to_offset(moment);
        let wall = offset.to_datetime(moment).strftime("%Y-%m-%dT%H:%M:%S");
        match offset.seconds() / 60 {
            0 => format!("{wall}Z"),
            minutes => {
                let (sign, minutes) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
                format!("{wall}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }

    fn offset(&self, seconds: i64) -> i64 {
        let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        self.0.to_offset(moment).seconds().into()
    }
}
