//! Entries of one cluster in the text of a kubeconfig. The text is edited line by line, so that comments, order and whatever else is
//! in it stay; the result is then compared with what the same change makes of the parsed document. Where the two differ, as for a
//! document in flow style, the parsed one is written as JSON, which is YAML, too: comments are lost, and nothing else. (As YAML, a
//! text such as `12:30:45` would need quotes for some readers and not for others.)

use serde_yaml::{Mapping, Value};

/// The lists of a kubeconfig, and what their items hold beside a name.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];
const CURRENT: &str = "current-context";

/// What a cluster has in a kubeconfig: an item of the same name in each list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entries {
    pub(super) name: String,
    pub(super) cluster: Value,
    pub(super) user: Value,
}

impl Entries {
    /// From a kubeconfig with one cluster and one user.
    pub(super) fn of(kubeconfig: &str, name: &str) -> Option<Self> {
        let document: Value = serde_yaml::from_str(kubeconfig).ok()?;
        let only = |list: &str, what: &str| document.get(list)?.get(0)?.get(what).cloned();
        Some(Self {
            name: name.to_owned(),
            cluster: only("clusters", "cluster")?,
            user: only("users", "user")?,
        })
    }

    fn item(&self, what: &str) -> Value {
        let held = match what {
            "cluster" => self.cluster.clone(),
            "user" => self.user.clone(),
            _ => mapping([("cluster", self.name.clone().into()), ("user", self.name.clone().into())]),
        };
        mapping([("name", self.name.clone().into()), (what, held)])
    }
}

fn mapping<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Mapping(pairs.into_iter().map(|(key, value)| (Value::from(key), value)).collect::<Mapping>())
}

/// The text with these entries, which are the current ones then.
pub(super) fn with(text: &str, entries: &Entries) -> Result<String, String> {
    change(text, &entries.name, Some(entries))
}

/// The text without entries of this name. If they were the current ones, none are.
pub(super) fn without(text: &str, name: &str) -> Result<String, String> {
    change(text, name, None)
}

/// Whether the text says nothing: no entries, no comments, nothing that we do not know.
pub(super) fn is_bare(text: &str) -> bool {
    let Ok(document) = parse(text) else { return false };
    let says_nothing = |(key, value): (&Value, &Value)| match key.as_str() {
        Some("apiVersion" | "kind") => true,
        Some(CURRENT) => value.is_null() || value.as_str() == Some(""),
        Some("preferences") => value.is_null() || value.as_mapping().is_some_and(Mapping::is_empty),
        Some(list) => LISTS.iter().any(|(known, _)| *known == list) && is_empty(value),
        None => false,
    };
    !text.contains('#') && document.iter().all(says_nothing)
}

fn is_empty(list: &Value) -> bool {
    list.is_null() || list.as_sequence().is_some_and(Vec::is_empty)
}

/// Fails if a text is not a kubeconfig; the error says why.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

