//! Validation of options whose flags could be parsed: every problem, one line each.

use flyball_node::ipam::settings::Settings;
use flyball_runtime::{
    config::{ClientConnection, Config, SignerFiles},
    gates::{Gate, Gates},
    guard::LARGEST_BUDGET,
};
use flyball_serving::tls_problems;

use crate::component::Component;
use crate::options::Options;
use crate::select::{self, Choice};

/// All problems, in the order of `--help`.
pub(crate) fn problems(component: &Component, options: &Options, gates: &Gates) -> Vec<String> {
    let config = &options.config;
    let mut found = shared(component, options, gates);
    found.extend(allocator(config));
    found.extend(cloud_provider(config));
    found.extend(workers(config));
    found.extend(signing(config));
    found.extend(migrator(component, config, gates));
    found.extend(metrics(options));
    found.extend(guards(config));
    found
}

/// The problems that any controller manager can have: leader election, connection, serving, logging, node ranges.
pub fn shared(component: &Component, options: &Options, gates: &Gates) -> Vec<String> {
    let config = &options.config;
    let mut found = flyball_election::problems(&config.generic.leader_election);
    found.extend(general(options));
    found.extend(tls_problems(&options.serving));
    if !(0..=65535).contains(&options.serving.port) {
        found.push(format!("--secure-port must be between 0 and 65535, not {}", options.serving.port));
    }
    found.extend(authentication(options, gates));
    found.extend(open_paths(options));
    found.extend(node_ranges(component, config, gates));
    found.extend(logging(options, gates));
    found
}

/// Nodes get their ranges from here; those of a cloud are not read.
pub fn allocator(config: &Config) -> Option<String> {
    let name = config.kube_cloud_shared.cidr_allocator_type.as_str();
    (!matches!(name, "" | "RangeAllocator"))
        .then(|| format!("--cidr-allocator-type must be \"RangeAllocator\", not {name:?}"))
}

fn guards(config: &Config) -> Vec<String> {
    let most = i32::try_from(LARGEST_BUDGET).unwrap_or(i32::MAX);
    let table = [
        ("--flyball-deletions-per-minute", config.flyball.deletions_per_minute),
        ("--flyball-verify-lost-nodes", config.flyball.verify_lost_nodes),
    ];
    let wrong = table.into_iter().filter(|(_, value)| !(0..=most).contains(value));
    let wrong = wrong.map(|(flag, value)| format!("{flag} must be between 0 and {most}, not {value}"));
    let size = config.flyball.journal_size;
    let journal = (size < 1).then(|| format!("--flyball-journal-size must be at least 1 (MiB), not {size}"));
    wrong.chain(journal).collect()
}

fn cloud_provider(config: &Config) -> Option<String> {
    let name = config.kube_cloud_shared.cloud_provider.name.as_str();
    (!matches!(name, "" | "external")).then(|| {
        format!(
            "--cloud-provider must be empty or \"external\", not {name:?}: there are no built-in providers"
        )
    })
}

fn general(options: &Options) -> Vec<String> {
    let mut found = vec![];
    let connection = &options.config.generic.client_connection;
    if connection.burst < 0 {
        found.push("--kube-api-burst must not be negative".to_owned());
    }
    // Upstream sends such a type and fails with every request.
    let known = [ClientConnection::PROTOBUF, "application/json", "application/yaml", "application/cbor", ""];
    if !known.contains(&connection.content_type.as_str()) {
        found.push(format!(
            "--kube-api-content-type must be {:?} or \"application/json\", not {:?}",
            ClientConnection::PROTOBUF,
            connection.content_type
        ));
    }
    // Upstream: client-go kubernetes/clientset.go, NewForConfigAndClient, does not start either.
    if connection.burst == 0 && connection.qps > 0.0 {
        found.push(format!("--kube-api-burst must not be 0 with --kube-api-qps={}", connection.qps));
    }
    found
}

