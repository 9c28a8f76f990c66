//! The values of literals: numbers, strings and bytes.

use smol_str::SmolStr;

/// A 64-bit integer: decimal or `0x`, with a sign or not.
pub(crate) fn int(text: &str, is_negative: bool) -> Option<i64> {
    let magnitude = i128::from(magnitude(text)?);
    i64::try_from(if is_negative { -magnitude } else { magnitude }).ok()
}

/// An unsigned 64-bit integer, with its suffix `u`.
pub(crate) fn uint(text: &str) -> Option<u64> {
    magnitude(text.trim_end_matches(['u', 'U']))
}

/// A finite number.
pub(crate) fn double(text: &str, is_negative: bool) -> Option<f64> {
    let magnitude = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some(if is_negative { -magnitude } else { magnitude })
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The text of a string token, with escapes resolved. The lexer has checked the quotes and escapes.
pub(crate) fn string(token: &str) -> Result<SmolStr, &'static str> {
    let (inner, has_escapes) = inner(token)?;
    if has_escapes { unescaped(&inner) } else { Ok(inner.into()) }
}

/// The bytes between the quotes after a `b`.
pub(crate) fn bytes(token: &str) -> Result<Vec<u8>, &'static str> {
    let (inner, has_escapes) = inner(token.strip_prefix(['b', 'B']).unwrap_or(token))?;
    if !has_escapes {
        return Ok(inner.into_bytes());
    }
    let (mut plain, mut rest) = (Vec::with_capacity(inner.len()), inner.chars());
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.extend(next.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let escape = rest.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let number = match escape {
            'x' | 'X' => number(&mut rest, 2, 16, 0)?,
            '0'..='3' => number(&mut rest, 2, 8, escape.to_digit(8).unwrap_or_default())?,
            'u' | 'U' => return Err("unable to unescape string"),
            other => u32::from(simple(other)),
        };
        plain.push(u8::try_from(number).unwrap_or_default());
    }
    Ok(plain)
}

/// The text between the quotes, and whether it contains escapes.
fn inner(token: &str) -> Result<(String, bool), &'static str> {
    let normal = token.replace("\r\n", "\n").replace('\r', "\n");
    let (is_raw, quoted) = match normal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, normal.as_str()),
    };
    let width =
        if ["'''", "\"\"\""].iter().any(|q| quoted.len() >= 6 && quoted.starts_with(q)) { 3 } else { 1 };
    let inner = quoted.get(width..quoted.len().saturating_sub(width)).ok_or("unable to unescape string")?;
    Ok((inner.to_owned(), !is_raw && inner.contains('\\')))
}

/// The character of an escape such as `\n`.
fn simple(escape: char) -> char {
    match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        itself => itself,
    }
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
            'x' | 'X' => coded(&mut rest, 2, 16, 0)?,
            'u' => coded(&mut rest, 4, 16, 0)?,
            'U' => coded(&mut rest, 8, 16, 0)?,
            '0'..='3' => coded(&mut rest, 2, 8, escape.to_digit(8).unwrap_or_default())?,
            other => simple(other),
        });
    }
    Ok(plain.into())
}

/// The character whose code point is in the next digits.
fn coded(
    rest: &mut std::str::Chars<'_>,
    digits: usize,
    radix: u32,
    start: u32,
) -> Result<char, &'static str> {
    char::from_u32(number(rest, digits, radix, start)?).ok_or("invalid unicode code point")
}

fn number(
    rest: &mut std::str::Chars<'_>,
    digits: usize,
    radix: u32,
    start: u32,
) -> Result<u32, &'static str> {
    let mut number = start;
    for _ in 0..digits {
        let digit = rest.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
        number = number.wrapping_mul(radix).wrapping_add(digit);
    }
    Ok(number)
}
