//! "Did you mean …?" for misspelt names in error messages.

/// The candidate closest to `name` by edit distance, if it is close enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any known name: not a misspelling.
    if name.len() > 128 {
        return None;
    }
    let name = name.to_lowercase();
    let tolerance = 1 + name.chars().count() / 6;
    let scored =
        candidates.into_iter().map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate));
    scored.filter(|(score, _)| *score <= tolerance).min_by_key(|(score, _)| *score).map(|(_, found)| found)
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_found_and_other_names_are_not() {
        let known = ["leader-elect", "leader-elect-renew-deadline", "kubeconfig"];
        #[rustfmt::skip]
        let table = [
            ("leader-elct",                Some("leader-elect")),
            ("Leader-Elect",               Some("leader-elect")),
            ("leader-elect-renew-dedline", Some("leader-elect-renew-deadline")),
            ("kube-config",                Some("kubeconfig")),
            ("port",                       None),
            ("",                           None),
        ];
        for (given, want) in table {
            assert_eq!(nearest(given, known), want, "{given:?}");
        }
    }
}
