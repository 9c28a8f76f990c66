//! `cargo xtask shadow`: ours as a shadow beside upstream's controller manager on a real cluster under test load. A decision of
//! the shadow that the leader does not match with a write to the same object within a minute is a finding.

mod judge;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_sim::client::{ApiClient, Tls, get};
use flyball_sim::cluster::{Cluster, Manager, Process, Skip};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use super::artefacts::Artefacts;
use super::e2e::{self, Limits};
use super::rig::manager_flags;
use super::suites::Selection;
use super::{Inside, Programs, namespaces, output_folder, start_rig};
use judge::{Decision, Writes};

/// The shadow's port, as docs/operations.md has it. In the rig's own network no other process has it.
const PORT: u16 = 20257;
/// How often decisions are collected; the shadow remembers some thousands.
const EVERY: Duration = Duration::from_secs(3);
/// After the load: objects come to rest, and then nothing more may be decided.
const SETTLE: Duration = Duration::from_secs(120);
const REST: Duration = Duration::from_secs(120);
/// The folder of the rig in the output folder.
const RIG: &str = "rig";
/// Findings of one controller that are printed.
const EXAMPLES: usize = 3;

/// `cargo xtask shadow`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Suites of `cargo xtask conformance` that make the load [default: controllers]
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// Duration of the load
    #[arg(long, default_value_t = 60, value_name = "N")]
    minutes: u64,
    /// Tests that run at the same time
    #[arg(long, default_value_t = 2, value_name = "N")]
    procs: usize,
    /// Our controller manager [default: built in release mode]
    #[arg(long, value_name = "PATH")]
    kcm: Option<PathBuf>,
    /// Upstream's controller manager
    #[arg(long, hide = true)]
    upstream: Option<PathBuf>,
    /// Where logs go; not below /tmp, /run, /var/lib or /var/log, which nodes replace [default: target/shadow]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    inside: Inside,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("make a runtime")?;
    if let Some(cgroup) = &options.inside.cgroup {
        namespaces::end_with_parent();
        let at_rest = runtime.block_on(inside(options, cgroup))?;
        return Ok(if at_rest == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if let Some(reason) = namespaces::lacks() {
        Skip { reason }.announce("shadow");
        return Ok(ExitCode::SUCCESS);
    }
    tests(options)?;
    let output = output_folder(options.output.as_deref(), "shadow")?;
    let programs = Programs::provide(options.kcm.as_deref())?;
    let mut args: Vec<OsString> = vec!["shadow".into(), "--cgroup".into(), namespaces::cgroup().into()];
    args.extend(["--minutes".into(), options.minutes.to_string().into()]);
    args.extend(["--procs".into(), options.procs.to_string().into()]);
    args.extend(["--kcm".into(), programs.ours.into(), "--upstream".into(), programs.upstream.into()]);
    args.extend(["--output".into(), output.clone().into()]);
    args.extend(options.suites.iter().map(OsString::from));
    let status = runtime.block_on(namespaces::run(&args, &output.join(RIG)))?;
    println!("logs are in {}", output.display());
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tests(options: &Options) -> anyhow::Result<Vec<String>> {
    let default = ["controllers".to_owned()];
    let suites = if options.suites.is_empty() { &default[..] } else { &options.suites };
    Selection::of_suites(suites).for_ginkgo()
}

/// Returns the number of findings at rest.
async fn inside(options: &Options, cgroup: &str) -> anyhow::Result<usize> {
    let (Some(output), Some(ours), Some(upstream)) = (&options.output, &options.kcm, &options.upstream)
    else {
        bail!("--cgroup is for internal use");
    };
    let artefacts = Artefacts::provide()?;
    let mut rig = start_rig(&artefacts, upstream, cgroup, &output.join(RIG)).await?;
    let mut shadow = Shadow::start(&rig.cluster, ours)?;
    let limits = Limits { processes: options.procs, minutes: options.minutes };
    let report = rig.cluster.dir().join("load.json");
    println!("  load for at most {} minutes", options.minutes);
    let mut load = e2e::start(&artefacts, &rig, &tests(options)?, &limits, &report)?;
    loop {
        tokio::select! {
            ended = load.wait() => { ended.context("wait for the load")?; break; }
            () = tokio::time::sleep(EVERY) => {}
        }
        shadow.collect().await?;
        if let Some(reason) = rig.ended().or_else(|| shadow.ended()) {
            bail!(reason);
        }
    }
    println!("  the load has ended; waiting until all objects are at rest");
    shadow.collect_for(SETTLE).await?;
    let rest = Timestamp::now();
    shadow.collect_for(REST).await?;
    let mut writes = Writes::default();
    for entry in rig.cluster.audit_log().read().context("read the audit log")? {
        writes.add(&entry);
    }
    let api = rig.cluster.api().await?;
    let kinds: BTreeMap<String, String> =
        api.preferred().iter().map(|resource| (resource.kind.clone(), resource.name.clone())).collect();
    let resource_of = |kind: &str| kinds.get(kind).cloned().unwrap_or_else(|| kind.to_owned());
    let found = judge::findings(shadow.decisions.values(), &writes, resource_of);
    let (at_rest, under_load): (Vec<&Decision>, Vec<&Decision>) =
        found.into_iter().partition(|decision| decision.time > rest);
    println!(
        "{} decisions of the shadow ({} were lost), {} writes of the leader",
        shadow.decisions.len(),
        shadow.lost,
        writes.count
    );
    print("under load", &under_load);
    print("at rest", &at_rest);
    Ok(at_rest.len())
}

fn print(when: &str, findings: &[&Decision]) {
    println!("{} findings {when}", findings.len());
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Decision>> = BTreeMap::new();
    for decision in findings {
        let group = (decision.controller.as_str(), decision.action.as_str(), decision.target.kind.as_str());
        groups.entry(group).or_default().push(decision);
    }
    for ((controller, action, kind), group) in groups {
        println!("  {controller}: {action} {kind}: {}", group.len());
        for decision in group.iter().take(EXAMPLES) {
            let Decision { time, target, subresource, why, .. } = decision;
            println!("    {time} {}/{} {subresource} {why}", target.namespace, target.name);
        }
    }
}

/// Our controller manager, deciding without writing.
struct Shadow {
    process: Process,
    pages: Tls,
    /// Decisions by their ids.
    decisions: BTreeMap<u64, Decision>,
    lost: u64,
}

#[derive(Deserialize)]
struct Page {
    decisions: Vec<Decision>,
}

impl Shadow {
    fn start(cluster: &Cluster, binary: &Path) -> anyhow::Result<Self> {
        // The variable is not to reach the other processes of the rig.
        let wrapper = cluster.dir().join("shadow.sh");
        let script = format!("#!/bin/sh\nFLYBALL_SHADOW=1 exec {} \"$@\"\n", binary.display());
        std::fs::write(&wrapper, script).context("write shadow.sh")?;
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755))
            .context("write shadow.sh")?;
        let mut flags = manager_flags();
        flags.push(format!("--secure-port={PORT}"));
        flags.push(format!("--tls-cert-file={}", cluster.certificate("apiserver.crt").display()));
        flags.push(format!("--tls-private-key-file={}", cluster.certificate("apiserver.key").display()));
        let manager = Manager { binary: &wrapper, controllers: &[], leader_elect: true, flags: &flags };
        let process = cluster.start_manager("shadow", &manager)?;
        let pages =
            Tls::new(&format!("https://127.0.0.1:{PORT}"), &cluster.certificate("ca.crt"), "admin-token")?;
        Ok(Self { process, pages, decisions: BTreeMap::new(), lost: 0 })
    }

    fn ended(&mut self) -> Option<String> {
        let status = self.process.ended()?;
        Some(format!("the shadow ended with {status}; see {}", self.process.log().display()))
    }

    async fn collect_for(&mut self, duration: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            tokio::time::sleep(EVERY).await;
            self.collect().await?;
        }
        Ok(())
    }

    async fn collect(&mut self) -> anyhow::Result<()> {
        let client: &dyn ApiClient = &self.pages;
        // It does not serve yet, or is busy: the next call gets the rest.
        let Ok(answer) = get(client, "/debug/decisions?limit=10000").await else { return Ok(()) };
        if !answer.status().is_success() {
            bail!("/debug/decisions answered {}", answer.status());
        }
        let page: Page = serde_json::from_slice(answer.body()).context("read /debug/decisions")?;
        let last = self.decisions.keys().next_back().copied();
        if let (Some(last), Some(first)) = (last, page.decisions.first()) {
            self.lost += first.id.saturating_sub(last + 1);
        }
        self.decisions.extend(page.decisions.into_iter().map(|decision| (decision.id, decision)));
        Ok(())
    }
}
