//! Small pieces of text: durations, lists, numbers.

use flyball_api::Timestamp;
use flyball_api::time::parse_duration;

/// `3m10s`, `2h`, `5d`: two units at most.
pub(crate) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let two = |large: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{large}{unit}"),
        rest => format!("{large}{unit}{rest}{small}"),
    };
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => two(seconds / 60, "m", if seconds < 600 { seconds % 60 } else { 0 }, "s"),
        7200..=172_799 => {
            two(seconds / 3600, "h", if seconds < 36_000 { seconds % 3600 / 60 } else { 0 }, "m")
        }
        _ => format!("{}d", seconds / 86_400),
    }
}

pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

/// `for 5m`, or nothing if the time is not known.
pub(crate) fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map(|time| format!(" for {}", span(seconds_between(time, now)))).unwrap_or_default()
}

/// `a, b and c`, and how many more there are beyond `most`.
pub(crate) fn list<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(AsRef::as_ref).collect();
    match (shown.as_slice(), items.len().saturating_sub(most)) {
        ([], _) => String::new(),
        ([one], 0) => (*one).to_owned(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `1 pod`, `2 pods`.
pub(crate) fn counted(count: i64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The first duration in Go's form after a word: `back-off 5m0s restarting` has 300 seconds.
pub(crate) fn seconds_after(text: &str, word: &str) -> Option<i64> {
    let rest = text.split_once(word)?.1.trim_start();
    parse_duration(rest.split_whitespace().next()?).ok().map(|duration| duration.as_secs())
}

/// The text between two markers.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = text.split_once(before)?.1;
    rest.split_once(after).map(|(found, _)| found)
}

/// One line, at most so long.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (3600, "60m"),
            (7200, "2h"),
            (9000, "2h30m"),
        ];
        for (seconds, want) in table {
            assert_eq!(span(seconds), want);
        }
        assert_eq!(span(500_000), "5d");
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!(list(&["a"], 3), "a");
        assert_eq!(list(&["a", "b", "c"], 3), "a, b and c");
        assert_eq!(list(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(list::<&str>(&[], 2), "");
    }

    #[test]
    fn a_back_off_is_read_from_the_kubelet_s_text() {
        assert_eq!(seconds_after("back-off 2m40s restarting failed container=web", "back-off"), Some(160));
        assert_eq!(seconds_after("no such thing", "back-off"), None);
    }
}
