//! The flags of a cloud-controller-manager. Most are those of kube-controller-manager.

use flyball_manager::flags::{
    Effect::{Controllers, Section as OfSection},
    Field::{Bool, CertKeys, Duration, Int, Int32, Int32List, Ip, List, PlainGates, Text},
    Flag, Section, flag, section,
};

/// A flag of kube-controller-manager's section of that name.
const fn generic(name: &str) -> Flag {
    flag("generic", name)
}

/// All flags, in the order of `--help`.
pub const FLAGS: &[&[Section]] = &[SHARED, GENERIC, OWN, WEBHOOK, SERVING, REST];

const SHARED: &[Section] = &[section("debugging"), section("leader-migration")];

#[rustfmt::skip]
const GENERIC: &[Section] = &[
    Section { name: "generic", flags: &[
        generic("allocate-node-cidrs"),
        generic("allow-untagged-cloud").saying(
            "Work for a cloud that does not say which cluster its resources belong to.").effect(OfSection)
            .deprecated("resources of a cloud will have to say which cluster they belong to"),
        generic("cidr-allocator-type"),
        generic("cloud-config").saying("Configuration of the cloud; its form is the provider's choice.").effect(OfSection),
        generic("cloud-provider").saying("Whose cloud to work for. A wrong name is answered with all that there are."),
        generic("cluster-cidr").saying(
            "The range of all pod addresses: routes inside it are ours, and nodes get their ranges from it. For \
             dual-stack clusters two ranges of different families, separated by a comma.")
            .effect(Controllers(&["node-ipam-controller", "node-route-controller"])),
        generic("cluster-name").effect(Controllers(&["service-lb-controller", "node-route-controller"])),
        generic("configure-cloud-routes").saying(
            "Have a route in the cloud for every node's range. Needs --cluster-cidr and a cloud that has routes.")
            .effect(Controllers(&["node-route-controller"])),
        generic("controller-start-interval"),
        generic("controllers"),
        generic("external-cloud-volume-plugin"),
        Flag::new("feature-gates", PlainGates(|o| &mut o.feature_gates),
            "Optional behaviours to turn on or off: Name=true or Name=false, separated by commas. AllAlpha and AllBeta \
             speak for all gates of their stage. May be repeated. The gates are listed at the end of this page."),
        generic("kube-api-burst"),
        generic("kube-api-content-type"),
        generic("kube-api-qps"),
        generic("leader-elect"),
        generic("leader-elect-lease-duration"),
        generic("leader-elect-renew-deadline"),
        generic("leader-elect-resource-lock"),
        generic("leader-elect-resource-name"),
        generic("leader-elect-resource-namespace"),
        generic("leader-elect-retry-period"),
        generic("min-resync-period"),
        generic("node-monitor-period").saying("How often the machines of nodes that are not ready are looked up in the cloud.")
            .effect(Controllers(&["cloud-node-lifecycle-controller"])),
        generic("node-sync-period"),
        generic("route-reconciliation-period").saying("How often routes are compared with nodes.")
            .effect(Controllers(&["node-route-controller"])),
        generic("use-service-account-credentials"),
    ]},
];

#[rustfmt::skip]
const OWN: &[Section] = &[
    Section { name: "cloud-node-controller", flags: &[
        Flag::new("concurrent-node-status-updates",
            Int32(|o| &mut o.config.cloud.node_controller.concurrent_node_status_updates),
            "Nodes whose addresses are updated at the same time; 0 means as many as --concurrent-node-syncs."),
        Flag::new("concurrent-node-syncs", Int32(|o| &mut o.config.cloud.node_controller.concurrent_node_syncs),
            "Nodes initialised at the same time."),
    ]},
    Section { name: "service-lb-controller", flags: &[
        flag("service-lb-controller", "concurrent-service-syncs").saying(
            "Services whose load balancers are made or changed at the same time.").effect(OfSection),
    ]},
];

#[rustfmt::skip]
const WEBHOOK: &[Section] = &[
    Section { name: "webhook", flags: &[
        Flag::new("webhooks", List(|o| &mut o.config.cloud.webhook.webhooks),
            "Which admission webhooks of the cloud are served: '*' for all, 'foo' turns foo on, '-foo' turns it off. \
             Needs the feature gate CloudControllerManagerWebhook."),
    ]},
    Section { name: "webhook serving", flags: &[
        Flag::new("webhook-bind-address", Ip(|o| &mut o.webhook_serving.bind_address),
            "The address to serve webhooks on."),
        Flag::new("webhook-cert-dir", Text(|o| &mut o.webhook_serving.cert_dir),
            "Where a self-signed certificate for webhooks is kept; empty keeps it in memory."),
        Flag::new("webhook-disable-http2-serving", Bool(|o| &mut o.webhook_serving.disable_http2),
            "Serve webhooks over HTTP/1.1 only."),
        Flag::new("webhook-secure-port", Int(|o| &mut o.webhook_serving.port),
            "The port to serve webhooks on; 0 serves none."),
        Flag::new("webhook-tls-cert-file", Text(|o| &mut o.webhook_serving.cert_file),
            "The certificate of the webhook server (PEM, leaf first). Without it a self-signed one is made."),
        Flag::new("webhook-tls-cipher-suites", List(|o| &mut o.webhook_serving.cipher_suites),
            "The TLS 1.2 cipher suites that the webhook server allows; all safe ones by default."),
        Flag::new("webhook-tls-curve-preferences", Int32List(|o| &mut o.webhook_serving.curve_preferences),
            "The key exchange groups that the webhook server allows, by number."),
        Flag::new("webhook-tls-min-version", Text(|o| &mut o.webhook_serving.min_version),
            "The least TLS version of the webhook server: VersionTLS12 or VersionTLS13."),
        Flag::new("webhook-tls-private-key-file", Text(|o| &mut o.webhook_serving.key_file),
            "The private key of --webhook-tls-cert-file."),
        Flag::new("webhook-tls-sni-cert-key", CertKeys(|o| &mut o.webhook_serving.sni_cert_keys),
            "A further certificate and key of the webhook server, by server name: certificate,key[:domain,...]. May be repeated."),
    ]},
];

const SERVING: &[Section] = &[section("secure serving"), section("authentication"), section("authorization")];

#[rustfmt::skip]
const REST: &[Section] = &[
    Section { name: "misc", flags: &[
        flag("misc", "kubeconfig"),
        flag("misc", "master"),
        Flag::new("node-status-update-frequency", Duration(|o| &mut o.config.cloud.node_status_update_frequency),
            "How often the addresses of all nodes are compared with the cloud.")
            .effect(Controllers(&["cloud-node-controller"])),
    ]},
    // Upstream has no section for logs here.
    Section { name: "global", flags: &[
        flag("global", "help"),
        flag("logs", "log-flush-frequency"),
        flag("logs", "log-json-info-buffer-size"),
        flag("logs", "log-json-split-stream"),
        flag("logs", "log-text-info-buffer-size"),
        flag("logs", "log-text-split-stream"),
        flag("logs", "logging-format"),
        flag("logs", "v"),
        flag("global", "version"),
        flag("logs", "vmodule"),
    ]},
    // As upstream's own program has it.
    section("node-ipam-controller"),
];
