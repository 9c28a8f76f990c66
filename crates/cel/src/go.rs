//! Numbers and text as Go's `fmt` and `strconv` print them.

/// `%g`: the fewest digits that identify the number, with an exponent from 1e+06 on and below 1e-04.
pub(crate) fn general(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) { format!("{number}") } else { with_exponent(digits, exponent) }
}

/// `%.Ne`
pub(crate) fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => with_exponent(digits, exponent.parse().unwrap_or_default()),
        None => text,
    }
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `%q`
pub(crate) fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    for c in text.chars() {
        match c {
            '"' => shown.push_str("\\\""),
            '\\' => shown.push_str("\\\\"),
            '\u{7}' => shown.push_str("\\a"),
            '\u{8}' => shown.push_str("\\b"),
            '\u{c}' => shown.push_str("\\f"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            '\u{b}' => shown.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => shown.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() || c == '\u{feff}' || c == '\u{a0}' => {
                shown.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}
