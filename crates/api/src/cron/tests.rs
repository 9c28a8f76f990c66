//! `grammar.tsv` and `firing.tsv` hold what robfig/cron v3.0.1 makes of schedules: the fields it parses from each, or its
//! error; and the first four times after a given time.

use super::{Schedule, Zone};
use crate::{Timestamp, time};

#[test]
fn schedules_are_read_as_upstream_reads_them() {
    for row in include_str!("grammar.tsv").lines() {
        // The schedule may hold tabs itself.
        let (text, want) = row.rsplit_once('\t').unwrap();
        let read = Schedule::parse(text, &Zone::UTC);
        match (want.strip_prefix('!'), read) {
            (None, read) => assert_eq!(read.map(|read| read.to_string()), Ok(want.to_owned()), "{text}"),
            (Some(want), read) => assert_eq!(read.unwrap_err().to_string(), want, "{text}"),
        }
    }
}

#[test]
fn a_time_zone_alone_is_not_a_schedule() {
    for text in ["TZ=UTC", "CRON_TZ=UTC"] {
        let error = Schedule::parse(text, &Zone::UTC).unwrap_err().to_string();
        assert!(error.starts_with("invalid schedule format: "), "{error}");
    }
}

#[test]
fn schedules_fire_when_upstream_fires_them() {
    for row in include_str!("firing.tsv").lines() {
        let [from, text, want] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let schedule = Schedule::parse(text, &Zone::UTC).unwrap();
        let first: Timestamp = from.parse().unwrap();
        let mut fired = vec![];
        let mut last = Some(first);
        for _ in 0..4 {
            last = last.and_then(|last| schedule.next(last));
            fired.push(last.map_or("never".to_owned(), time::format_seconds));
            if last.is_none() {
                break;
            }
        }
        assert_eq!(fired.join(" "), want, "{text} from {from}");
    }
}

#[test]
fn the_search_ends_if_a_zone_skips_the_day() {
    let schedule = Schedule::parse("TZ=Pacific/Apia 0 0 30 12 *", &Zone::UTC).unwrap();
    assert_eq!(schedule.next("2011-12-29T12:00:00Z".parse().unwrap()), None);
}

#[test]
fn times_are_written_with_their_offset() {
    let time = "2026-07-01T12:30:00Z".parse().unwrap();
    let written = |zone: &str| Zone::load(zone, &Zone::UTC).unwrap().format(time);
    assert_eq!(written(""), "2026-07-01T12:30:00Z");
    assert_eq!(written("Asia/Kolkata"), "2026-07-01T18:00:00+05:30");
    assert_eq!(written("America/St_Johns"), "2026-07-01T10:00:00-02:30");
}

#[test]
fn durations_are_refused_in_the_words_of_go() {
    #[rustfmt::skip]
    let table = [
        ("soon",   "time: invalid duration \"soon\""),
        ("+-1s",   "time: invalid duration \"+-1s\""),
        ("2562048h", "time: invalid duration \"2562048h\""),
        ("1.2.3s", "time: missing unit in duration \"1.2.3s\""),
        ("1d",     "time: unknown unit \"d\" in duration \"1d\""),
    ];
    for (duration, want) in table {
        let error = Schedule::parse(&format!("@every {duration}"), &Zone::UTC).unwrap_err().to_string();
        assert_eq!(error, format!("failed to parse duration @every {duration}: {want}"));
    }
}
