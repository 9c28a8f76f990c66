//! The list of a program's parts (SBOM) in CycloneDX: what is compiled into it, under which licence, and what needs what.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::compiler::output;
use super::{Architecture, Release};

/// For one program, with the features that it is built with.
pub(super) fn of(program: &str, architecture: Architecture, release: &Release) -> anyhow::Result<Value> {
    let tree = output(Command::new(env!("CARGO")).current_dir(crate::root()).args([
        "tree",
        "--locked",
        "--package",
        program,
        "--edges",
        "normal",
        "--target",
        architecture.target(),
        "--prefix",
        "depth",
        "--format",
        "\t{p}\t{l}",
    ]))?;
    let lock = std::fs::read_to_string(crate::root().join("Cargo.lock")).context("read Cargo.lock")?;
    document(&tree, &checksums(&lock), release)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    version: String,
    licence: String,
    /// Whether it is a crate of this repository.
    is_own: bool,
}

impl Part {
    /// The package URL, which is how scanners look a crate up.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

fn document(
    tree: &str,
    checksums: &BTreeMap<(String, String), String>,
    release: &Release,
) -> anyhow::Result<Value> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The parts from the program down to the current line.
    let mut path: Vec<String> = Vec::new();
    for line in tree.lines() {
        let (depth, part) = parse(line).with_context(|| format!("cargo tree printed {line:?}"))?;
        let url = part.url();
        ensure!(depth <= path.len(), "cargo tree printed {line:?}, which has no parent");
        path.truncate(depth);
        if let Some(parent) = path.last() {
            needs.entry(parent.clone()).or_default().insert(url.clone());
        }
        needs.entry(url.clone()).or_default();
        path.push(url.clone());
        parts.entry(url).or_insert(part);
    }
    let program = path.first().context("cargo tree printed nothing")?;
    let components = parts.iter().filter(|(url, _)| *url != program);
    let components: Vec<Value> = components.map(|(_, part)| component(part, checksums)).collect();
    let mut main = component(&parts[program], checksums);
    main["type"] = "application".into();
    main["properties"] = json!([{"name": "commit", "value": release.commit}]);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": release.time.to_string(), "component": main},
        "components": components,
        "dependencies": needs
            .iter()
            .map(|(part, needed)| json!({"ref": part, "dependsOn": needed}))
            .collect::<Vec<Value>>(),
    }))
}

fn component(part: &Part, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": part.url(),
        "name": part.name,
        "version": part.version,
    });
    if !part.licence.is_empty() {
        component["licenses"] = json!([{"expression": part.licence}]);
    }
    if !part.is_own {
        component["purl"] = part.url().into();
    }
    if let Some(checksum) = checksums.get(&(part.name.clone(), part.version.clone())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

/// A line like `2<tab>serde v1.0.229 (proc-macro)<tab>MIT OR Apache-2.0 (*)`.
fn parse(line: &str) -> Option<(usize, Part)> {
    let mut fields = line.split('\t');
    let depth = fields.next()?.parse().ok()?;
    let mut package = fields.next()?.split_whitespace();
    let licence = fields.next()?.trim_end_matches("(*)").trim_end();
    let (name, version) = (package.next()?, package.next()?.strip_prefix('v')?);
    let is_own = package.any(|word| word.starts_with("(/"));
    // Old crates separate alternatives with a slash, which is not an SPDX expression.
    let licence = licence.replace('/', " OR ");
    Some((depth, Part { name: name.to_owned(), version: version.to_owned(), licence, is_own }))
}

/// By name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|p| Some(((value(p, "name")?, value(p, "version")?), value(p, "checksum")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const TREE: &str = "0\tflyball v0.1.0 (/src/bin/flyball)\tApache-2.0
1\tserde v1.0.2\tMIT OR Apache-2.0
2\tserde_derive v1.0.2 (proc-macro)\tMIT/Apache-2.0
1\tflyball-api v0.1.0 (/src/crates/api)\tApache-2.0
2\tserde v1.0.2\tMIT OR Apache-2.0 (*)
";
    const LOCK: &str = "version = 4

[[package]]
name = \"flyball\"
version = \"0.1.0\"

[[package]]
name = \"serde\"
version = \"1.0.2\"
source = \"registry+https://github.com/rust-lang/crates.io-index\"
checksum = \"abc\"
";

    fn release() -> Release {
        Release { version: "0.1.0".to_owned(), commit: "c0ffee".to_owned(), time: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn lists_each_part_once_with_what_needs_it() {
        let document = document(TREE, &checksums(LOCK), &release()).unwrap();
        assert_eq!(document["metadata"]["component"]["name"], "flyball");
        assert_eq!(document["metadata"]["component"]["properties"][0]["value"], "c0ffee");
        let expected = json!([
            {"type": "library", "bom-ref": "pkg:cargo/flyball-api@0.1.0", "name": "flyball-api", "version": "0.1.0",
             "licenses": [{"expression": "Apache-2.0"}]},
            {"type": "library", "bom-ref": "pkg:cargo/serde@1.0.2", "name": "serde", "version": "1.0.2",
             "licenses": [{"expression": "MIT OR Apache-2.0"}], "purl": "pkg:cargo/serde@1.0.2",
             "hashes": [{"alg": "SHA-256", "content": "abc"}]},
            {"type": "library", "bom-ref": "pkg:cargo/serde_derive@1.0.2", "name": "serde_derive", "version": "1.0.2",
             "licenses": [{"expression": "MIT OR Apache-2.0"}], "purl": "pkg:cargo/serde_derive@1.0.2"},
        ]);
        assert_eq!(document["components"], expected);
        let expected = json!([
            {"ref": "pkg:cargo/flyball-api@0.1.0", "dependsOn": ["pkg:cargo/serde@1.0.2"]},
            {"ref": "pkg:cargo/flyball@0.1.0", "dependsOn": ["pkg:cargo/flyball-api@0.1.0", "pkg:cargo/serde@1.0.2"]},
            {"ref": "pkg:cargo/serde@1.0.2", "dependsOn": ["pkg:cargo/serde_derive@1.0.2"]},
            {"ref": "pkg:cargo/serde_derive@1.0.2", "dependsOn": []},
        ]);
        assert_eq!(document["dependencies"], expected);
    }

    #[test]
    fn output_that_is_not_understood_is_an_error() {
        for (tree, expected) in [
            ("", "cargo tree printed nothing"),
            ("0\tflyball", "cargo tree printed \"0\\tflyball\""),
            ("1\ta v1\tMIT", "cargo tree printed \"1\\ta v1\\tMIT\", which has no parent"),
        ] {
            let error = document(tree, &BTreeMap::new(), &release()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
