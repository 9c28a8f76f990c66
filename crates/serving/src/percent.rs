//! Percent encoding, as in the paths of URLs.

use std::borrow::Cow;

/// `None` if the encoding is invalid or the result is not UTF-8.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, after) = match (first, tail) {
            (b'%', [high, low, after @ ..]) => (digit(*high)? << 4 | digit(*low)?, after),
            (b'%', _) => return None,
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

pub(super) fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_encodings_are_refused() {
        #[rustfmt::skip]
        let table = [
            ("/metrics",          Some("/metrics")),
            ("/%6detrics",        Some("/metrics")),
            ("/%6Detrics",        Some("/metrics")),
            ("/a%2fb%2525",       Some("/a/b%25")),
            ("/a+b",              Some("/a+b")),
            ("%c3%a4",            Some("ä")),
            ("",                  Some("")),
            ("/%",                None),
            ("/%6",               None),
            ("/%zz",              None),
            ("/%+1",              None),
            ("/%ff",              None),
        ];
        for (text, want) in table {
            assert_eq!(decoded(text).as_deref(), want, "{text:?}");
        }
    }
}
