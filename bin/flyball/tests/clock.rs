//! `flyball clock` as a user has it.

#[path = "common/home.rs"]
mod home;

use anyhow::{Context, ensure};
use flyball_api::time::{SignedDuration, Timestamp, parse_rfc3339};

use home::Home;

const UP: [&str; 6] = ["up", "--detach", "--port", "0", "--nodes", "1"];

#[test]
fn the_clock_of_a_running_cluster_is_shown_moved_and_made_faster() -> anyhow::Result<()> {
    let home = Home::new()?;
    let said = home.fails(&["clock"])?;
    ensure!(said.contains("no cluster runs: start one with `flyball up`"), "{said}");
    home.flyball(&[&UP[..], &["--data-dir", "data"]].concat())?;
    let said = home.flyball(&["clock"])?;
    ensure!(
        said.contains("The clock of \"flyball\" shows 20") && said.contains("the time of this machine"),
        "{said}"
    );
    let before = whole_seconds(Timestamp::now())?;
    let said = home.flyball(&["clock", "+1h"])?;
    ensure!(
        shown(&said)? >= before + SignedDuration::from_hours(1) && said.contains(" ahead of this machine."),
        "{said}"
    );
    let said = home.flyball(&["clock", "+30m", "--speed", "60x"])?;
    ensure!(said.contains("ahead of this machine, and goes 60 times as fast"), "{said}");
    let said = home.flyball(&["clock", "--speed", "1x"])?;
    ensure!(said.contains(", 1h ") && !said.contains("times as fast"), "{said}");
    // It is kept with the data.
    home.flyball(&["down"])?;
    home.flyball(&[&UP[..], &["--data-dir", "data"]].concat())?;
    let said = home.flyball(&["clock"])?;
    ensure!(said.contains(", 1h "), "{said}");
    home.flyball(&["down", "--purge"])?;
    ensure!(!home.path("data").exists(), "the file of the clock was left behind");
    Ok(())
}

/// The time that `flyball clock` prints, which has no fraction of a second.
fn shown(said: &str) -> anyhow::Result<Timestamp> {
    let time = said.split_whitespace().find_map(|word| parse_rfc3339(word.trim_end_matches(',')));
    time.with_context(|| format!("no time in {said:?}"))
}

fn whole_seconds(time: Timestamp) -> anyhow::Result<Timestamp> {
    Ok(Timestamp::from_second(time.as_second())?)
}

#[test]
fn what_no_clock_does_is_refused() -> anyhow::Result<()> {
    let home = Home::new()?;
    for (arguments, why) in [
        (["clock", "-1h"], "unexpected argument"),
        (["clock", "soon"], "is not a time such as +90s, +1h30m or +2d"),
        (["clock", "--speed=0x"], "a whole number from 1x to 10000x is needed"),
    ] {
        let output = home.run(&arguments)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
    Ok(())
}
