//! How long a cluster takes to start, and how long an hour of its time takes.

use std::time::{Duration, Instant};

use flyball_testing::{Cluster, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    const HOUR: Duration = Duration::from_secs(3600);
    for _ in 0..3 {
        let begun = Instant::now();
        let cluster = Cluster::start().await?;
        let started = begun.elapsed();
        cluster.advance(HOUR).await?;
        let hour = begun.elapsed() - started;
        cluster.stop().await?;
        println!("start {started:?}, an hour {hour:?}");
    }
    Ok(())
}
