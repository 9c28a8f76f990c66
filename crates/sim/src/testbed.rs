//! One test, two clusters: in process with virtual time, and on a real control plane with the built program.
//!
//! ```no_run
//! use flyball_sim::golden::backend::Backend;
//!
//! async fn pods_appear<B: Backend>(cluster: &mut B) -> anyhow::Result<()> {
//!     cluster.start_kcm(&["replicaset-controller".to_owned()], &[]).await?;
//!     // …
//!     Ok(())
//! }
//!
//! flyball_sim::on_both_backends! { pods_appear needs ["replicaset-controller"] }
//! ```

use anyhow::Context as _;

use crate::cluster::{Skip, Unavailable};
use crate::features::Features;
use crate::golden::embedded::InProcess;
use crate::golden::real::{Programs, Real};
use crate::ours::{self, Profile};

/// Declares tests over both backends: each becomes a module with an `embedded` and a `real` test.
#[macro_export]
macro_rules! on_both_backends {
    ($($test:ident needs $controllers:expr),+ $(,)?) => {
        $(mod $test {
            #[test]
            fn embedded() -> anyhow::Result<()> {
                $crate::testbed::embedded(
                    concat!(stringify!($test), "::embedded"),
                    &$controllers,
                    async |cluster| super::$test(cluster).await,
                )
            }

            #[test]
            fn real() -> anyhow::Result<()> {
                $crate::testbed::real(
                    concat!(stringify!($test), "::real"),
                    &$controllers,
                    async |cluster| super::$test(cluster).await,
                )
            }
        })+
    };
}

/// Runs a test in process, in virtual time.
pub fn embedded(
    name: &str,
    controllers: &[&str],
    test: impl AsyncFnOnce(&mut InProcess) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    embedded_with(&Features::default(), name, controllers, test)
}

/// The same with a server that has other features.
pub fn embedded_with(
    features: &Features,
    name: &str,
    controllers: &[&str],
    test: impl AsyncFnOnce(&mut InProcess) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(skip) = ours::lacks(controllers) {
        skip.announce(name);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let mut cluster = InProcess::start(features).await.context("start the embedded cluster")?;
        test(&mut cluster).await
    })
}

/// Runs a test on a real control plane, or prints why it is skipped.
pub fn real(
    name: &str,
    controllers: &[&str],
    test: impl AsyncFnOnce(&mut Real) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    /// Debug builds on shared machines are slow.
    const PATIENCE: f64 = 3.0;
    let skip = |skip: Skip| {
        skip.announce(name);
        Ok(())
    };
    if let Some(lacking) = ours::lacks(controllers) {
        return skip(lacking);
    }
    if let Err(missing) = crate::cluster::Assets::find() {
        return skip(missing);
    }
    let program = ours::binary(Profile::Debug)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut cluster = match Real::start(
            Programs { kube: program, ..Programs::default() },
            PATIENCE,
            Features::default(),
        )
        .await
        {
            Ok(cluster) => cluster,
            Err(Unavailable::Skip(missing)) => return skip(missing),
            Err(Unavailable::Broken(e)) => return Err(e),
        };
        let result = test(&mut cluster).await;
        if result.is_err() {
            cluster.keep_logs();
        }
        result
    })
}
