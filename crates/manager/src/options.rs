//! Everything the command line decides: the configuration that `/configz` shows, and what only the process
//! itself needs.

use std::{collections::BTreeMap, time::Duration};

use flyball_runtime::config::Config;
use flyball_serving::{AuthenticationOptions, AuthorizationOptions, ServingOptions};

/// The raw meaning of the flags; `complete` makes names canonical and reads the files they point to.
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
    /// `[kube=]major.minor` to behave as.
    pub emulated_version: Vec<String>,
    /// `[kube=]major.minor` to stay compatible with.
    pub min_compatibility_version: Vec<String>,
    /// File with the leader migration's configuration.
    pub leader_migration_config: String,
    pub serving: ServingOptions,
    /// How a cloud-controller-manager would listen for webhooks.
    pub webhook_serving: ServingOptions,
    /// Who may say who they are.
    pub authentication: AuthenticationOptions,
    pub authorization: AuthorizationOptions,
    /// Which metrics are shown, and how.
    pub metrics: MetricsOptions,
    pub logging: LoggingOptions,
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
        }
    }
}

/// Which metrics are shown, and which label values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsOptions {
    /// `metric,label` to the comma-separated values it may have; others become `unexpected`.
    pub allow_labels: BTreeMap<String, String>,
    /// File with the same mapping; the flag wins.
    pub allow_labels_manifest: String,
    pub disabled: Vec<String>,
    /// Previous minor version whose hidden metrics are wanted.
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
