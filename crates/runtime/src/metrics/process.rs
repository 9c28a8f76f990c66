//! What the kernel knows about this process. Where there is no /proc, these metrics are simply absent.

use std::fs;

use super::{Metrics, PROCESS_CPU, PROCESS_MAX_FDS, PROCESS_OPEN_FDS, PROCESS_RESIDENT, PROCESS_VIRTUAL};

/// Linux reports times in hundredths of a second, whatever its own clock's rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// When the process began: as good as now, since the registry is made first.
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
    if let Some(most) = max_fds() {
        metrics.gauge(&PROCESS_MAX_FDS, &[]).set(most);
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

fn max_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
