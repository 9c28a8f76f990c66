//! The key exchange groups of TLS that `--tls-curve-preferences` allows. As upstream, the flag's order means nothing.

use rustls::crypto::{SupportedKxGroup, ring};

use crate::ServingOptions;

/// Every group that upstream's flag accepts (Go 1.26 `tls.CurveID`).
const KNOWN: [(i32, &str); 7] = [
    (23, "P-256"),
    (24, "P-384"),
    (25, "P-521"),
    (29, "X25519"),
    (4587, "SecP256r1MLKEM768"),
    (4588, "X25519MLKEM768"),
    (4589, "SecP384r1MLKEM1024"),
];

const FLAG: &str = "tls-curve-preferences";

/// What upstream refuses, and what would leave no group at all.
pub(super) fn problems(options: &ServingOptions) -> Vec<String> {
    let (given, flag) = (&options.curve_preferences, options.flag(FLAG));
    let mut problems = vec![];
    for (at, id) in given.iter().enumerate() {
        if !(1..=i32::from(u16::MAX)).contains(id) {
            problems.push(format!("{flag}: {id} is not between 1 and {}", u16::MAX));
        } else if given[..at].contains(id) {
            problems.push(format!("{flag}: {id} is given twice"));
        } else if !KNOWN.iter().any(|(known, _)| known == id) {
            let all: Vec<String> = KNOWN.iter().map(|(id, name)| format!("{id} ({name})")).collect();
            problems.push(format!("{flag}: there is no group {id}; there are {}", all.join(", ")));
        }
    }
    if problems.is_empty() && allowed(options).is_empty() {
        let usable: Vec<String> = KNOWN
            .iter()
            .filter(|(id, _)| is_usable(*id))
            .map(|(id, name)| format!("{id} ({name})"))
            .collect();
        problems.push(format!("{flag}: none of those given can be used; usable are {}", usable.join(", ")));
    }
    problems
}

/// The groups that were given and cannot be used.
pub(super) fn unusable(options: &ServingOptions) -> Vec<&'static str> {
    let given = |id: &i32| options.curve_preferences.contains(id);
    KNOWN.iter().filter(|(id, _)| given(id) && !is_usable(*id)).map(|(_, name)| *name).collect()
}

/// The groups to offer, in the order of the library.
pub(super) fn allowed(options: &ServingOptions) -> Vec<&'static dyn SupportedKxGroup> {
    let given = &options.curve_preferences;
    let is_allowed = |group: &&'static dyn SupportedKxGroup| given.is_empty() || given.contains(&id(*group));
    ring::ALL_KX_GROUPS.iter().copied().filter(is_allowed).collect()
}

fn is_usable(wanted: i32) -> bool {
    ring::ALL_KX_GROUPS.iter().any(|group| id(*group) == wanted)
}

fn id(group: &dyn SupportedKxGroup) -> i32 {
    i32::from(u16::from(group.name()))
}

#[cfg(test)]
mod tests {
    use rustls::NamedGroup;

    use super::*;

    #[test]
    fn only_groups_that_are_given_are_offered() {
        use NamedGroup::{X25519, secp256r1, secp384r1};
        type Row = (&'static [i32], &'static [NamedGroup], &'static [&'static str], &'static str);
        #[rustfmt::skip]
        let table: &[Row] = &[
            // given                offered                         unusable                problem
            (&[],                   &[X25519, secp256r1, secp384r1], &[],                   ""),
            (&[24],                 &[secp384r1],                   &[],                    ""),
            (&[24, 29],             &[X25519, secp384r1],           &[],                    ""),
            (&[23, 25, 4588],       &[secp256r1],                   &["P-521", "X25519MLKEM768"], ""),
            (&[25],                 &[],                            &["P-521"],
                "--tls-curve-preferences: none of those given can be used; usable are 23 (P-256), 24 (P-384), 29 (X25519)"),
            (&[0],                  &[],                            &[],                    "--tls-curve-preferences: 0 is not between 1 and 65535"),
            (&[-1],                 &[],                            &[],                    "--tls-curve-preferences: -1 is not between 1 and 65535"),
            (&[65536],              &[],                            &[],                    "--tls-curve-preferences: 65536 is not between 1 and 65535"),
            (&[23, 23],             &[secp256r1],                   &[],                    "--tls-curve-preferences: 23 is given twice"),
            (&[23, 26],             &[secp256r1],                   &[],
                "--tls-curve-preferences: there is no group 26; there are 23 (P-256), 24 (P-384), 25 (P-521), 29 (X25519), \
                 4587 (SecP256r1MLKEM768), 4588 (X25519MLKEM768), 4589 (SecP384r1MLKEM1024)"),
        ];
        for (given, offered, wasted, problem) in table {
            let options = ServingOptions { curve_preferences: given.to_vec(), ..ServingOptions::default() };
            let names: Vec<NamedGroup> = allowed(&options).iter().map(|group| group.name()).collect();
            assert_eq!(names, *offered, "{given:?}");
            assert_eq!(unusable(&options), *wasted, "{given:?}");
            assert_eq!(problems(&options).join("\n"), *problem, "{given:?}");
        }
    }
}