fn authentication(options: &Options, gates: &Gates) -> Vec<String> {
    let mut found = vec![];
    let headers = &options.authentication;
    let lists = [
        ("requestheader-username-headers", &headers.requestheader_username_headers),
        ("requestheader-group-headers", &headers.requestheader_group_headers),
        ("requestheader-extra-headers-prefix", &headers.requestheader_extra_headers_prefix),
        ("requestheader-allowed-names", &headers.requestheader_allowed_names),
        ("requestheader-uid-headers", &headers.requestheader_uid_headers),
    ];
    for (flag, list) in lists {
        if list.iter().any(|entry| entry.trim().is_empty()) {
            found.push(format!("--{flag} has an empty entry"));
        }
    }
    if !headers.requestheader_uid_headers.is_empty() && !gates.enabled(Gate::RemoteRequestHeaderUID) {
        found.push("--requestheader-uid-headers needs the feature gate RemoteRequestHeaderUID".to_owned());
    }
    // Upstream: apiserver pkg/server/options/authentication.go: the aggregation of APIs would not work.
    let uid_headers = &headers.requestheader_uid_headers;
    if !uid_headers.is_empty() && !uid_headers.iter().any(|name| name.eq_ignore_ascii_case("X-Remote-Uid")) {
        found.push("--requestheader-uid-headers must include X-Remote-Uid".to_owned());
    }
    found
}

/// Upstream: apiserver pkg/authorization/path/path.go.
fn open_paths(options: &Options) -> impl Iterator<Item = String> {
    let paths = options.authorization.always_allow_paths.iter();
    let wrong = paths.filter(|path| path.strip_suffix('*').unwrap_or(path).contains('*'));
    wrong.map(|path| {
        format!("--authorization-always-allow-paths: {path:?} has a * that is not its last character")
    })
}

fn workers(config: &Config) -> Vec<String> {
    let mut found = vec![];
    #[rustfmt::skip]
    let ranges = [
        // flag                                             value                                                                                    least most
        ("concurrent-device-taint-eviction-syncs",      config.device_taint_eviction_controller.concurrent_syncs,                                    1, i32::MAX),
        ("concurrent-resourceclaim-syncs",              config.resource_claim_controller.concurrent_syncs,                                           1, i32::MAX),
        ("concurrent-statefulset-syncs",                config.stateful_set_controller.concurrent_stateful_set_syncs,                                1, i32::MAX),
        ("concurrent-daemonset-syncs",                  config.daemon_set_controller.concurrent_daemon_set_syncs,                                    1, i32::MAX),
        ("concurrent-service-endpoint-syncs",           config.endpoint_slice_controller.concurrent_service_endpoint_syncs,                          1, 50),
        ("max-endpoints-per-slice",                     config.endpoint_slice_controller.max_endpoints_per_slice,                                    1, 1000),
        ("mirroring-concurrent-service-endpoint-syncs", config.endpoint_slice_mirroring_controller.mirroring_concurrent_service_endpoint_syncs,      1, 50),
        ("mirroring-max-endpoints-per-subset",          config.endpoint_slice_mirroring_controller.mirroring_max_endpoints_per_subset,               1, 1000),
        ("concurrent-ephemeralvolume-syncs",            config.ephemeral_volume_controller.concurrent_ephemeral_volume_syncs,                        1, i32::MAX),
        ("concurrent-horizontal-pod-autoscaler-syncs",  config.hpa_controller.concurrent_horizontal_pod_autoscaler_syncs,                            1, i32::MAX),
        ("concurrent-job-syncs",                        config.job_controller.concurrent_job_syncs,                                                  1, i32::MAX),
        ("concurrent-cron-job-syncs",                   config.cron_job_controller.concurrent_cron_job_syncs,                                        1, i32::MAX),
    ];
    for (flag, value, least, most) in ranges {
        if value < least {
            found.push(format!("--{flag} must be at least {least}, not {value}"));
        } else if value > most {
            found.push(format!("--{flag} must be at most {most}, not {value}"));
        }
    }
    if config.attach_detach_controller.reconciler_sync_loop_period.as_secs() < 1 {
        found.push("--attach-detach-reconcile-sync-period must be at least one second".to_owned());
    }
    found
}

