//! CPU time and memory of a process, from the kernel.

use std::time::Duration;

/// Clock ticks per second in `/proc/PID/stat`; Linux has reported 100 to user space on every architecture since 2.6.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time and memory of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time together.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub resident: u64,
    /// The part of it that no file backs: heap and stacks.
    pub anonymous: u64,
    /// The part that is mapped from files, such as the program itself.
    pub file: u64,
    /// The most it ever was, in bytes.
    pub peak: u64,
}

impl Usage {
    /// Of a running process; `None` when there is no such process or this is not Linux.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Self::parse(&stat, &status)
    }

    fn parse(stat: &str, status: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may itself contain both spaces and parentheses.
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok());
        let millis = (ticks(11)? + ticks(12)?) * 1000 / TICKS_PER_SECOND;
        let kib = |label: &str| {
            let line = status.lines().find(|line| line.starts_with(label))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        Some(Self {
            cpu: Duration::from_millis(millis),
            resident: kib("VmRSS:")? * 1024,
            anonymous: kib("RssAnon:")? * 1024,
            file: kib("RssFile:")? * 1024,
            peak: kib("VmHWM:")? * 1024,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 100";
        let status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n\
            RssAnon:\t   256 kB\nRssFile:\t   768 kB\nRssShmem:\t     0 kB\n";
        let want = Usage {
            cpu: Duration::from_secs(2),
            resident: 1 << 20,
            anonymous: 256 << 10,
            file: 768 << 10,
            peak: 2 << 20,
        };
        assert_eq!(Usage::parse(stat, status), Some(want));
    }

    #[test]
    fn this_process_has_used_something() {
        assert!(
            Usage::of(std::process::id())
                .is_some_and(|usage| usage.resident > 0 && usage.peak >= usage.resident)
        );
    }
}
