//! Validates the command line of a cloud-controller-manager.

use flyball_manager::Component;
use flyball_manager::options::Options;
use flyball_manager::validate::{allocator, shared};
use flyball_runtime::gates::Gates;
use flyball_serving::tls_problems;

/// All problems, in the order of `--help`.
pub(super) fn problems(component: &Component, options: &Options, gates: &Gates) -> Vec<String> {
    let config = &options.config;
    let mut found = shared(component, options, gates);
    // Upstream does not look at the type before the node-ipam-controller starts.
    if config.kube_cloud_shared.allocate_node_cidrs {
        found.extend(allocator(config));
    }
    if config.kube_cloud_shared.cloud_provider.name.is_empty() {
        found.push("--cloud-provider must name a cloud provider".to_owned());
    }
    found.extend(workers(options));
    found.extend(webhooks(options));
    found
}

fn workers(options: &Options) -> impl Iterator<Item = String> {
    let node = &options.config.cloud.node_controller;
    let service = &options.config.service_controller;
    let table = [
        ("concurrent-node-syncs", node.concurrent_node_syncs, 1),
        ("concurrent-node-status-updates", node.concurrent_node_status_updates, 0),
        ("concurrent-service-syncs", service.concurrent_service_syncs, 1),
    ];
    let wrong = table.into_iter().filter(|(_, value, least)| value < least);
    wrong.map(|(flag, value, least)| format!("--{flag} must be at least {least}, not {value}"))
}

fn webhooks(options: &Options) -> Vec<String> {
    // Upstream reads these flags only if webhooks are listed.
    let mut found = match options.config.cloud.webhook.webhooks.is_empty() {
        true => vec![],
        false => tls_problems(&options.webhook_serving),
    };
    let (port, webhook_port) = (options.serving.port, options.webhook_serving.port);
    if !(0..=65535).contains(&webhook_port) {
        found.push(format!("--webhook-secure-port must be between 0 and 65535, not {webhook_port}"));
    } else if webhook_port == port && port != 0 {
        found.push(format!("--webhook-secure-port and --secure-port must differ; both are {port}"));
    }
    found
}
