//! `--emulated-version` and `--min-compatibility-version`.

use flyball_runtime::version::{CURRENT, Minor, OLDEST, Versions};

use crate::options::Options;

/// The versions that the flags name; every problem is one line.
pub(crate) fn versions(options: &Options) -> Result<Versions, Vec<String>> {
    let emulated = one_of("emulated-version", &options.emulated_version, CURRENT);
    let newest = emulated.as_ref().ok().copied().flatten().unwrap_or(CURRENT);
    let min_compatibility = one_of("min-compatibility-version", &options.min_compatibility_version, newest);
    match (emulated, min_compatibility) {
        (Ok(emulated), Ok(min_compatibility)) => {
            let versions = Versions::emulating(emulated.unwrap_or(CURRENT));
            Ok(Versions {
                min_compatibility: min_compatibility.unwrap_or(versions.min_compatibility),
                ..versions
            })
        }
        (emulated, min_compatibility) => {
            Err(emulated.err().into_iter().chain(min_compatibility.err()).collect())
        }
    }
}

/// The version that a flag names, at most once.
fn one_of(flag: &str, values: &[String], newest: Minor) -> Result<Option<Minor>, String> {
    let mut found = None;
    for value in values {
        let (component, version) = match value.split_once('=') {
            Some((component, version)) => (component.trim(), version.trim()),
            None => ("kube", value.as_str()),
        };
        if component != "kube" {
            return Err(format!(
                "--{flag}: there is no component {component:?} here; the only one is \"kube\""
            ));
        }
        let version =
            parse(version).filter(|version| (OLDEST..=newest).contains(version)).ok_or_else(|| {
                format!("--{flag} must be [kube=]major.minor between {OLDEST} and {newest}, not {value:?}")
            })?;
        if found.replace(version).is_some() {
            return Err(format!("--{flag} names more than one version: {}", values.join(",")));
        }
    }
    Ok(found)
}

/// As upstream reads versions: `1.34`, also with a `v` before it and with `.0` or other words after it.
fn parse(text: &str) -> Option<Minor> {
    let text = text.trim_start();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].trim_end_matches('.').split('.');
    let major = numbers.next().filter(|major| *major == "0" || !major.starts_with('0'))?;
    let (major, minor) = (major.parse().ok()?, numbers.next()?.parse().ok()?);
    let patch: u32 = numbers.next().map_or(Some(0), |patch| patch.parse().ok())?;
    (patch == 0).then_some(Minor::new(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(emulated: &str, min_compatibility: &str) -> String {
        let list = |text: &str| text.split(',').filter(|v| !v.is_empty()).map(str::to_owned).collect();
        let options = Options {
            emulated_version: list(emulated),
            min_compatibility_version: list(min_compatibility),
            ..Options::default()
        };
        match versions(&options) {
            Ok(Versions { emulated, min_compatibility }) => format!("{emulated} {min_compatibility}"),
            Err(problems) => problems.join("; "),
        }
    }

    #[test]
    fn versions_are_read_as_upstream_reads_them() {
        #[rustfmt::skip]
        let table = [
            // emulated            min     want
            ("",                   "",     "1.36 1.35"),
            ("1.34",               "",     "1.34 1.33"),
            ("kube=1.34",          "",     "1.34 1.33"),
            (" kube = v1.34.0",    "",     "1.34 1.33"),
            ("1.034-alpha.1",      "",     "1.34 1.33"),
            ("1.33",               "",     "1.33 1.33"),
            ("1.35",               "1.33", "1.35 1.33"),
            ("",                   "1.36", "1.36 1.36"),
            ("1.34.2",             "",     "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"1.34.2\""),
            ("1.32",               "",     "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"1.32\""),
            ("1.37",               "",     "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"1.37\""),
            ("01.34",              "",     "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"01.34\""),
            ("kube=",              "",     "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"kube=\""),
            ("1.34,kube=1.34",     "",     "--emulated-version names more than one version: 1.34,kube=1.34"),
            ("wardle=1.2",         "",     "--emulated-version: there is no component \"wardle\" here; the only one is \"kube\""),
            ("1.34",               "1.35", "--min-compatibility-version must be [kube=]major.minor between 1.33 and 1.34, not \"1.35\""),
            ("1",                  "1.3",  "--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"1\"; \
                --min-compatibility-version must be [kube=]major.minor between 1.33 and 1.36, not \"1.3\""),
        ];
        for (emulated, min_compatibility, want) in table {
            assert_eq!(read(emulated, min_compatibility), want, "{emulated:?} {min_compatibility:?}");
        }
    }
}
