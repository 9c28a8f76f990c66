//! Metrics of the process from /proc. Without /proc they are absent.

use std::fs;

use super::{
    Metrics, PROCESS_CPU, PROCESS_MAX_FDS, PROCESS_MAX_VIRTUAL, PROCESS_OPEN_FDS, PROCESS_RECEIVED,
    PROCESS_RESIDENT, PROCESS_SENT, PROCESS_VIRTUAL,
};

/// Linux reports times in hundredths of a second, whatever its own clock's rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// The start time of the process: about now, since the registry is created first.
pub(super) fn started() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

pub(super) fn collect(metrics: &Metrics) {
    if let Some(seconds) = cpu_seconds() {
        metrics.counter(&PROCESS_CPU, &[]).at_least(seconds);
    }
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        let kilobytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        if let Some(size) = kilobytes("VmRSS:") {
            metrics.gauge(&PROCESS_RESIDENT, &[]).set(size * 1024.0);
        }
        if let Some(size) = kilobytes("VmSize:") {
            metrics.gauge(&PROCESS_VIRTUAL, &[]).set(size * 1024.0);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        metrics.gauge(&PROCESS_OPEN_FDS, &[]).set(open.count() as f64);
    }
    if let Ok(limits) = fs::read_to_string("/proc/self/limits") {
        if let Some(most) = limit(&limits, "Max open files") {
            metrics.gauge(&PROCESS_MAX_FDS, &[]).set(most);
        }
        if let Some(most) = limit(&limits, "Max address space") {
            metrics.gauge(&PROCESS_MAX_VIRTUAL, &[]).set(most);
        }
    }
    if let Some((received, sent)) =
        fs::read_to_string("/proc/self/net/netstat").ok().as_deref().and_then(octets)
    {
        metrics.counter(&PROCESS_RECEIVED, &[]).at_least(received);
        metrics.counter(&PROCESS_SENT, &[]).at_least(sent);
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name is in parentheses and may hold anything; fields are counted after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        most => most.parse().ok(),
    }
}

/// Bytes received and sent: a line of names is followed by a line of values.
fn octets(netstat: &str) -> Option<(f64, f64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?.split(' '), lines.next()?.split(' '));
    let pairs: Vec<(&str, &str)> = names.zip(values).collect();
    let value = |wanted| pairs.iter().find(|(name, _)| *name == wanted)?.1.parse().ok();
    Some((value("InOctets")?, value("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max open files            1024                 4096                 files\n\
            Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(u64::MAX as f64));
        assert_eq!(limit(limits, "Max nothing"), None);
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 7 9\n";
        assert_eq!(octets(netstat), Some((7.0, 9.0)));
        assert_eq!(octets("IpExt: InOctets\n"), None);
    }
}
