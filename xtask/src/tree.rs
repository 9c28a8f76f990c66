//! Checks that the tree agrees with itself: paths and links in the documentation lead somewhere, and the two lock files name the same
//! crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// What these folders hold is made by programs, and not part of the repository.
const MADE: &[&str] = &["target", "node_modules", ".git", "corpus", "artifacts"];

/// Where a path may begin that leaves out its first folders, as in `client/src/kubeconfig`.
const BASES: &[&str] = &["", "crates", "crates/controllers", "crates/explain"];

/// All files of the repository with this extension.
fn files(extension: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (vec![], vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !MADE.iter().any(|made| path.ends_with(made)) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no file ends in .{extension}");
    found.sort();
    found
}

/// What is between two marks in each line, in order: for `marks` of "(" and ")" in "(a) b (c)", a and c.
fn between<'a>(text: &'a str, (open, close): (&'a str, &'a str)) -> impl Iterator<Item = &'a str> {
    text.lines().flat_map(move |line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let (_, after) = rest.split_once(open)?;
            let (inside, after) = after.split_once(close)?;
            rest = after;
            Some(inside)
        })
    })
}

/// The part of a path before the first component that stands for many, such as `<family>`, `*.yaml` or `NAME.yaml`.
fn fixed(path: &str) -> PathBuf {
    let stands_for_many = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        part.contains(['<', '*', '{'])
            || stem.len() > 2 && stem.chars().all(|c| c.is_ascii_uppercase()) && !root().join(part).exists()
    };
    path.split('/').take_while(|part| !stands_for_many(part)).collect()
}

/// Whether a word in code style is meant as a path in this repository, and not as one on a machine or on a server.
fn is_path(word: &str) -> bool {
    let is_top = |folder: &str| !folder.is_empty() && root().join(folder).is_dir();
    let mut parts = word.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    second.is_some() && !word.contains(char::is_whitespace) && (is_top(first) || second == Some("src"))
}

fn is_made(path: &Path) -> bool {
    MADE.iter().any(|made| path.components().any(|part| part.as_os_str() == *made))
}

/// The name by which a link refers to a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[test]
fn every_path_in_the_documentation_exists() {
    let (mut missing, mut checked) = (vec![], 0);
    for file in files("md") {
        let text = fs::read_to_string(&file).unwrap();
        for word in between(&text, ("`", "`")).filter(|word| is_path(word)) {
            let path = fixed(word);
            checked += 1;
            if !is_made(&path) && !BASES.iter().any(|base| root().join(base).join(&path).exists()) {
                missing.push(format!("{}: `{word}`", relative(&file)));
            }
        }
    }
    assert!(checked > 50, "only {checked} paths found");
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let (mut broken, mut checked) = (vec![], 0);
    for file in files("md") {
        let text = fs::read_to_string(&file).unwrap();
        // A link is never to a plain word: `[approve](approve)` would be a rule in a table of verbs.
        let is_link = |link: &&str| link.contains(['.', '#', '/']) && !link.contains("://");
        for link in between(&text, ("](", ")")).filter(is_link) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.clone() } else { file.with_file_name("").join(path) };
            checked += 1;
            let has_heading = || {
                let text = fs::read_to_string(&target).unwrap_or_default();
                text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !target.exists() || !heading.is_empty() && !has_heading() {
                broken.push(format!("{}: {link}", relative(&file)));
            }
        }
    }
    assert!(checked > 50, "only {checked} links found");
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_that_a_source_names_exists() {
    let (mut missing, mut checked) = (vec![], 0);
    for file in files("rs") {
        let text = fs::read_to_string(&file).unwrap();
        for (at, _) in text.match_indices("docs/") {
            let page = text[at..].split(|c: char| !c.is_alphanumeric() && !"/-_.".contains(c)).next();
            let Some(page) = page.and_then(|page| page.split_inclusive(".md").next()) else { continue };
            if page.ends_with(".md") && !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '/') {
                checked += 1;
                if !root().join(page).exists() {
                    missing.push(format!("{}: {page}", relative(&file)));
                }
            }
        }
    }
    assert!(checked > 5, "only {checked} pages found");
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

