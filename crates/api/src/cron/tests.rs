use flyball_api::{Timestamp, time};

use crate::cronjob::schedule::Schedule;
use crate::cronjob::zone::Zone;

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
fn a_zone_alone_is_no_schedule() {
    for text in ["TZ=UTC", "CRON_TZ=UTC"] {
        let error = Schedule::parse(text, &Zone::UTC).unwrap_err().to_string();
        assert!(error.starts_with("invalid schedule format: "), "{error}");
    }
    let error = Schedule::parse("@every soon", &Zone::UTC).unwrap_err().to_string();
    assert!(error.starts_with("failed to parse duration @every soon: "), "{error}");
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
fn a_day_that_a_zone_leaves_out_does_not_hold_the_search_up() {
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
