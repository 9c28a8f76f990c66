//! Replaces the parts of a text that vary from run to run: known names by their placeholders, and what looks like a random
//! suffix, an id or a time.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The alphabet of generated suffixes: it has no vowels, so that words do not match.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by every test")]
static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b").unwrap()
});
#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by every test")]
static STAMP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").unwrap());

/// How long something took, as a message gives it.
#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by every test")]
static TOOK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bafter (\d+m)?\d+(\.\d+)?(ns|µs|ms|s):").unwrap());

/// Known texts and their placeholders.
#[derive(Default)]
pub(super) struct Tokens {
    placeholders: HashMap<String, String>,
    /// The lengths of the known texts, so that a look-up at a position tries only those.
    lengths: BTreeSet<usize>,
}

impl Tokens {
    /// The first placeholder given to a text stays.
    pub(super) fn add(&mut self, raw: &str, placeholder: String) {
        if !raw.is_empty() && !self.placeholders.contains_key(raw) {
            self.lengths.insert(raw.len());
            self.placeholders.insert(raw.to_owned(), placeholder);
        }
    }

    pub(super) fn knows(&self, raw: &str) -> bool {
        self.placeholders.contains_key(raw)
    }

    /// The text with everything replaced that varies.
    pub(super) fn replace(&self, text: &str) -> String {
        let text = self.replace_known(text);
        let text = replace_suffixes(&text);
        let text = UUID.replace_all(&text, "<uid:?>");
        let stamp = |found: &Captures<'_>| {
            let fraction = if found.get(1).is_some() { ".frac" } else { "" };
            let offset = match &found[2] {
                "Z" | "+00:00" => "",
                other => other,
            };
            format!("<time{fraction}{offset}>")
        };
        let text = STAMP.replace_all(&text, stamp);
        TOOK.replace_all(&text, "after <duration>:").into_owned()
    }

    /// Whole words only, the longest first.
    fn replace_known(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(text.len());
        let (mut at, mut copied) = (0, 0);
        while at < bytes.len() {
            let starts_word = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
            match starts_word.then(|| self.longest_at(text, at)).flatten() {
                Some((length, placeholder)) => {
                    out.push_str(&text[copied..at]);
                    out.push_str(placeholder);
                    at += length;
                    copied = at;
                }
                None => at += 1,
            }
        }
        out.push_str(&text[copied..]);
        out
    }

    fn longest_at(&self, text: &str, at: usize) -> Option<(usize, &str)> {
        self.lengths.iter().rev().find_map(|length| {
            let candidate = text.get(at..at + length)?;
            let next = text.as_bytes().get(at + length);
            if next.is_some_and(u8::is_ascii_alphanumeric) {
                return None;
            }
            self.placeholders.get(candidate).map(|placeholder| (*length, placeholder.as_str()))
        })
    }
}

/// Generated suffixes of objects that were never seen: `-x7k2p` at the end of a name.
fn replace_suffixes(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    while at < bytes.len() {
        let end = at + 1 + SUFFIX_LENGTH;
        let is_suffix = bytes[at] == b'-'
            && at > 0
            && (lower(&bytes[at - 1]) || bytes[at - 1] == b'>')
            && bytes.get(at + 1..end).is_some_and(|suffix| suffix.iter().all(|byte| SUFFIX.contains(byte)))
            && !bytes.get(end).is_some_and(lower);
        if is_suffix {
            out.push_str(&text[copied..=at]);
            out.push_str("<rand>");
            at = end;
            copied = end;
        } else {
            at += 1;
        }
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_words_longest_first() {
        let mut tokens = Tokens::default();
        tokens.add("g12", "<ns>".into());
        tokens.add("web-abc", "web-<rand-1>".into());
        tokens.add("web", "never".into());
        tokens.add("10.0.0.1", "<ip:a>".into());
        tokens.add("web-abc", "ignored".into());
        #[rustfmt::skip]
        let table = [
            ("g12/web-abc", "<ns>/web-<rand-1>"),
            ("g123 xg12 g12", "g123 xg12 <ns>"),
            ("web-abcd web", "never-abcd never"),
            ("10.0.0.10 10.0.0.1,", "10.0.0.10 <ip:a>,"),
            ("é g12 é", "é <ns> é"),
            ("job-x7k2p job-hello web2-bcdfg.", "job-<rand> job-hello web2-<rand>."),
            ("-x7k2p a-x7k2pa", "-x7k2p a-x7k2pa"),
            ("4a6b3c1e-0000-4000-8000-123456789abc", "<uid:?>"),
            ("2026-01-02T03:04:05Z 2026-01-02T03:04:05.123Z", "<time> <time.frac>"),
            ("after 1.5ms: x after 12µs: y after 1m2.5s: z after 3s ", "after <duration>: x after <duration>: y after <duration>: z after 3s "),
            ("2026-01-02T03:04:05+05:30 2026-01-02T03:04:05+00:00", "<time+05:30> <time>"),
        ];
        for (text, want) in table {
            assert_eq!(tokens.replace(text), want, "{text}");
        }
    }
}
