//! YAML in which only `true` and `false` are booleans, so that `on` stays a word.

use regex::Regex;
use serde_json::Value;

/// Parses a document. `True` and its like are read differently by different parsers, so they must be quoted.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let ambiguous = Regex::new(r#"(?:^|[:,\[\-])\s+(True|TRUE|False|FALSE)\s*(?:[,}\]#]|$)"#)
        .map_err(|e| e.to_string())?;
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = ambiguous.captures(line).and_then(|c| c.get(1)) {
            let word = word.as_str();
            return Err(format!(
                "line {}: write \"{word}\" for the text or {} for the boolean",
                number + 1,
                word.to_lowercase()
            ));
        }
    }
    serde_yaml::from_str(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_true_and_false_are_booleans() {
        let parsed = parse("{a: on, b: yes, c: true, d: no, e: \"True\", f: off, g: Ready=True}").unwrap();
        assert_eq!(
            parsed,
            json!({"a": "on", "b": "yes", "c": true, "d": "no", "e": "True", "f": "off", "g": "Ready=True"})
        );
    }

    #[test]
    fn what_parsers_disagree_on_is_refused_with_its_line() {
        for text in ["a: 1\nb: True", "x: [1, FALSE]", "{a: False, b: 1}", "- True"] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("line ") && error.contains("boolean"), "{text}: {error}");
        }
    }
}
