//! The cloud of a playground: load balancers by default, and what a file says.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use flyball_cloud::simulated::{Config, Pool, Simulated};
use ipnet::{IpNet, Ipv4Net};

use super::{Options, StartError};

/// Addresses of this machine that nothing else is likely to use.
const EXPOSED: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(127, 42, 0, 0), 24);
/// All loopback addresses.
const LOOPBACK: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);

/// The cloud of these options.
pub(super) fn open(options: &Options) -> Result<Simulated, StartError> {
    let Some(file) = &options.cloud else {
        let mut config = Config::default();
        if options.expose {
            config.load_balancers = Some(Pool { addresses: vec![IpNet::V4(EXPOSED)], ..Pool::default() });
        }
        return Ok(Simulated::new(config));
    };
    let cloud = Simulated::from_file(file).map_err(StartError::Cloud)?;
    match options.expose.then(|| unexposed(file, &cloud.config())).flatten() {
        Some(problem) => Err(StartError::Flags(problem)),
        None => Ok(cloud),
    }
}

/// Why load balancers with the addresses of this file cannot be reached on this machine.
fn unexposed(file: &Path, config: &Config) -> Option<String> {
    let shown = file.display();
    let Some(pool) = &config.load_balancers else {
        return Some(format!(
            "--expose needs load balancers, and {shown} has none; add `loadBalancers: {{addresses: [{EXPOSED}]}}`"
        ));
    };
    let is_local = |range: &&IpNet| {
        let first = range.network();
        matches!(range, IpNet::V4(range) if LOOPBACK.contains(range))
            || (first.is_loopback() && range.addr() == first && is_single(range))
    };
    let foreign = pool.addresses.iter().find(|range| !is_local(range))?;
    let line = line_of(file, &foreign.to_string()).map(|line| format!(":{line}")).unwrap_or_default();
    Some(format!(
        "{shown}{line}: loadBalancers.addresses: {foreign} is not on this machine, so --expose cannot listen there; \
         {EXPOSED} or another range within {LOOPBACK} would be"
    ))
}

/// Whether a range has one address, as that of the IPv6 loopback has.
fn is_single(range: &IpNet) -> bool {
    range.prefix_len() == range.max_prefix_len() && matches!(range.addr(), IpAddr::V6(_))
}

/// The first line with a text, if the file can be read.
fn line_of(file: &Path, text: &str) -> Option<usize> {
    let contents = std::fs::read_to_string(file).ok()?;
    contents.lines().position(|line| line.contains(text)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_file_is_named_with_its_line_and_what_would_be_right() {
        #[rustfmt::skip]
        let table = [
            ("machines:\n- name: a\n- name: a\n",                     ":3: ", "there are two machines \"a\""),
            ("loadBalancers:\n  addresses:\n  - 192.0.2.0/24\n",      ":3: ", "192.0.2.0/24 is not on this machine, so --expose cannot listen there; 127.42.0.0/24 or"),
            ("loadBalancers: {addresses: ['2001:db8::/64']}\n",       ":1: ", "2001:db8::/64 is not on this machine"),
            ("machines: []\n",                                        "",     "--expose needs load balancers"),
            ("loadBalancers: {addresses: [127.9.0.0/16, '::1/128']}", "",     ""),
        ];
        for (text, line, want) in table {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let options = Options { cloud: Some(file.path().to_owned()), expose: true, ..Options::default() };
            let error = open(&options).err().map(|error| flyball_runtime::Chain(&error).to_string());
            let error = error.unwrap_or_default();
            let place = format!("{}{line}", file.path().display());
            assert!(error.contains(want) && (line.is_empty() || error.contains(&place)), "{text}: {error}");
            assert_eq!(error.is_empty(), want.is_empty(), "{text}: {error}");
        }
    }
}