fn signing(config: &Config) -> Vec<String> {
    let mut found = vec![];
    let signing = &config.csr_signing_controller;
    let signers = [
        ("kubelet-serving", &signing.kubelet_serving_signer_configuration),
        ("kubelet-client", &signing.kubelet_client_signer_configuration),
        ("kube-apiserver-client", &signing.kube_apiserver_client_signer_configuration),
        ("legacy-unknown", &signing.legacy_unknown_signer_configuration),
    ];
    for (signer, SignerFiles { cert_file, key_file }) in signers {
        if cert_file.is_empty() != key_file.is_empty() {
            found.push(format!(
                "--cluster-signing-{signer}-cert-file and --cluster-signing-{signer}-key-file must be given together"
            ));
        }
    }
    let is_set = |files: &SignerFiles| !files.cert_file.is_empty() || !files.key_file.is_empty();
    let shared =
        !signing.cluster_signing_cert_file.is_empty() || !signing.cluster_signing_key_file.is_empty();
    if shared && signers.iter().any(|(_, files)| is_set(files)) {
        found.push(
            "--cluster-signing-cert-file and --cluster-signing-key-file exclude the files of single signers"
                .to_owned(),
        );
    }
    found
}

/// Only if the controller runs: upstream checks this when it starts the controller, and then exits.
fn node_ranges(component: &Component, config: &Config, gates: &Gates) -> Option<String> {
    if config.node_ipam_controller.service_cidr.split(',').count() > 2 {
        return Some("--service-cluster-ip-range takes at most two ranges".to_owned());
    }
    let listed = &config.generic.controllers;
    let runs = |controller| select::choose(controller, listed, gates) == Choice::Run;
    let is_on = config.kube_cloud_shared.allocate_node_cidrs;
    component.controller("node-ipam-controller").filter(|controller| is_on && runs(controller))?;
    Settings::of(config).err()
}

/// Upstream checks this when it starts the controller, and then exits.
fn migrator(component: &Component, config: &Config, gates: &Gates) -> Vec<String> {
    let listed = &config.generic.controllers;
    let runs = |controller| select::choose(controller, listed, gates) == Choice::Run;
    if !component.controller("storage-version-migrator-controller").is_some_and(runs) {
        return vec![];
    }
    let mut found = vec![];
    if !config.garbage_collector_controller.enable_garbage_collector {
        found.push("storage-version-migrator-controller needs --enable-garbage-collector".to_owned());
    }
    if !gates.enabled(Gate::InOrderInformers) {
        found.push("storage-version-migrator-controller needs the feature gate InOrderInformers".to_owned());
    }
    found
}

fn metrics(options: &Options) -> Vec<String> {
    let mut found = vec![];
    let version = &options.metrics.show_hidden_for_version;
    if !matches!(version.as_str(), "" | "1.35") {
        found.push(format!(
            "--show-hidden-metrics-for-version must be the previous minor version, 1.35, not {version:?}"
        ));
    }
    for key in options.metrics.allow_labels.keys() {
        if key.split(',').filter(|part| !part.is_empty()).count() != 2 {
            found.push(format!("--allow-metric-labels: {key:?} is not of the form metric,label"));
        }
    }
    found
}

fn logging(options: &Options, gates: &Gates) -> Vec<String> {
    let mut found = vec![];
    let logging = &options.logging;
    if !matches!(logging.format.as_str(), "text" | "json") {
        found.push(format!("--logging-format must be text or json, not {:?}", logging.format));
    }
    if logging.format == "json" && !gates.enabled(Gate::LoggingBetaOptions) {
        found.push("--logging-format=json needs the feature gate LoggingBetaOptions".to_owned());
    }
    if !logging.vmodule.is_empty() && logging.format != "text" {
        found.push("--vmodule works with --logging-format=text only".to_owned());
    }
    if logging.flush_frequency.is_zero() {
        found.push("--log-flush-frequency must be greater than zero".to_owned());
    }
    let alpha = [
        ("log-json-info-buffer-size", logging.json_info_buffer_size != "0"),
        ("log-json-split-stream", logging.json_split_stream),
        ("log-text-info-buffer-size", logging.text_info_buffer_size != "0"),
        ("log-text-split-stream", logging.text_split_stream),
    ];
    for (flag, used) in alpha {
        if used && !gates.enabled(Gate::LoggingAlphaOptions) {
            found.push(format!("--{flag} needs the feature gate LoggingAlphaOptions"));
        }
    }
    found
}
