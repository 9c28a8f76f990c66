//! What literals mean, as far as a check needs to know: whether numbers are in range, and the text of strings.

use smol_str::SmolStr;

/// Whether it is a 64-bit integer: decimal or `0x`, with a sign or not.
pub(crate) fn is_int(text: &str, is_negative: bool) -> bool {
    let magnitude = magnitude(text);
    let limit = if is_negative { 1_u64 << 63 } else { (1 << 63) - 1 };
    magnitude.is_some_and(|magnitude| magnitude <= limit)
}

/// Whether it is a 64-bit integer without a sign, written with its `u`.
pub(crate) fn is_uint(text: &str) -> bool {
    magnitude(text.trim_end_matches(['u', 'U'])).is_some()
}

/// Whether it is a number of finite size.
pub(crate) fn is_double(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The text between the quotes, escapes resolved. The lexer has seen that quotes and escapes are well-formed.
pub(crate) fn string(token: &str) -> Result<SmolStr, &'static str> {
    let normal = token.replace("\r\n", "\n").replace('\r', "\n");
    let (is_raw, quoted) = match normal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, normal.as_str()),
    };
    let width =
        if ["'''", "\"\"\""].iter().any(|q| quoted.len() >= 6 && quoted.starts_with(q)) { 3 } else { 1 };
    let inner = quoted.get(width..quoted.len().saturating_sub(width)).ok_or("unable to unescape string")?;
    if is_raw || !inner.contains('\\') { Ok(inner.into()) } else { unescaped(inner) }
}

fn unescaped(text: &str) -> Result<SmolStr, &'static str> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        let escape = rest.next().ok_or("unable to unescape string, found '\\' as last character")?;
        plain.push(match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' | 'X' => coded(&mut rest, 2, 16, 0)?,
            'u' => coded(&mut rest, 4, 16, 0)?,
            'U' => coded(&mut rest, 8, 16, 0)?,
            '0'..='3' => coded(&mut rest, 2, 8, escape.to_digit(8).unwrap_or_default())?,
            itself => itself,
        });
    }
    Ok(plain.into())
}

/// The character whose number the next digits give.
fn coded(
    rest: &mut std::str::Chars<'_>,
    digits: usize,
    radix: u32,
    start: u32,
) -> Result<char, &'static str> {
    let mut number = start;
    for _ in 0..digits {
        let digit = rest.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
        number = number.wrapping_mul(radix).wrapping_add(digit);
    }
    char::from_u32(number).ok_or("invalid unicode code point")
}
