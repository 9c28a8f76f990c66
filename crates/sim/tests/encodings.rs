//! Protobuf against JSON: scenarios on a real control plane with upstream's controller manager; at each snapshot, all
//! objects of the server are read in both encodings. Skipped without assets. (`cargo xtask golden` does the same with ours.)

use flyball_sim::cluster::{Assets, Unavailable};
use flyball_sim::features::Features;
use flyball_sim::golden::real::{Programs, Real};
use flyball_sim::golden::run::{Run, Settings};
use flyball_sim::golden::suite::Corpus;

/// Short ones, with all kinds that have many fields.
const SCENARIOS: [&str; 12] = [
    "csr-approved-by-hand",
    "daemonset-affinity",
    "deployment-template-amounts",
    "endpointslice-odd-pods",
    "hpa-limits",
    "job-pod-shape",
    "node-conditions-labels",
    "pdb-mixed-owners",
    "pv-selectors",
    "quota-pods-in-detail",
    "resource-claim-several",
    "statefulset-pod-shape",
];

#[tokio::test]
async fn objects_are_the_same_in_protobuf_and_in_json() -> anyhow::Result<()> {
    let upstream = match Assets::find().and_then(|assets| assets.upstream_manager()) {
        Ok(binary) => binary,
        Err(skip) => {
            skip.announce("objects_are_the_same_in_protobuf_and_in_json");
            return Ok(());
        }
    };
    let programs = Programs { kube: upstream, ..Programs::default() };
    let mut real = match Real::start(programs, 1.0, Features::default()).await {
        Ok(real) => real,
        Err(Unavailable::Skip(skip)) => {
            skip.announce("objects_are_the_same_in_protobuf_and_in_json");
            return Ok(());
        }
        Err(Unavailable::Broken(error)) => return Err(error),
    };
    let corpus = Corpus::in_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
    let names = SCENARIOS.map(str::to_owned);
    for scenario in corpus.select(&names)?.iter().filter(|scenario| names.contains(&scenario.name)) {
        anyhow::ensure!(scenario.api_server == Features::default(), "{} needs its own server", scenario.name);
        let settings = Settings { patience: 1.0, verbose: false, check_reads: false };
        let outcome = Run::perform(&mut real, scenario, settings).await;
        if let Some(stopped) = outcome.stopped {
            anyhow::bail!("{}: {stopped:?}", scenario.name);
        }
    }
    println!("{} objects compared", real.compared());
    anyhow::ensure!(real.compared() > 1000, "only {} objects were compared", real.compared());
    Ok(())
}
