//! `flyball record` and `flyball replay` as processes: what they print, and that two processes decide the same.

#[path = "common/home.rs"]
mod home;

use anyhow::{Context as _, ensure};

use home::Home;

const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/replay/tests/playground.recording");

/// The digest of all decisions: `412 decisions (0123…), in 0.5 s`.
fn digest(said: &str) -> anyhow::Result<&str> {
    let after = said.split_once("decisions (").context("no decisions")?.1;
    Ok(after.split_once(')').context("no digest")?.0)
}

#[test]
fn two_processes_decide_the_same_and_a_lost_zone_makes_a_difference() -> anyhow::Result<()> {
    let home = Home::new()?;
    let first = home.flyball(&["replay", RECORDING, "--times", "2"])?;
    ensure!(first.contains("2 replays made the same decisions."), "{first}");
    // Another process has other seeds for its hash maps.
    let second = home.flyball(&["replay", RECORDING, "--lose-zone", "zone-c@+5m"])?;
    ensure!(digest(&first)? == digest(&second)?, "{first}{second}");
    ensure!(
        second.contains("With the changes: ") && second.contains("node-lifecycle-controller"),
        "{second}"
    );
    let json = home.flyball(&["replay", RECORDING, "-o", "json"])?;
    for line in json.lines() {
        let decision: serde_json::Value = serde_json::from_str(line)?;
        ensure!(decision["controller"].is_string(), "{line}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_replayed_is_named_in_one_line() -> anyhow::Result<()> {
    let home = Home::new()?;
    std::fs::write(home.path("text"), "no recording")?;
    std::fs::write(home.path("empty.yaml"), "# nothing")?;
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["replay", "none"],                                             "open none: No such file"),
        (&["replay", "text"],                                             "the recording text cannot be used: this is not a file of `flyball record`"),
        (&["replay", RECORDING, "--lose-node", "node-9"],                 "there is no node \"node-9\" in the recording; there are: node-1, node-2, node-3"),
        (&["replay", RECORDING, "--lose-zone", "b@+1m"],                  "there is no zone \"b\" in the recording; there are: zone-a, zone-b, zone-c"),
        (&["replay", RECORDING, "--lose-node", "node-1@23:00"],           "the time of --lose-node node-1 is not within the recording"),
        (&["replay", RECORDING, "--apply", "empty.yaml"],                 "empty.yaml: there is no object in it"),
        (&["replay", RECORDING, "--flag=--no-such-flag"],                 "unknown flag"),
        (&["record", "new", "--kubeconfig", "none"],                      "there is no file"),
    ];
    for (arguments, want) in table {
        let said = home.fails(arguments)?;
        ensure!(said.contains(want) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
    ensure!(!home.path("new").exists(), "nothing is left behind");
    Ok(())
}

#[test]
fn a_running_playground_is_recorded() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&["up", "--detach", "--port", "0", "--nodes", "2"])?;
    let said = home.flyball(&["record", "play.recording", "--for", "1s"])?;
    ensure!(said.contains("`flyball replay play.recording` plays them."), "{said}");
    let again = home.fails(&["record", "play.recording", "--for", "1s"])?;
    ensure!(again.contains("play.recording exists already"), "{again}");
    home.flyball(&["down"])?;
    let gone =
        home.fails(&["record", "other.recording", "--for", "1s", "--kubeconfig", ".flyball/kubeconfig"])?;
    ensure!(!home.path("other.recording").exists(), "{gone}");
    let said = home.flyball(&["replay", "play.recording"])?;
    ensure!(said.contains("0 are played"), "{said}");
    Ok(())
}
