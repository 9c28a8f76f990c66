//! The golden scenarios of all implemented controllers, on the embedded server in virtual time.
//! (`cargo xtask golden` runs them on the real control plane, and with any program.)

use flyball_sim::golden::compare::Counts;
use flyball_sim::golden::run::Settings;
use flyball_sim::golden::suite::{Corpus, Plan, Programs, Purpose, run_embedded};

#[test]
fn what_upstream_did_happens_again() -> anyhow::Result<()> {
    let corpus = Corpus::in_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
    let (able, unable): (Vec<_>, Vec<_>) =
        corpus.select(&[])?.into_iter().partition(|scenario| scenario.lacks().is_none());
    println!("{} scenarios, {} skipped because a controller is missing", able.len(), unable.len());
    let plan = Plan {
        corpus,
        purpose: Purpose::Check(Counts::Relaxed),
        programs: Programs::default(),
        jobs: 2,
        retries: 0,
        settings: Settings { patience: 1.0, verbose: false, check_reads: true },
    };
    let mut failed = Vec::new();
    run_embedded(&plan, able, |verdict| {
        if !verdict.passed {
            println!("FAIL {}\n{}", verdict.name, verdict.detail);
            failed.push(verdict.name);
        }
    })?;
    anyhow::ensure!(failed.is_empty(), "not as recorded: {}", failed.join(", "));
    Ok(())
}
