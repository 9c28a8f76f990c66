//! Metrics about volumes, under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_runtime::metrics::{Family, Metrics, Stability, VOLUME_SECONDS as SECONDS};
use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};

use super::disk_on_node::Force;
use crate::disk::{Attacher, Disk, DriverVolume, flex_name, is_attachment_name};

static FORCED: Family = Family::counter(
    "attach_detach_controller_attachdetach_controller_forced_detaches",
    Stability::Alpha,
    &["reason"],
    "Number of times the A/D Controller performed a forced detach",
);
static TOTAL: Family = Family::gauge(
    "attachdetach_controller_total_volumes",
    Stability::Alpha,
    &["plugin_name", "state"],
    "Number of volumes in A/D Controller",
);
static IN_USE: Family = Family::gauge(
    "storage_count_attachable_volumes_in_use",
    Stability::Alpha,
    &["node", "volume_plugin"],
    "Measure number of volumes in use",
);
static DURATION: Family = Family::histogram(
    "storage_operation_duration_seconds",
    Stability::Alpha,
    &["volume_plugin", "operation_name", "status", "migrated"],
    SECONDS,
    "Storage operation duration",
);

pub(super) type Counts = BTreeMap<[SmolStr; 2], usize>;

pub(super) struct DiskMetrics {
    metrics: Metrics,
    /// The series of the last scrape: those that have no value any more are removed at the next.
    shown: Mutex<[Counts; 2]>,
}

impl DiskMetrics {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, shown: Mutex::default() }
    }

    pub(super) fn forced(&self, why: Force) {
        let why = match why {
            Force::Timeout => "timeout",
            Force::OutOfService => "out-of-service",
        };
        self.metrics.counter(&FORCED, &[why]).inc();
    }

    pub(super) fn attached(&self, disk: &Disk, took: Duration, is_ok: bool) {
        let is_migrated = matches!(disk.attacher, Attacher::Driver { is_migrated: true, .. });
        self.record_duration(&plugin(&disk.name), "volume_attach", took, is_ok, is_migrated);
    }

    /// `is_ok` is false if detaching failed.
    pub(super) fn detached(&self, disk: &str, took: Duration, is_ok: bool, is_migrated: bool) {
        self.record_duration(&plugin(disk), "volume_detach", took, is_ok, is_migrated);
    }

    fn record_duration(&self, plugin: &str, operation: &str, took: Duration, is_ok: bool, is_migrated: bool) {
        let (status, migrated) =
            (if is_ok { "success" } else { "fail-unknown" }, if is_migrated { "true" } else { "false" });
        self.metrics.histogram(&DURATION, &[plugin, operation, status, migrated]).observe(took.as_secs_f64());
    }

    /// Sets the gauges to the numbers of volumes by plugin and state, and by node and plugin.
    pub(super) fn count(&self, now: [Counts; 2]) {
        let mut shown = self.shown.lock();
        for (family, (shown, now)) in [&TOTAL, &IN_USE].into_iter().zip(shown.iter().zip(&now)) {
            for labels in shown.keys().filter(|labels| !now.contains_key(*labels)) {
                self.metrics.forget(family, &[&labels[0], &labels[1]]);
            }
            for (labels, count) in now {
                #[expect(clippy::cast_precision_loss, reason = "counts of objects")]
                self.metrics.gauge(family, &[&labels[0], &labels[1]]).set(*count as f64);
            }
        }
        *shown = now;
    }
}

/// The name of the plugin of a disk, such as `kubernetes.io/iscsi`, or `kubernetes.io/csi:DRIVER`.
pub(super) fn plugin(disk: &str) -> SmolStr {
    if let Some(DriverVolume { driver, .. }) = DriverVolume::named(disk) {
        return format_smolstr!("kubernetes.io/csi:{driver}");
    }
    if is_attachment_name(disk) {
        return "kubernetes.io/csi".into();
    }
    if let Some((driver, _)) = flex_name(disk) {
        return driver.into();
    }
    let end = disk.match_indices('/').nth(1).map_or(disk.len(), |(at, _)| at);
    disk[..end].into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{By, desired};
    use super::*;

    #[test]
    fn durations_have_the_plugin_and_whether_it_was_migrated() {
        let metrics = Metrics::default();
        let disks = DiskMetrics::new(metrics.clone());
        let second = Duration::from_secs(1);
        for by in [By::Csi, By::Flex, By::Node] {
            disks.attached(&desired(by, "ReadWriteOnce").disk, second, true);
        }
        disks.detached("kubernetes.io/csi/ebs.csi.aws.com^vol-1", second, false, true);
        disks.detached("lvm/scratch", second, true, false);
        let text = metrics.text();
        let counts =
            text.lines().filter_map(|line| line.strip_prefix("storage_operation_duration_seconds_count"));
        let mut counts: Vec<&str> = counts.collect();
        counts.sort_unstable();
        #[rustfmt::skip]
        let want = [
            r#"{migrated="false",operation_name="volume_attach",status="success",volume_plugin="example.com/lvm"} 1"#,
            r#"{migrated="false",operation_name="volume_attach",status="success",volume_plugin="kubernetes.io/csi:d.example"} 1"#,
            r#"{migrated="false",operation_name="volume_attach",status="success",volume_plugin="kubernetes.io/iscsi"} 1"#,
            r#"{migrated="false",operation_name="volume_detach",status="success",volume_plugin="lvm"} 1"#,
            r#"{migrated="true",operation_name="volume_detach",status="fail-unknown",volume_plugin="kubernetes.io/csi:ebs.csi.aws.com"} 1"#,
        ];
        assert_eq!(counts, want);
    }
}
