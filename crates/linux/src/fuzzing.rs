//! Parsers of this crate for fuzz targets (`crates/fuzz`), and for nothing else.

use flyball_cloud::kit::{Checked, parse};

use crate::config::Config;
use crate::kernel;

/// Reads a file of `--cloud-config`.
pub fn inventory(text: &str) {
    let Ok(config) = parse::<Config>(text) else { return };
    assert_eq!(config.problem(), None, "a file with a problem is refused");
    if let Some(pools) = config.load_balancers {
        for range in pools.ranges() {
            assert!(pools.interface(range.network()).is_some(), "{range} has an interface");
        }
    }
}

/// Reads messages as the kernel sends them, each in all the ways in which we read one.
pub fn netlink(bytes: &[u8]) {
    kernel::read_all(bytes);
}
