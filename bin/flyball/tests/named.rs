//! Named clusters as a user has them: several at a time, in the background, listed, ended, killed.

#[path = "common/home.rs"]
mod home;

use std::os::unix::fs::PermissionsExt as _;

use anyhow::ensure;
use rustix::process::Signal;

use home::Home;

fn kubectl() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS")?;
    Some(std::path::PathBuf::from(folder).join("kubectl")).filter(|path| path.is_file())
}

const UP: [&str; 6] = ["up", "--detach", "--port", "0", "--nodes", "1"];

fn up(more: &[&'static str]) -> Vec<&'static str> {
    [&UP[..], more].concat()
}

#[test]
fn two_clusters_run_in_the_background_and_leave_nothing_behind() -> anyhow::Result<()> {
    let home = Home::new()?;
    ensure!(home.flyball(&["list"])?.contains("There is no cluster"));
    let greeting = home.flyball(&up(&["--name", "a"]))?;
    for want in [
        "The cluster \"a\" is up after",
        "flyball-a is the current context of",
        "`flyball down a` ends it. Its log: ",
    ] {
        ensure!(greeting.contains(want), "{greeting}");
    }
    home.flyball(&["up", "--detach", "--port", "0", "--nodes", "2", "--name", "b"])?;

    let listed = home.list()?;
    let shown: Vec<_> = listed
        .iter()
        .map(|one| (one["name"].as_str(), one["state"].as_str(), one["nodes"].as_u64()))
        .collect();
    ensure!(
        shown == [(Some("a"), Some("running"), Some(1)), (Some("b"), Some("running"), Some(2))],
        "{listed:?}"
    );
    ensure!(
        listed[0]["server"] != listed[1]["server"] && listed[0]["memoryBytes"].as_u64() > Some(1 << 20),
        "{listed:?}"
    );
    let table = home.flyball(&["list"])?;
    ensure!(table.starts_with("NAME ") && table.lines().count() == 3, "{table}");

    let again = home.fails(&up(&["--name", "a"]))?;
    ensure!(
        again.contains(
            "the cluster \"a\" is already running: stop it with `flyball down a`, or choose another --name"
        ),
        "{again}"
    );
    ensure!(home.flyball(&["node", "list", "--name", "b"])?.contains("node-2"));
    ensure!(home.flyball(&["node", "stop", "node-2", "--name", "b"])?.contains("node-2 is off"));
    ensure!(
        home.fails(&["node", "list"])?.contains("several clusters run (a, b); say which one with --name")
    );
    if let Some(kubectl) = kubectl() {
        ensure!(home.kubectl(&kubectl, "config current-context")?.trim() == "flyball-b");
        ensure!(home.kubectl(&kubectl, "get nodes --context flyball-a -o name")?.trim() == "node/node-1");
        ensure!(home.kubectl(&kubectl, "get nodes -o name")?.contains("node/node-2"));
    }
    ensure!(home.flyball(&["down", "b"])?.contains("The cluster \"b\" has stopped."));
    ensure!(home.flyball(&["node", "list"])?.contains("node-1"), "the only one needs no name");
    ensure!(home.fails(&["down", "b"])?.contains("there is no cluster \"b\"; there is: a"));
    home.flyball(&["down", "a"])?;
    ensure!(home.is_empty() && !home.path(".kube/config").exists());
    Ok(())
}

#[test]
fn the_context_is_one_of_many_and_goes_with_its_cluster() -> anyhow::Result<()> {
    const MINE: &str = "# mine\napiVersion: v1\nkind: Config\nclusters:\n- name: prod # production\n  cluster: {server: 'https://prod', x-note: kept}\ncontexts: []\ncurrent-context: prod\nusers: []\n";
    let home = Home::new()?;
    std::fs::create_dir(home.path(".kube"))?;
    let config = home.path(".kube/config");
    std::fs::write(&config, MINE)?;
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600))?;
    home.flyball(&up(&[]))?;
    let merged = std::fs::read_to_string(&config)?;
    ensure!(merged.starts_with("# mine\n") && merged.contains("- name: prod # production\n  cluster: {server: 'https://prod', x-note: kept}\n- name: flyball-flyball\n"), "{merged}");
    ensure!(merged.contains("current-context: flyball-flyball"), "{merged}");
    ensure!(std::fs::metadata(&config)?.permissions().mode() & 0o777 == 0o600);
    ensure!(home.path(".flyball/kubeconfig").exists(), "where it always was");
    home.flyball(&["down"])?;
    ensure!(
        std::fs::read_to_string(&config)? == MINE.replace("current-context: prod", "current-context: \"\"")
    );
    ensure!(!home.path(".flyball/kubeconfig").exists());

    std::fs::write(&config, "clusters: [")?;
    let refused = home.fails(&up(&[]))?;
    ensure!(refused.contains(".kube/config is not a kubeconfig, so it is left alone"), "{refused}");
    ensure!(std::fs::read_to_string(&config)? == "clusters: [" && home.is_empty());
    let alone = home.flyball(&up(&["--no-kubeconfig"]))?;
    ensure!(alone.contains("export KUBECONFIG=") && alone.contains(".flyball/kubeconfig"), "{alone}");
    home.flyball(&["down"])?;
    ensure!(std::fs::read_to_string(&config)? == "clusters: [");
    Ok(())
}

