//! When a schedule fires next. The search goes field by field, from months down to minutes, and takes the same
//! turns around changes of the clock as upstream's (robfig/cron v3, `SpecSchedule.Next`). Pure.

use flyball_api::Timestamp;
use jiff::ToSpan;
use jiff::civil::DateTime;

use super::schedule::{Clock, STAR, Schedule};
use super::zone::Zone;

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;
/// A schedule that does not fire within these never does, such as on February 30.
const YEARS: i16 = 5;
/// More turns than any search within these years takes. Where a zone leaves out a whole day, as Samoa did in 2011,
/// upstream's search goes round and round; ours ends.
const TURNS: usize = 20_000;

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

/// A moment on the way, with what clocks show then.
struct Hand<'a> {
    zone: &'a Zone,
    moment: i64,
    wall: DateTime,
    turns: usize,
}

impl<'a> Hand<'a> {
    fn new(zone: &'a Zone, moment: i64) -> Self {
        Self { zone, moment, wall: zone.wall(moment), turns: 0 }
    }

    /// Moves to a moment; `None` when the search has gone on for too long.
    fn go(&mut self, moment: i64) -> Option<()> {
        *self = Self { turns: self.turns + 1, ..Self::new(self.zone, moment) };
        (self.turns < TURNS).then_some(())
    }

    /// Moves to when clocks show `wall`, or what comes nearest to it.
    fn set(&mut self, wall: DateTime) -> Option<()> {
        self.go(self.zone.moment(wall))
    }

    /// The same day of the next month; where that month is too short, as many days into the one after it.
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
        let mut hand = Hand::new(&self.zone, after + 1);
        let last_year = hand.wall.year() + YEARS;
        // Smaller fields start over once a larger one has moved.
        let mut moved = false;
        'all: loop {
            if hand.wall.year() > last_year {
                return None;
            }
            while !has(self.months, hand.wall.month()) {
                if !std::mem::replace(&mut moved, true) {
                    hand.set(hand.day().first_of_month())?;
                }
                hand.set(hand.next_month()?)?;
                if hand.wall.month() == 1 {
                    continue 'all;
                }
            }
            while !self.fires_on(hand.wall) {
                if !std::mem::replace(&mut moved, true) {
                    hand.set(hand.day())?;
                }
                hand.set(hand.wall.checked_add(1.day()).ok()?)?;
                // Where clocks skip midnight or show it twice, the day still begins at its own midnight.
                match i64::from(hand.wall.hour()) {
                    0 => {}
                    late if late > 12 => hand.go(hand.moment + (24 - late) * HOUR)?,
                    early => hand.go(hand.moment - early * HOUR)?,
                }
                if hand.wall.day() == 1 {
                    continue 'all;
                }
            }
            while !has(self.hours, hand.wall.hour()) {
                if !std::mem::replace(&mut moved, true) {
                    hand.set(hand.day().with().hour(hand.wall.hour()).build().ok()?)?;
                }
                hand.go(hand.moment + HOUR)?;
                if hand.wall.hour() == 0 {
                    continue 'all;
                }
            }
            while !has(self.minutes, hand.wall.minute()) {
                if !std::mem::replace(&mut moved, true) {
                    hand.go(hand.moment - hand.moment.rem_euclid(MINUTE))?;
                }
                hand.go(hand.moment + MINUTE)?;
                if hand.wall.minute() == 0 {
                    continue 'all;
                }
            }
            while hand.wall.second() != 0 {
                moved = true;
                hand.go(hand.moment + 1)?;
                if hand.wall.second() == 0 {
                    continue 'all;
                }
            }
            return Some(hand.moment);
        }
    }

    /// Day of the month and day of the week: where both are restricted, either will do.
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
