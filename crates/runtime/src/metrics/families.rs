//! The families of the process. Controllers declare their own beside the code that counts.

use super::{
    Family,
    Stability::{Alpha, Beta, Stable, Unstated},
};

/// Each is ten times the one before, with upstream's rounding errors, which are visible in `le`.
const QUEUE_BUCKETS: &[f64] =
    &[1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0];
const REQUEST_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const SIZE_BUCKETS: &[f64] =
    &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];
const REVIEW_BUCKETS: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const LIFETIME_BUCKETS: &[f64] = &[
    0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0, 604800.0, 2592000.0,
    7776000.0, 15552000.0, 31104000.0,
];
const DOUBLING_BUCKETS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

macro_rules! families {
    ($($id:ident = $kind:ident($name:literal, $stability:ident, $labels:expr, $($rest:expr),*);)*) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub static $id: Family = Family::$kind($name, $stability, $labels, $($rest),*);
        )*

        /// All of them, for tests and documentation.
        pub static PROCESS_FAMILIES: &[&Family] = &[$(&$id),*];
    };
}

families! {
    WORKQUEUE_ADDS = counter("workqueue_adds_total", Beta, &["name"], "Keys put into a work queue.");
    WORKQUEUE_DEPTH = gauge("workqueue_depth", Beta, &["name"], "Keys waiting in a work queue.");
    WORKQUEUE_LONGEST = gauge("workqueue_longest_running_processor_seconds", Beta, &["name"],
        "How long the longest running sync of a work queue has been running.");
    WORKQUEUE_QUEUE_DURATION = histogram("workqueue_queue_duration_seconds", Beta, &["name"], QUEUE_BUCKETS,
        "How long keys wait in a work queue until a worker takes them.");
    WORKQUEUE_RETRIES = counter("workqueue_retries_total", Beta, &["name"], "Keys put back after a failure.");
    WORKQUEUE_UNFINISHED = gauge("workqueue_unfinished_work_seconds", Beta, &["name"],
        "Time spent so far on syncs that are still running, summed; a growing number means stuck workers.");
    WORKQUEUE_WORK_DURATION = histogram("workqueue_work_duration_seconds", Beta, &["name"], QUEUE_BUCKETS,
        "How long syncs take.");

    LEADER_STATUS = gauge("leader_election_master_status", Alpha, &["name"],
        "Whether this process holds the lease: 1 if so, else 0.");
    LEADER_SLOWPATH = counter("leader_election_slowpath_total", Alpha, &["name"],
        "Renewals that had to read the lease again first.");

    CLIENT_REQUESTS = counter("rest_client_requests_total", Alpha, &["code", "host", "method"],
        "Requests to the API server by status code, method and host.");
    CLIENT_RETRIES = counter("rest_client_request_retries_total", Alpha, &["code", "host", "verb"],
        "Requests that were sent again, by the status that made it necessary.");
    CLIENT_DURATION = histogram("rest_client_request_duration_seconds", Alpha, &["host", "verb"], REQUEST_BUCKETS,
        "How long requests take.");
    CLIENT_THROTTLE = histogram("rest_client_rate_limiter_duration_seconds", Alpha, &["host", "verb"], REQUEST_BUCKETS,
        "How long requests wait for our own rate limit.");
    CLIENT_REQUEST_SIZE = histogram("rest_client_request_size_bytes", Alpha, &["host", "verb"], SIZE_BUCKETS,
        "Size of request bodies.");
    CLIENT_RESPONSE_SIZE = histogram("rest_client_response_size_bytes", Alpha, &["host", "verb"], SIZE_BUCKETS,
        "Size of response bodies.");

    BUILD_INFO = gauge("kubernetes_build_info", Beta,
        &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
        "Always 1; the labels say which Kubernetes version this behaves as, and how it was built.");
    VERSION_INFO = gauge("version_info", Alpha, &["binary", "component", "emulation", "min_compat"],
        "Always 1; the labels say which version this is and which it emulates.");
    FEATURE_ENABLED = gauge("kubernetes_feature_enabled", Beta, &["name", "stage"],
        "Whether a feature gate is on: 1 if so, else 0.");
    REGISTERED = counter("registered_metrics_total", Beta, &["deprecated_version", "stability_level"],
        "Metrics of this process by stability.");
    DISABLED = counter("disabled_metrics_total", Beta, &[], "Metrics left out because of --disabled-metrics.");
    UNEXPECTED_VALUES = counter("cardinality_enforcement_unexpected_categorizations_total", Alpha, &[],
        "Label values folded into 'unexpected' because of --allow-metric-labels.");
    HIDDEN = counter("hidden_metrics_total", Beta, &[], "Metrics that are hidden; there are none here.");
    RUNNING_CONTROLLERS = gauge("running_managed_controllers", Beta, &["manager", "name"],
        "Whether a controller runs in this manager: 1 if so, else 0.");

    HEALTHCHECK = gauge("kubernetes_healthcheck", Stable, &["name", "type"],
        "The last result of a health check: 1 if it passed, else 0.");
    HEALTHCHECKS = counter("kubernetes_healthchecks_total", Stable, &["name", "status", "type"],
        "Results of health checks.");

    AUTHN_REQUESTS = counter("apiserver_delegated_authn_request_total", Alpha, &["code"],
        "Token reviews sent to the API server, by status code.");
    AUTHN_DURATION = histogram("apiserver_delegated_authn_request_duration_seconds", Alpha, &["code"], REVIEW_BUCKETS,
        "How long token reviews take.");
    AUTHZ_REQUESTS = counter("apiserver_delegated_authz_request_total", Alpha, &["code"],
        "Access reviews sent to the API server, by status code.");
    AUTHZ_DURATION = histogram("apiserver_delegated_authz_request_duration_seconds", Alpha, &["code"], REVIEW_BUCKETS,
        "How long access reviews take.");
    AUTHENTICATED_REQUESTS = counter("authenticated_user_requests", Alpha, &["username"],
        "Requests by user; users outside the system's own are summed up as 'other'.");
    AUTHENTICATION_ATTEMPTS = counter("authentication_attempts", Alpha, &["result"],
        "Attempts to find out who is calling.");
    AUTHENTICATION_DURATION = histogram("authentication_duration_seconds", Alpha, &["result"], DOUBLING_BUCKETS,
        "How long it takes to find out who is calling.");
    CERTIFICATE_EXPIRATION = histogram("apiserver_client_certificate_expiration_seconds", Alpha, &[], LIFETIME_BUCKETS,
        "How long the client certificates that callers show are still valid.");
    TOKEN_CACHE_REQUESTS = counter("authentication_token_cache_request_total", Alpha, &["status"],
        "Tokens looked up among those reviewed lately, by whether they were there.");
    TOKEN_CACHE_DURATION = histogram("authentication_token_cache_request_duration_seconds", Alpha, &["status"],
        DEFAULT_BUCKETS, "How long it takes to find out whose a token is.");
    TOKEN_CACHE_FETCHES = counter("authentication_token_cache_fetch_total", Alpha, &["status"],
        "Tokens that had to be reviewed, by whether the review worked.");
    TOKEN_CACHE_ACTIVE = gauge("authentication_token_cache_active_fetch_count", Alpha, &["status"],
        "Reviews of tokens under way.");
    AUTHORIZATION_ATTEMPTS = counter("authorization_attempts_total", Alpha, &["result"],
        "Attempts to find out whether a caller may do something.");
    AUTHORIZATION_DURATION = histogram("authorization_duration_seconds", Alpha, &["result"], DOUBLING_BUCKETS,
        "How long it takes to find out whether a caller may do something.");

    PROCESS_CPU = counter("process_cpu_seconds_total", Unstated, &[], "CPU time used, user and system.");
    PROCESS_MAX_FDS = gauge("process_max_fds", Unstated, &[], "File descriptors that may be open.");
    PROCESS_RECEIVED = counter("process_network_receive_bytes_total", Unstated, &[],
        "Bytes received over the network, by all processes that share it.");
    PROCESS_SENT = counter("process_network_transmit_bytes_total", Unstated, &[],
        "Bytes sent over the network, by all processes that share it.");
    PROCESS_OPEN_FDS = gauge("process_open_fds", Unstated, &[], "File descriptors that are open.");
    PROCESS_RESIDENT = gauge("process_resident_memory_bytes", Unstated, &[], "Resident memory.");
    PROCESS_START_TIME = gauge("process_start_time_seconds", Unstated, &[], "When the process began, in Unix time.");
    PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", Unstated, &[], "Virtual memory.");
    PROCESS_MAX_VIRTUAL = gauge("process_virtual_memory_max_bytes", Unstated, &[], "Virtual memory that may be used.");

    DAEMONSET_STALE = counter("daemonset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Syncs put off until the cache shows our own writes.");
    JOB_STALE = counter("job_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Syncs put off until the cache shows our own writes.");
    REPLICASET_STALE = counter("replicaset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Syncs put off until the cache shows our own writes.");
    STATEFULSET_STALE = counter("statefulset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Syncs put off until the cache shows our own writes.");

    CONTROLLER_PANICS = counter("flyball_controller_panics_total", Alpha, &["name", "place"],
        "Panics of a controller. After a panic in a sync only its key is delayed; after any other the controller is set up again.");
    QUARANTINED = gauge("flyball_quarantined_keys", Alpha, &["name"],
        "Keys of a controller that wait because their sync panicked.");
    WRITES_REFUSED = counter("flyball_writes_refused_total", Alpha, &["lease"],
        "Writes that were not sent, because the lease that allows them had run out.");
    LOG_DROPPED = counter("flyball_log_lines_dropped_total", Alpha, &[],
        "Log lines that were dropped, because the log was not read fast enough.");
    INFORMER_QUEUED = gauge("informer_queued_items", Alpha, &["group", "name", "resource", "version"],
        "Changes that an informer has not delivered yet; always zero, as they are delivered at once.");
    INFORMER_LATENCY = histogram("informer_processing_latency_seconds", Alpha, &["group", "name", "resource", "version"],
        &flyball_cache::DELIVERY_BUCKETS, "How long it takes to deliver a change to all subscribers.");
    INFORMER_PANICS = counter("flyball_informer_handler_panics_total", Alpha, &["resource"],
        "Panics on a change. The controller that panicked was set up again.");
    INFORMER_RELISTS = counter("flyball_informer_relists_total", Alpha, &["resource"],
        "Full lists after the first one, because a watch had lost its place.");
    INFORMER_JSON = counter("flyball_informer_json_fallbacks_total", Alpha, &["resource"],
        "Resources whose objects could not be read as protobuf, so that JSON is requested since.");
    INFORMER_OBJECTS = gauge("flyball_informer_objects", Alpha, &["resource"], "Objects in a cache.");
    INFORMER_UNDECODABLE = gauge("flyball_informer_undecodable_objects", Alpha, &["resource"],
        "Objects in a cache whose latest version could not be decoded.");
}

/// The family in which a controller counts the syncs that wait for its cache, if upstream has one.
pub(crate) fn stale_skips(controller: &str) -> Option<&'static Family> {
    match controller {
        "daemonset-controller" => Some(&DAEMONSET_STALE),
        "job-controller" => Some(&JOB_STALE),
        "replicaset-controller" => Some(&REPLICASET_STALE),
        "statefulset-controller" => Some(&STATEFULSET_STALE),
        _ => None,
    }
}

/// Whether a family is served under `/metrics/slis` rather than `/metrics`.
pub(super) fn is_sli(family: &Family) -> bool {
    family.name.starts_with("kubernetes_healthcheck")
}
