//! The options that flags set: the configuration that `/configz` shows, and the settings of the process.

use std::{collections::BTreeMap, time::Duration};

use crate::flags::VendorValues;
use flyball_runtime::config::Config;
use flyball_serving::{AuthenticationOptions, AuthorizationOptions, ServingOptions};

/// The raw values of the flags. `prepare` makes names canonical and reads files.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub config: Config,
    /// `--controllers` as written.
    pub controllers: Vec<String>,
    /// `--feature-gates` as written, each `component:Name=bool`.
    pub feature_gates: Vec<String>,
    /// Address of the API server, overriding the kubeconfig's.
    pub master: String,
    /// How long controllers may take to stop.
    pub shutdown_timeout: Duration,
    /// `[kube=]major.minor` to emulate.
    pub emulated_version: Vec<String>,
    /// `[kube=]major.minor` to stay compatible with.
    pub min_compatibility_version: Vec<String>,
    /// File with the leader migration's configuration.
    pub leader_migration_config: String,
    pub serving: ServingOptions,
    /// The webhook server of a cloud-controller-manager.
    pub webhook_serving: ServingOptions,
    pub authentication: AuthenticationOptions,
    pub authorization: AuthorizationOptions,
    pub metrics: MetricsOptions,
    pub logging: LoggingOptions,
    /// The flags of a vendor's program.
    pub vendor: VendorValues,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            config: Config::default(),
            controllers: vec!["*".to_owned()],
            feature_gates: vec![],
            master: String::new(),
            shutdown_timeout: Duration::from_secs(10),
            emulated_version: vec![],
            min_compatibility_version: vec![],
            leader_migration_config: String::new(),
            serving: ServingOptions::default(),
            webhook_serving: ServingOptions::default(),
            authentication: AuthenticationOptions::default(),
            authorization: AuthorizationOptions::default(),
            metrics: MetricsOptions::default(),
            logging: LoggingOptions::default(),
            vendor: VendorValues::default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsOptions {
    /// `metric,label` to the comma-separated values it may have; others become `unexpected`.
    pub allow_labels: BTreeMap<String, String>,
    /// File with the same mapping; the flag has precedence.
    pub allow_labels_manifest: String,
    pub disabled: Vec<String>,
    /// Previous minor version whose hidden metrics are shown.
    pub show_hidden_for_version: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LoggingOptions {
    /// `text` or `json`.
    pub format: String,
    pub verbosity: u32,
    /// `pattern=N` settings by file.
    pub vmodule: String,
    /// How often buffered lines are flushed.
    pub flush_frequency: Duration,
    /// Buffer of the JSON format's info stream.
    pub json_info_buffer_size: String,
    /// Errors to stderr, the rest to stdout, in the JSON format.
    pub json_split_stream: bool,
    /// Buffer of the text format's info stream.
    pub text_info_buffer_size: String,
    /// Errors to stderr, the rest to stdout, in the text format.
    pub text_split_stream: bool,
}

impl Default for LoggingOptions {
    fn default() -> Self {
        Self {
            format: "text".to_owned(),
            verbosity: 0,
            vmodule: String::new(),
            flush_frequency: Duration::from_secs(5),
            json_info_buffer_size: "0".to_owned(),
            json_split_stream: false,
            text_info_buffer_size: "0".to_owned(),
            text_split_stream: false,
        }
    }
}