#[test]
fn a_start_in_the_background_that_fails_says_why_and_leaves_nothing() -> anyhow::Result<()> {
    let home = Home::new()?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let failed = home.fails(&["up", "--detach", "--port", &port])?;
    ensure!(
        failed.trim()
            == format!(
                "flyball: port {port} is taken; choose another one with --port, or any free one with --port 0"
            ),
        "{failed}"
    );
    let failed = home.fails(&["up", "--detach", "--controllers", "-x"])?;
    ensure!(failed.contains("starts no controller"), "{failed}");
    ensure!(home.is_empty() && !home.path(".kube/config").exists());
    let wrong = home.run(&["up", "--name", "A"])?;
    ensure!(
        wrong.status.code() == Some(2)
            && String::from_utf8_lossy(&wrong.stderr).contains("lower-case letters")
    );
    Ok(())
}

#[test]
fn what_a_killed_cluster_leaves_is_no_running_cluster() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&[]))?;
    home.kill("flyball")?;
    ensure!(home.list()?[0]["state"] == "killed");
    home.flyball(&up(&[]))?;
    ensure!(home.list()?[0]["state"] == "running");
    home.kill("flyball")?;
    let said = home.flyball(&["down"])?;
    ensure!(said.contains("its process was killed") && said.contains("What it left is removed"), "{said}");
    ensure!(home.is_empty() && !home.path(".kube/config").exists());
    Ok(())
}

#[test]
fn a_cluster_with_data_is_kept_until_it_is_purged() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&["--name", "a", "--data-dir", "data"]))?;
    let said = home.flyball(&["down", "a"])?;
    ensure!(
        said.contains("Its data are kept in ") && said.contains("flyball up --name a --data-dir "),
        "{said}"
    );
    ensure!(home.list()?[0]["state"] == "stopped" && home.path(".kube/config").exists());
    ensure!(home.fails(&["down", "a"])?.contains("does not run; its data are kept in"));
    home.flyball(&up(&["--name", "b", "--data-dir", "data"]))?;
    let refused = home.fails(&["down", "a", "--purge"])?;
    ensure!(
        refused.contains("are kept: the data directory") && refused.contains("is in use by another"),
        "{refused}"
    );
    home.flyball(&["down", "b", "--purge"])?;
    home.flyball(&up(&["--name", "a", "--data-dir", "data"]))?;
    let said = home.flyball(&["down", "a", "--purge"])?;
    ensure!(said.contains("are removed"), "{said}");
    ensure!(home.is_empty() && !home.path("data").exists() && !home.path(".kube/config").exists());
    Ok(())
}

#[test]
fn what_a_killed_start_has_left_hides_nothing_and_is_cleared_away() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&["--name", "b"]))?;
    // As after a kill between the claim of the name and the start of the cluster.
    let left = home.path(".flyball/clusters/a");
    std::fs::create_dir_all(&left)?;
    std::fs::write(left.join("lock"), "")?;
    ensure!(home.flyball(&["node", "list"])?.contains("node-1"), "the only one that runs is meant");
    let said = home.flyball(&["down", "--all"])?;
    ensure!(
        said.contains("\"a\" was killed while it started") && said.contains("\"b\" has stopped"),
        "{said}"
    );
    ensure!(home.is_empty());
    Ok(())
}

#[test]
fn a_stopped_cluster_is_not_the_one_that_is_meant() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&["--data-dir", "data"]))?;
    home.flyball(&["down"])?;
    ensure!(home.fails(&["node", "list"])?.contains("no cluster runs"));
    home.flyball(&up(&["--name", "other"]))?;
    ensure!(home.flyball(&["node", "list"])?.contains("node-1"));
    Ok(())
}

#[test]
fn completions_and_manual_pages_know_every_command() -> anyhow::Result<()> {
    let home = Home::new()?;
    for shell in ["bash", "zsh", "fish"] {
        let script = home.flyball(&["completions", shell])?;
        ensure!(script.contains("why-not") && script.contains("bind-address"), "{shell}");
    }
    home.flyball(&["man", "pages"])?;
    let page = std::fs::read_to_string(home.path("pages/flyball-up.1"))?;
    ensure!(page.contains("bind\\-address") || page.contains("bind-address"), "{page}");
    ensure!(home.path("pages/flyball.1").exists() && !home.path("pages/flyball-asset.1").exists());
    Ok(())
}

#[test]
fn an_orderly_end_by_a_signal_clears_away_as_well() -> anyhow::Result<()> {
    let home = Home::new()?;
    home.flyball(&up(&["--name", "a"]))?;
    home.signal("a", Signal::TERM)?;
    // Waits for the end that the signal has begun, or finds that it is over.
    let _ = home.run(&["down", "a"])?;
    ensure!(home.is_empty() && !home.path(".kube/config").exists());
    Ok(())
}
