//! When a schedule fires next. The search advances field by field, from months to minutes, and handles daylight saving changes
//! exactly as upstream does (robfig/cron v3, `SpecSchedule.Next`).

use jiff::ToSpan;
use jiff::civil::DateTime;

use super::{Clock, STAR, Schedule, Zone};
use crate::Timestamp;

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;
/// A schedule that does not fire within this many years never fires, such as on February 30.
const YEARS: i16 = 5;
/// More steps than any search within these years takes. Where a zone skips a whole day, as Samoa did in 2011,
/// upstream's search does not end.
const MAX_STEPS: usize = 20_000;

impl Schedule {
    /// The first time after `time` at which the schedule fires; `None` when it never does.
    pub fn next(&self, time: Timestamp) -> Option<Timestamp> {
        let seconds = crate::time::truncate(time).as_second();
        let next = match self {
            Self::Every(interval) => seconds.checked_add(*interval)?,
            Self::Clock(clock) => clock.next(seconds)?,
        };
        Timestamp::from_second(next).ok()
    }
}

/// The time that the search has reached.
struct Position<'a> {
    zone: &'a Zone,
    /// Unix time.
    seconds: i64,
    /// The same time on a clock in `zone`.
    wall: DateTime,
    steps: usize,
}

impl<'a> Position<'a> {
    fn new(zone: &'a Zone, seconds: i64) -> Self {
        Self { zone, seconds, wall: zone.wall(seconds), steps: 0 }
    }

    /// Moves to a time; `None` after too many steps.
    fn go(&mut self, seconds: i64) -> Option<()> {
        *self = Self { steps: self.steps + 1, ..Self::new(self.zone, seconds) };
        (self.steps < MAX_STEPS).then_some(())
    }

    fn set(&mut self, wall: DateTime) -> Option<()> {
        self.go(self.zone.seconds_at(wall))
    }

    /// The same day of the next month. If that month is too short, the surplus days run into the month after it.
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
        let mut at = Position::new(&self.zone, after + 1);
        let last_year = at.wall.year() + YEARS;
        // Smaller fields restart at their lowest value once a larger one has moved.
        let mut moved = false;
        'all: loop {
            if at.wall.year() > last_year {
                return None;
            }
            while !has(self.months, at.wall.month()) {
                if !std::mem::replace(&mut moved, true) {
                    at.set(at.day().first_of_month())?;
                }
                at.set(at.next_month()?)?;
                if at.wall.month() == 1 {
                    continue 'all;
                }
            }
            while !self.fires_on(at.wall) {
                if !std::mem::replace(&mut moved, true) {
                    at.set(at.day())?;
                }
                at.set(at.wall.checked_add(1.day()).ok()?)?;
                // Daylight saving time can skip or repeat midnight.
                match i64::from(at.wall.hour()) {
                    0 => {}
                    late if late > 12 => at.go(at.seconds + (24 - late) * HOUR)?,
                    early => at.go(at.seconds - early * HOUR)?,
                }
                if at.wall.day() == 1 {
                    continue 'all;
                }
            }
            while !has(self.hours, at.wall.hour()) {
                if !std::mem::replace(&mut moved, true) {
                    at.set(at.day().with().hour(at.wall.hour()).build().ok()?)?;
                }
                at.go(at.seconds + HOUR)?;
                if at.wall.hour() == 0 {
                    continue 'all;
                }
            }
            while !has(self.minutes, at.wall.minute()) {
                if !std::mem::replace(&mut moved, true) {
                    at.go(at.seconds - at.seconds.rem_euclid(MINUTE))?;
                }
                at.go(at.seconds + MINUTE)?;
                if at.wall.minute() == 0 {
                    continue 'all;
                }
            }
            while at.wall.second() != 0 {
                moved = true;
                at.go(at.seconds + 1)?;
                if at.wall.second() == 0 {
                    continue 'all;
                }
            }
            return Some(at.seconds);
        }
    }

    /// If both day of the month and day of the week are restricted, one match is enough.
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
