//! An error with its causes in one line, for logs and messages.

use std::error::Error;
use std::fmt;

/// An error with all its causes, outermost first. A cause that an error before it has in its own text, as those of many libraries
/// do, is not repeated.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Because {
        text: &'static str,
        source: Option<Box<Because>>,
    }

    #[test]
    fn all_causes_are_there_and_none_twice() {
        #[rustfmt::skip]
        let table: [(&[&str], &str); 4] = [
            (&["read a"],                               "read a"),
            (&["read a", "open it", "no such file"],    "read a: open it: no such file"),
            (&["read a: no such file", "no such file"], "read a: no such file"),
            (&["send: broken", "broken", "reset"],      "send: broken: reset"),
        ];
        for (texts, want) in table {
            let chain =
                texts.iter().rev().fold(None, |source, text| Some(Box::new(Because { text, source })));
            assert_eq!(Chain(&*chain.unwrap()).to_string(), want);
        }
    }
}