/// A tag can be moved to other code after it was reviewed; a digest cannot.
#[test]
fn every_action_of_a_workflow_is_named_by_its_digest() {
    let (mut wrong, mut checked) = (vec![], 0);
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let file = entry.unwrap().path();
        for line in fs::read_to_string(&file).unwrap().lines() {
            let Some((_, action)) = line.split_once("uses:") else { continue };
            checked += 1;
            let digest =
                action.split_once('@').map(|(_, version)| version.split(' ').next().unwrap_or_default());
            let is_digest =
                |digest: &str| digest.len() == 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digest.is_some_and(is_digest) {
                wrong.push(format!("{}: {}", relative(&file), action.trim()));
            }
        }
    }
    assert!(checked > 0, "no workflow uses an action");
    assert!(
        wrong.is_empty(),
        "name these by digest, as `actions/checkout@08c6903… # v5.0.0`:\n{}",
        wrong.join("\n")
    );
}

/// A crate in a lock file: its versions, and the names of what it depends on.
#[derive(Default)]
struct Locked {
    versions: BTreeSet<String>,
    dependencies: BTreeSet<String>,
}

fn lock(path: &str) -> BTreeMap<String, Locked> {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let mut crates = BTreeMap::<String, Locked>::new();
    for entry in text.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let mut lines = entry.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        let locked = crates.entry(field("name").unwrap().to_owned()).or_default();
        locked.versions.insert(field("version").unwrap().to_owned());
        let dependencies = entry.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\","));
        locked.dependencies.extend(dependencies.map(|name| name.split(' ').next().unwrap().to_owned()));
    }
    crates
}

/// What each of our crates depends on, by its manifest, not counting what only its tests do.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let real = |name: &str| {
        let renamed =
            workspace.lines().find_map(|line| line.strip_prefix(&format!("{name} = {{ package = \"")));
        renamed.and_then(|rest| rest.split('"').next()).unwrap_or(name).to_owned()
    };
    let of_manifest = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let mut sections = text.split("\n[");
        let name =
            text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?.to_owned();
        let dependencies = sections.find_map(|section| section.strip_prefix("dependencies]"))?;
        let names = dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
        Some((name, names.map(real).collect()))
    };
    files("toml").into_iter().filter(|path| path.ends_with("Cargo.toml")).filter_map(of_manifest).collect()
}

#[test]
fn fuzz_targets_are_built_with_the_same_crates() {
    let (ours, theirs, manifests) = (lock("Cargo.lock"), lock("fuzz/Cargo.lock"), manifests());
    let (mut wrong, mut compared) = (vec![], 0);
    for (name, fuzzed) in &theirs {
        // The others are those of libFuzzer.
        let Some(known) = ours.get(name) else { continue };
        compared += 1;
        if !fuzzed.versions.is_subset(&known.versions) {
            wrong.push(format!("{name} is {:?} and not {:?}", fuzzed.versions, known.versions));
        }
        if let Some(wanted) = manifests.get(name) {
            let (lacks, has) = (wanted - &fuzzed.dependencies, &fuzzed.dependencies - wanted);
            wrong.extend(lacks.iter().map(|other| format!("{name} depends on {other}")));
            wrong.extend(has.iter().map(|other| format!("{name} does not depend on {other}")));
        }
    }
    assert!(compared > 50, "only {compared} crates found");
    let mend =
        "cp Cargo.lock fuzz/ && cargo metadata --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null";
    assert!(wrong.is_empty(), "fuzz/Cargo.lock is stale ({mend}):\n{}", wrong.join("\n"));
}

#[test]
fn dist_names_every_crate_that_release_has_a_level_for() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let crates = |profile: &str| -> BTreeSet<String> {
        let (_, section) = manifest.split_once(&format!("[profile.{profile}.package]\n")).unwrap();
        let section = section.split("\n[").next().unwrap_or_default();
        section.lines().filter_map(|line| Some(line.split_once(".opt-level")?.0.to_owned())).collect()
    };
    let (release, dist) = (crates("release"), crates("dist"));
    assert!(!release.is_empty());
    let inherited: Vec<_> = release.difference(&dist).collect();
    assert!(inherited.is_empty(), "dist would build these as release does: {inherited:?}");
}
