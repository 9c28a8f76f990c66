//! The command line of kube-apiserver v1.36: which flags exist, which of them have an effect here, and which would need
//! something that is not here.

use anyhow::bail;

/// What a flag of kube-apiserver does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// As upstream.
    Same,
    /// Ignored silently: it only tunes, or concerns a component that does not exist here.
    Nothing,
    /// Ignored with a warning.
    Missing,
    /// Not supported, and refused: ignoring it would authenticate or authorize the wrong users.
    Refused,
}

use Effect::{Missing, Nothing, Refused, Same};

const SAME: &str = "advertise-address anonymous-auth audit-log-path authorization-mode bind-address cert-dir client-ca-file \
    default-not-ready-toleration-seconds default-unreachable-toleration-seconds disable-admission-plugins \
    enable-admission-plugins event-ttl \
    feature-gates runtime-config secure-port service-account-issuer service-account-key-file \
    service-account-signing-key-file service-cluster-ip-range service-node-port-range tls-cert-file tls-private-key-file \
    token-auth-file";

const NOTHING: &str = "allow-metric-labels allow-metric-labels-manifest allow-privileged apiserver-count \
    audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst \
    audit-log-batch-throttle-enable audit-log-batch-throttle-qps audit-log-compress audit-log-format audit-log-maxage \
    audit-log-maxbackup audit-log-maxsize audit-log-mode audit-log-truncate-enabled audit-log-truncate-max-batch-size \
    audit-log-truncate-max-event-size audit-log-version authentication-token-webhook-cache-ttl \
    authentication-token-webhook-version authorization-webhook-cache-authorized-ttl \
    authorization-webhook-cache-unauthorized-ttl authorization-webhook-version contention-profiling \
    coordinated-leadership-lease-duration coordinated-leadership-renew-deadline coordinated-leadership-retry-period \
    debug-socket-path default-watch-cache-size delete-collection-workers disable-http2-serving disabled-metrics \
    enable-garbage-collector enable-logs-handler enable-priority-and-fairness endpoint-reconciler-type etcd-cafile \
    etcd-certfile etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval \
    etcd-healthcheck-timeout etcd-keyfile etcd-prefix etcd-readycheck-timeout etcd-servers etcd-servers-overrides \
    external-hostname goaway-chance http2-max-streams-per-connection kubelet-certificate-authority \
    kubelet-client-certificate kubelet-client-key kubelet-port kubelet-preferred-address-types kubelet-read-only-port \
    kubelet-timeout kubernetes-service-node-port lease-reuse-duration-seconds livez-grace-period log-flush-frequency \
    log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format \
    max-connection-bytes-per-sec max-mutating-requests-inflight max-requests-inflight min-request-timeout \
    peer-advertise-ip peer-advertise-port peer-ca-file permit-address-sharing permit-port-sharing profiling \
    proxy-client-cert-file proxy-client-key-file request-timeout service-account-extend-token-expiration \
    service-account-jwks-uri service-account-lookup service-account-max-token-expiration \
    show-hidden-metrics-for-version shutdown-delay-duration shutdown-send-retry-after \
    shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout storage-media-type \
    strict-transport-security-directives tls-cipher-suites tls-curve-preferences tls-min-version tracing-config-file v \
    vmodule watch-cache watch-cache-sizes";

const MISSING: &str = "admission-control admission-control-config-file aggregator-reject-forwarding-redirect api-audiences \
    audit-policy-file audit-webhook-batch-buffer-size audit-webhook-batch-initial-backoff audit-webhook-batch-max-size \
    audit-webhook-batch-max-wait audit-webhook-batch-throttle-burst audit-webhook-batch-throttle-enable \
    audit-webhook-batch-throttle-qps audit-webhook-config-file audit-webhook-initial-backoff audit-webhook-mode \
    audit-webhook-truncate-enabled audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size \
    audit-webhook-version cors-allowed-origins egress-selector-config-file emulated-version \
    emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth \
    encryption-provider-config encryption-provider-config-automatic-reload min-compatibility-version \
    requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix \
    requestheader-group-headers requestheader-uid-headers requestheader-username-headers \
    runtime-config-emulation-forward-compatible tls-sni-cert-key";