fn change(text: &str, name: &str, entries: Option<&Entries>) -> Result<String, String> {
    let wanted = changed(parse(text)?, name, entries);
    let edited = edit(text, name, entries).filter(|edited| parse(edited).is_ok_and(|found| found == wanted));
    match edited {
        Some(edited) => Ok(edited),
        None => match serde_json::to_string_pretty(&wanted) {
            Ok(text) => Ok(text + "\n"),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// A kubeconfig, with no more assumed about it than we need.
fn parse(text: &str) -> Result<Mapping, String> {
    let document = match serde_yaml::from_str(text) {
        Ok(Value::Null) => Mapping::new(),
        Ok(Value::Mapping(document)) => document,
        Ok(_) => return Err("it is not a mapping".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    for (list, _) in LISTS {
        match document.get(list) {
            None | Some(Value::Null) => {}
            Some(Value::Sequence(items)) if items.iter().all(Value::is_mapping) => {}
            Some(_) => return Err(format!("`{list}` in it is not a list of mappings")),
        }
    }
    Ok(document)
}

fn has_name(item: &Value, name: &str) -> bool {
    item.get("name").and_then(Value::as_str) == Some(name)
}

fn changed(mut document: Mapping, name: &str, entries: Option<&Entries>) -> Mapping {
    if let Some(entries) = entries {
        for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            if !document.contains_key(key) {
                document.insert(key.into(), value.into());
            }
        }
        document.insert(CURRENT.into(), entries.name.clone().into());
    } else if document.get(CURRENT).and_then(Value::as_str) == Some(name) {
        document.insert(CURRENT.into(), "".into());
    }
    for (list, what) in LISTS {
        let mut items = match document.get_mut(list) {
            Some(Value::Sequence(items)) => std::mem::take(items),
            _ if entries.is_none() => continue,
            _ => Vec::new(),
        };
        let at = items.iter().position(|item| has_name(item, name));
        items.retain(|item| !has_name(item, name));
        if let Some(entries) = entries {
            items.insert(at.unwrap_or(items.len()).min(items.len()), entries.item(what));
        }
        document.insert(list.into(), Value::Sequence(items));
    }
    document
}

/// The same change in the text. Nothing, or something else than wanted, if the text is not in block style.
fn edit(text: &str, name: &str, entries: Option<&Entries>) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if entries.is_some() {
        for (key, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            if key_line(&lines, key).is_none() {
                lines.push(format!("{key}: {value}"));
            }
        }
    }
    for (list, what) in LISTS {
        let item = match entries {
            Some(entries) => Some(serde_yaml::to_string(&vec![entries.item(what)]).ok()?),
            None => None,
        };
        edit_list(&mut lines, list, name, item.as_deref())?;
    }
    let current = match entries {
        Some(entries) => {
            Some(serde_yaml::to_string(&mapping([(CURRENT, entries.name.clone().into())])).ok()?)
        }
        None => Some(format!("{CURRENT}: \"\"")),
    };
    let line = current?.trim_end().to_owned();
    match (key_line(&lines, CURRENT), entries) {
        (Some(at), Some(_)) => lines[at] = line,
        (Some(at), None) => {
            let value: Value = serde_yaml::from_str(&lines[at]).ok()?;
            if value.get(CURRENT).and_then(Value::as_str) == Some(name) {
                lines[at] = line;
            }
        }
        (None, Some(_)) => lines.push(line),
        (None, None) => {}
    }
    lines.push(String::new());
    Some(lines.join("\n"))
}

/// The line of a key of the document.
fn key_line(lines: &[String], key: &str) -> Option<usize> {
    lines.iter().position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}

/// Replaces, appends or removes an item of a list.
fn edit_list(lines: &mut Vec<String>, list: &str, name: &str, item: Option<&str>) -> Option<()> {
    let Some(at) = key_line(lines, list) else {
        if let Some(item) = item {
            lines.push(format!("{list}:"));
            lines.extend(item.lines().map(str::to_owned));
        }
        return Some(());
    };
    let value: Value = serde_yaml::from_str(&lines[at]).ok()?;
    if !value.get(list).is_some_and(is_empty) {
        return None; // in flow style
    }
    if item.is_some() {
        lines[at] = format!("{list}:");
    }
    let section = at + 1..section_end(lines, at + 1);
    let indent = |line: &String| line.len() - line.trim_start().len();
    let is_item = |line: &String| line.trim_start() == "-" || line.trim_start().starts_with("- ");
    let dash = lines[section.clone()].iter().find(|line| is_item(line)).map(indent).unwrap_or_default();
    let begins = |line: &String| is_item(line) && indent(line) == dash;
    let starts: Vec<usize> = section.clone().filter(|at| begins(&lines[*at])).collect();
    let ends = starts.iter().skip(1).copied().chain([section.end]);
    let mut ours = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        let parsed: Value = serde_yaml::from_str(&lines[start..end].join("\n")).ok()?;
        if parsed.get(0).is_some_and(|item| has_name(item, name)) {
            ours.push(start..end);
        }
    }
    let fresh: Vec<String> =
        item.map(|item| item.lines().map(|line| format!("{:dash$}{line}", "")).collect()).unwrap_or_default();
    let place = ours.first().cloned().unwrap_or(section.end..section.end);
    for other in ours.iter().skip(1).rev() {
        lines.drain(other.clone());
    }
    lines.splice(place, fresh);
    if item.is_none() && !ours.is_empty() && ours.len() == starts.len() {
        lines[at] = format!("{list}: []");
    }
    Some(())
}

/// Where the value of a key ends: before the next key, and before the comments and empty lines above that.
fn section_end(lines: &[String], from: usize) -> usize {
    let is_inside = |line: &String| {
        line.is_empty() || line.starts_with([' ', '#', '-', '\t']) && !line.starts_with("---")
    };
    let next = lines.iter().skip(from).position(|line| !is_inside(line)).map_or(lines.len(), |n| from + n);
    let is_aside = |line: &String| line.trim().is_empty() || line.starts_with('#');
    lines[from..next].iter().rposition(|line| !is_aside(line)).map_or(from, |n| from + n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(server: &str) -> Entries {
        let pair = |key: &str, value: &str| mapping([(key, value.into())]);
        Entries { name: "flyball-a".to_owned(), cluster: pair("server", server), user: pair("token", "t") }
    }

    const OTHERS: &str = "\
# My clusters.
apiVersion: v1
kind: Config
preferences: {colors: true} # kept
current-context: prod
clusters:
- cluster:
    server: https://prod   # do not touch
    x-team: blue
  name: prod

# Who I am.
users:
  - name: me
    user: {exec: {command: login}}
contexts:
- context: {cluster: prod, user: me}
  name: prod
unknown: &a [1, 2]
again: *a
";

    #[test]
    fn entries_are_added_changed_and_removed_and_the_rest_stays_letter_for_letter() {
        let added = with(OTHERS, &entries("https://1")).unwrap();
        let want = OTHERS
            .replace("current-context: prod", "current-context: flyball-a")
            .replace("  name: prod\n\n", "  name: prod\n- name: flyball-a\n  cluster:\n    server: https://1\n\n")
            .replace("command: login}}\n", "command: login}}\n  - name: flyball-a\n    user:\n      token: t\n")
            .replace(
                "  name: prod\nunknown",
                "  name: prod\n- name: flyball-a\n  context:\n    cluster: flyball-a\n    user: flyball-a\nunknown",
            );
        assert_eq!(added, want);
        let moved = with(&added, &entries("https://2")).unwrap();
        assert_eq!(moved, want.replace("https://1", "https://2"), "an item is replaced where it is");
        let removed = without(&moved, "flyball-a").unwrap();
        assert_eq!(removed, OTHERS.replace("current-context: prod", "current-context: \"\""));
        let elsewhere = moved.replace("current-context: flyball-a", "current-context: prod");
        assert_eq!(without(&elsewhere, "flyball-a").unwrap(), OTHERS, "another current context stays");
    }

    #[test]
    fn every_shape_of_kubeconfig_takes_them() {
        #[rustfmt::skip]
        let table = [
            ("nothing",            ""),
            ("a comment",          "# mine\n"),
            ("lists without items","apiVersion: v1\nkind: Config\nclusters: []\nusers: null\ncontexts:\ncurrent-context: \"\"\n"),
            ("kubectl's first",    "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n"),
            ("JSON",               "{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"clusters\": [{\"name\": \"p\", \"cluster\": {}}]}"),
            ("flow style",         "clusters: [{name: p, cluster: {}}]\ncontexts: []\n"),
            ("values that look like others", "{\"clusters\": [], \"users\": [{\"name\": \"p\", \"user\": {\"token\": \"1_000\", \"password\": \"12:30:45\", \"username\": \"on\"}}]}"),
            ("a document marker",  "---\napiVersion: v1\nkind: Config\nclusters:\n- name: p\n  cluster: {}\n"),
            ("no line end",        "apiVersion: v1\nkind: Config\nclusters:\n- name: p\n  cluster: {}"),
            ("a block of text",    "kind: Config\nusers:\n- name: p\n  user:\n    token: |\n      clusters:\n      - name: flyball-a\nclusters:\n- name: p\n"),
        ];
        for (case, text) in table {
            let before = parse(text).unwrap();
            let added = with(text, &entries("https://1")).unwrap();
            let found = parse(&added).unwrap_or_else(|error| panic!("{case}: {error}\n{added}"));
            assert_eq!(found, changed(before.clone(), "flyball-a", Some(&entries("https://1"))), "{case}");
            let again = with(&added, &entries("https://1")).unwrap();
            assert_eq!(again, added, "{case}: a second time changes nothing");
            let removed = parse(&without(&added, "flyball-a").unwrap()).unwrap();
            for (list, _) in LISTS {
                let items = |document: &Mapping| document.get(list).and_then(|l| l.as_sequence().cloned());
                assert_eq!(items(&removed), items(&before).or(Some(vec![])), "{case}: {list}");
            }
        }
        let added =
            with("users: [{name: p, user: {token: \"1_000\", username: 'on'}}]", &entries("https://1"))
                .unwrap();
        assert!(
            added.contains("\"1_000\"") && added.contains("\"on\""),
            "YAML 1.1 needs the quotes: {added}"
        );
        for bare in ["", "clusters: []\nusers:\npreferences: {}\ncurrent-context: \"\"\n"] {
            assert!(is_bare(bare), "{bare}");
        }
        for not in
            [OTHERS, "a: [", "x: 1", "# mine\n", "current-context: prod", "preferences: {colors: true}"]
        {
            assert!(!is_bare(not), "{not}");
        }
    }

    #[test]
    fn a_broken_kubeconfig_is_named_and_not_changed() {
        #[rustfmt::skip]
        let table = [
            ("clusters: [",              "did not find expected"),
            ("a\nb",                     "not a mapping"),
            ("clusters: {a: b}",         "`clusters` in it is not a list of mappings"),
            ("contexts: [prod]",         "`contexts` in it is not a list of mappings"),
        ];
        for (text, why) in table {
            for outcome in [with(text, &entries("x")), without(text, "flyball-a")] {
                let error = outcome.unwrap_err();
                assert!(error.contains(why), "{text}: {error}");
            }
        }
    }
}
