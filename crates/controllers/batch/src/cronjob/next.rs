//! When a schedule fires next. The search goes field by field, from months to minutes, and handles daylight saving changes
//! as upstream does (robfig/cron v3, `SpecSchedule.Next`). Pure.

use flyball_api::Timestamp;
use jiff::ToSpan;
use jiff::civil::DateTime;

use super::schedule::{Clock, STAR, Schedule};
use super::zone::Zone;

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;
/// A schedule that does not fire within these years never does, such as on February 30.
const YEARS: i16 = 5;
/// More steps than any search within these years needs. If a zone skips a whole day, as Samoa did in 2011, upstream's
/// search does not end; this one does.
const STEPS: usize = 20_000;

impl Schedule {
    /// The first time after `time` at which the schedule fires; `None` when it never does.
    pub fn next(&self, time: Timestamp) -> Option<Timestamp> {
        let seconds = flyball_api::time::truncate(time).as_second();
        let next = match self {
            Self::Every(interval) => seconds.checked_add(*interval)?,
            Self::Clock(clock) => clock.next(seconds)?,
        };
        Timestamp::from_second(next).ok()
    }
}

/// A time during the search, with its local time.
struct Cursor<'a> {
    zone: &'a Zone,
    seconds: i64,
    wall: DateTime,
    steps: usize,
}

impl<'a> Cursor<'a> {
    fn new(zone: &'a Zone, seconds: i64) -> Self {
        Self { zone, seconds, wall: zone.wall(seconds), steps: 0 }
    }

    /// Moves to a time; `None` if the search has taken too many steps.
    fn go(&mut self, seconds: i64) -> Option<()> {
        *self = Self { steps: self.steps + 1, ..Self::new(self.zone, seconds) };
        (self.steps < STEPS).then_some(())
    }

    /// Moves to the time with the local time `wall`, or the nearest one.
    fn set(&mut self, wall: DateTime) -> Option<()> {
        self.go(self.zone.seconds(wall))
    }

    /// The same day of the next month; if that month is too short, the overflow goes into the month after it.
    fn next_month(&self) -> Option<DateTime> {
        let days = i64::from(self.wall.day()) - 1;
        self.wall.first_of_month().checked_add(1.month()).ok()?.checked_add(days.days()).ok()
    }

    fn day(&self) -> DateTime {
        self.wall.date().to_datetime(jiff::civil::Time::midnight())
    }
}

impl Clock {
    fn next(&self, after: i64) -> Option<i64> {
        let mut cursor = Cursor::new(&self.zone, after + 1);
        let last_year = cursor.wall.year() + YEARS;
        // Smaller fields are reset once a larger one has changed.
        let mut moved = false;
        'all: loop {
            if cursor.wall.year() > last_year {
                return None;
            }
            while !has(self.months, cursor.wall.month()) {
                if !std::mem::replace(&mut moved, true) {
                    cursor.set(cursor.day().first_of_month())?;
                }
                cursor.set(cursor.next_month()?)?;
                if cursor.wall.month() == 1 {
                    continue 'all;
                }
            }
            while !self.fires_on(cursor.wall) {
                if !std::mem::replace(&mut moved, true) {
                    cursor.set(cursor.day())?;
                }
                cursor.set(cursor.wall.checked_add(1.day()).ok()?)?;
                // If midnight is skipped or occurs twice, the day still begins at its own midnight.
                match i64::from(cursor.wall.hour()) {
                    0 => {}
                    late if late > 12 => cursor.go(cursor.seconds + (24 - late) * HOUR)?,
                    early => cursor.go(cursor.seconds - early * HOUR)?,
                }
                if cursor.wall.day() == 1 {
                    continue 'all;
                }
            }
            while !has(self.hours, cursor.wall.hour()) {
                if !std::mem::replace(&mut moved, true) {
                    cursor.set(cursor.day().with().hour(cursor.wall.hour()).build().ok()?)?;
                }
                cursor.go(cursor.seconds + HOUR)?;
                if cursor.wall.hour() == 0 {
                    continue 'all;
                }
            }
            while !has(self.minutes, cursor.wall.minute()) {
                if !std::mem::replace(&mut moved, true) {
                    cursor.go(cursor.seconds - cursor.seconds.rem_euclid(MINUTE))?;
                }
                cursor.go(cursor.seconds + MINUTE)?;
                if cursor.wall.minute() == 0 {
                    continue 'all;
                }
            }
            while cursor.wall.second() != 0 {
                moved = true;
                cursor.go(cursor.seconds + 1)?;
                if cursor.wall.second() == 0 {
                    continue 'all;
                }
            }
            return Some(cursor.seconds);
        }
    }

    /// Day of the month and day of the week: if both are restricted, either matches.
    fn fires_on(&self, wall: DateTime) -> bool {
        let day = has(self.days, wall.day());
        let weekday = has(self.weekdays, wall.weekday().to_sunday_zero_offset());
        match (self.days | self.weekdays) & STAR {
            0 => day || weekday,
            _ => day && weekday,
        }
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}