const REFUSED: &str = "authentication-config authentication-token-webhook-config-file authorization-config \
    authorization-policy-file authorization-webhook-config-file oidc-ca-file oidc-client-id oidc-groups-claim \
    oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs oidc-username-claim oidc-username-prefix \
    service-account-signing-endpoint";

/// Flags that need no value: `--profiling` is `--profiling=true`.
pub(super) const SWITCHES: [&str; 29] = [
    "aggregator-reject-forwarding-redirect",
    "allow-privileged",
    "anonymous-auth",
    "audit-log-batch-throttle-enable",
    "audit-log-compress",
    "audit-log-truncate-enabled",
    "audit-webhook-batch-throttle-enable",
    "audit-webhook-truncate-enabled",
    "contention-profiling",
    "disable-http2-serving",
    "emulation-forward-compatible",
    "enable-aggregator-routing",
    "enable-bootstrap-token-auth",
    "enable-garbage-collector",
    "enable-logs-handler",
    "enable-priority-and-fairness",
    "encryption-provider-config-automatic-reload",
    "help",
    "log-json-split-stream",
    "log-text-split-stream",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "runtime-config-emulation-forward-compatible",
    "service-account-extend-token-expiration",
    "service-account-lookup",
    "shutdown-send-retry-after",
    "version",
    "watch-cache",
];

/// All flags of kube-apiserver with what they do here.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Effect)> {
    let lists = [(SAME, Same), (NOTHING, Nothing), (MISSING, Missing), (REFUSED, Refused)];
    lists.into_iter().flat_map(|(names, effect)| names.split_whitespace().map(move |name| (name, effect)))
}

/// What a flag does here; `None` if kube-apiserver does not know it.
pub(super) fn effect(name: &str) -> Option<Effect> {
    all().find(|(known, _)| *known == name).map(|(_, effect)| effect)
}

/// `--name=value`, `--name value`, and `--name` for switches, in order.
pub(super) fn pairs(arguments: &[String], switches: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        // One letter: `-v=4`. etcd also accepts one dash before a long name.
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            bail!("{word:?} is not a flag");
        };
        let pair = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None if switches.contains(&name) => (name.to_owned(), "true".to_owned()),
            None => match words.next() {
                Some(value) => (name.to_owned(), value.clone()),
                None => bail!("flag needs an argument: --{name}"),
            },
        };
        out.push(pair);
    }
    Ok(out)
}

/// The value that counts if a flag is given several times.
pub(super) fn last<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// All values of a flag that is a list: commas and repetition both separate.
pub(super) fn list<'a>(pairs: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let values = pairs.iter().filter(|(known, _)| known == name).flat_map(|(_, value)| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_one_effect() {
        let mut names: Vec<&str> = all().map(|(name, _)| name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(effect("secure-port"), Some(Same));
        assert_eq!(effect("etcd-servers"), Some(Nothing));
        assert_eq!(effect("oidc-issuer-url"), Some(Refused));
        // Removed in v1.24: envtest looks for it in the output of --help.
        assert_eq!(effect("insecure-port"), None);
    }

    #[test]
    fn flags_are_read_as_upstream_reads_them() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            pairs(&words, &SWITCHES).map_err(|error| error.to_string())
        };
        let given = read("--secure-port=1 --profiling --cert-dir /tmp/x -v=4 --secure-port 2").unwrap();
        assert_eq!(last(&given, "secure-port"), Some("2"));
        assert_eq!(last(&given, "profiling"), Some("true"));
        assert_eq!(last(&given, "cert-dir"), Some("/tmp/x"));
        assert_eq!(last(&given, "v"), Some("4"));
        assert_eq!(list(&read("--a=x,y --a=z").unwrap(), "a"), ["x", "y", "z"]);
        assert_eq!(read("--cert-dir").unwrap_err(), "flag needs an argument: --cert-dir");
        assert_eq!(read("run").unwrap_err(), "\"run\" is not a flag");
    }
}
