//! What a provider gets to open a cloud with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_manager::flags::VendorValues;
use flyball_manager::{Foundation, Prepared};
use flyball_runtime::config::Config;
use flyball_runtime::events::Recorder;
use flyball_runtime::{Clock, Complaint, Metrics, Signal};

/// What [`Provider::open`](super::Provider::open) gets. There is no connection to the API server yet: caches and clients come
/// with [`Cloud::on_begin`](super::Cloud::on_begin).
#[non_exhaustive]
pub struct Opening {
    /// The file of `--cloud-config`. [`ConfigFile`](crate::kit::ConfigFile) reads it, and again when it changes.
    pub config_file: Option<PathBuf>,
    /// The configuration of the manager, completed: its cluster's name and ranges, the periods of its lease.
    pub config: Arc<Config>,
    /// The values of the provider's own flags.
    pub flags: VendorValues,
    /// The metrics that `/metrics` shows.
    pub metrics: Metrics,
    pub clock: Clock,
    /// The provider's own check in `/healthz`. Raise it only for what a restart may mend: a kubelet restarts the process.
    pub health: Complaint,
    /// Records events under the name of the manager. They are written once it is connected.
    pub events: Recorder,
    /// Set at shutdown.
    pub shutdown: Signal,
}

impl Opening {
    pub(crate) fn new(provider: &'static str, prepared: &Prepared, foundation: &Foundation) -> Self {
        let config = &prepared.options.config;
        let file = &config.kube_cloud_shared.cloud_provider.cloud_config_file;
        Self {
            config_file: (!file.is_empty()).then(|| PathBuf::from(file)),
            config: Arc::new(config.clone()),
            flags: prepared.options.vendor.clone(),
            metrics: foundation.metrics.clone(),
            clock: foundation.clock,
            health: foundation.health.complaint(provider),
            events: foundation.events.clone(),
            shutdown: foundation.shutdown.clone(),
        }
    }

    /// For tests, without a manager: default configuration and flags, events that are written nowhere.
    pub fn standalone(provider: &'static str, config_file: Option<&Path>) -> Self {
        let (never, foundation) = Foundation::new(provider, Metrics::default());
        std::mem::forget(never);
        Self {
            config_file: config_file.map(Path::to_owned),
            config: Arc::default(),
            flags: VendorValues::default(),
            health: foundation.health.complaint(provider),
            metrics: foundation.metrics,
            clock: foundation.clock,
            events: foundation.events,
            shutdown: foundation.shutdown,
        }
    }
}
