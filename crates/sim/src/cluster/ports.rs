//! Free loopback ports. A port cannot be reserved for another process, so the caller must try again with others when a
//! process ends because its port was taken meanwhile.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

use parking_lot::Mutex;
use rand::Rng;

/// Below the range from which the kernel takes the local ports of outgoing connections.
const RANGE: std::ops::Range<u16> = 18_000..32_000;

/// Ports in use by this process: clusters that start in parallel must not take the same one.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// `N` different ports that are free now.
pub(super) fn free<const N: usize>() -> std::io::Result<[u16; N]> {
    let mut taken = TAKEN.lock();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = one(&mut taken)?;
    }
    Ok(ports)
}

/// Releases ports.
pub(super) fn release(ports: &[u16]) {
    let mut taken = TAKEN.lock();
    for port in ports {
        taken.remove(port);
    }
}

fn one(taken: &mut BTreeSet<u16>) -> std::io::Result<u16> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for _ in 0..200 {
        let port = rand::rng().random_range(RANGE);
        if taken.contains(&port) {
            continue;
        }
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => {
                taken.insert(port);
                return Ok(port);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_handed_out_once_until_they_are_released() {
        let first: [u16; 8] = free().unwrap();
        let second: [u16; 8] = free().unwrap();
        let all: BTreeSet<u16> = first.iter().chain(&second).copied().collect();
        assert_eq!(all.len(), 16);
        release(&first);
        release(&second);
    }
}
