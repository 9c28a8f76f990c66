//! Whether a cron schedule is one, as the library that upstream uses (robfig/cron) reads it: five fields or a
//! descriptor, an optional time zone in front.

struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds { low: 1, high: 12, names: &MONTHS },
    Bounds { low: 0, high: 6, names: &DAYS },
];

/// `Err` says what is wrong, in that library's words.
pub(crate) fn parse(schedule: &str) -> Result<(), String> {
    let spec = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        Some(rest) => {
            let (zone, rest) =
                rest.split_once(' ').ok_or("invalid schedule format: no fields after the time zone")?;
            if !is_zone(zone) {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            rest.trim()
        }
        None => schedule,
    };
    if spec.starts_with('@') {
        return descriptor(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let list = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{list}]", fields.len()));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| range(part, bounds))
    })
}

/// Go's names of zones: upper and lower case matter, and two have a meaning of their own.
fn is_zone(name: &str) -> bool {
    let is_known = |zone: jiff::tz::TimeZone| zone.iana_name() == Some(name);
    matches!(name, "" | "UTC" | "Local") || jiff::tz::TimeZone::get(name).is_ok_and(is_known)
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(duration) if is_duration(duration) => Ok(()),
            Some(duration) => {
                Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}"))
            }
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// Whether Go's `time.ParseDuration` reads this: parts of a decimal number and a unit, below 2^63 nanoseconds.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut total: u128 = 0;
    while let Some((part, after)) = duration_part(rest) {
        total = total.saturating_add(part);
        rest = after;
    }
    let limit = if text.starts_with('-') { 1 << 63 } else { (1 << 63) - 1 };
    rest.is_empty() && !text.trim_start_matches(['+', '-']).is_empty() && total <= limit
}

/// The first part of a duration in nanoseconds, and what follows it.
fn duration_part(text: &str) -> Option<(u128, &str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let nanos: u128 = match &rest[..unit] {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    // A number that does not fit is more than the limit in any unit.
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u128::MAX) };
    let fraction: u128 = fraction
        .bytes()
        .take(18)
        .zip(1..)
        .fold(0, |sum, (digit, place)| sum + u128::from(digit - b'0') * nanos / 10u128.pow(place));
    Some((whole.saturating_mul(nanos).saturating_add(fraction), &rest[unit..]))
}

fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut steps = text.split('/');
    let ends = steps.next().unwrap_or("");
    let step = steps.next();
    if steps.next().is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let mut parts = ends.split('-');
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let (start, end) = match (first, second) {
        // What follows a star up to the slash is not looked at.
        ("*" | "?", _) => (bounds.low, bounds.high),
        _ if third.is_some() => return Err(format!("too many hyphens: {text}")),
        (first, None) => {
            let start = value(first, bounds)?;
            (start, if step.is_some() { bounds.high } else { start })
        }
        (first, Some(second)) => (value(first, bounds)?, value(second, bounds)?),
    };
    let step = step.map_or(Ok(1), number)?;
    if start < bounds.low {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.low));
    }
    if end > bounds.high {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.high));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    match bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(at) => Ok(at as u32 + bounds.low),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream_reads_them() {
        #[rustfmt::skip]
        let table = [
            ("* * * * *", ""), ("*/5 0-12/2 1,15 JAN-mar sun", ""), ("@hourly", ""), ("@every 1h30m", ""), ("TZ=UTC 0 0 * * ?", ""),
            ("0 0 ,29 2, *", ""), ("*-1-2 * * * *", ""), ("@every 0", ""), ("@every .5h1.m", ""), ("TZ=Local 0 0 * * *", ""),
            ("@every 1.2.3s", "failed to parse duration @every 1.2.3s: time: invalid duration \"1.2.3s\""),
            ("@every +-1s", "failed to parse duration @every +-1s: time: invalid duration \"+-1s\""),
            ("TZ=europe/berlin 0 0 * * *", "provided bad location europe/berlin: unknown time zone europe/berlin"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"), ("@never", "unrecognized descriptor: @never"),
        ];
        for (schedule, want) in table {
            assert_eq!(parse(schedule).err().unwrap_or_default(), want, "{schedule}");
        }
    }
}
