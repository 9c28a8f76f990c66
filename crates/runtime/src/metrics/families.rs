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
/// Buckets of upstream's histograms that double from a millisecond on.
pub const DOUBLING_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Buckets of upstream's histograms of how late a pod is deleted because of a taint.
pub const EVICTION_SECONDS: &[f64] =
    &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
/// Buckets of upstream's histograms of operations on volumes.
pub const VOLUME_SECONDS: &[f64] =
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

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
    WORKQUEUE_ADDS = counter("workqueue_adds_total", Beta, &["name"], "Total number of adds handled by workqueue");
    WORKQUEUE_DEPTH = gauge("workqueue_depth", Beta, &["name"], "Current depth of workqueue");
    WORKQUEUE_LONGEST = gauge("workqueue_longest_running_processor_seconds", Beta, &["name"],
        "How many seconds has the longest running processor for workqueue been running.");
    WORKQUEUE_QUEUE_DURATION = histogram("workqueue_queue_duration_seconds", Beta, &["name"], QUEUE_BUCKETS,
        "How long in seconds an item stays in workqueue before being requested.");
    WORKQUEUE_RETRIES = counter("workqueue_retries_total", Beta, &["name"], "Total number of retries handled by workqueue");
    WORKQUEUE_UNFINISHED = gauge("workqueue_unfinished_work_seconds", Beta, &["name"],
        "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.");
    WORKQUEUE_WORK_DURATION = histogram("workqueue_work_duration_seconds", Beta, &["name"], QUEUE_BUCKETS,
        "How long in seconds processing an item from workqueue takes.");

    LEADER_STATUS = gauge("leader_election_master_status", Alpha, &["name"],
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.");
    LEADER_SLOWPATH = counter("leader_election_slowpath_total", Alpha, &["name"],
        "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.");

    CLIENT_REQUESTS = counter("rest_client_requests_total", Alpha, &["code", "host", "method"],
        "Number of HTTP requests, partitioned by status code, method, and host.");
    CLIENT_RETRIES = counter("rest_client_request_retries_total", Alpha, &["code", "host", "verb"],
        "Number of request retries, partitioned by status code, verb, and host.");
    CLIENT_DURATION = histogram("rest_client_request_duration_seconds", Alpha, &["host", "verb"], REQUEST_BUCKETS,
        "Request latency in seconds. Broken down by verb, and host.");
    CLIENT_THROTTLE = histogram("rest_client_rate_limiter_duration_seconds", Alpha, &["host", "verb"], REQUEST_BUCKETS,
        "Client side rate limiter latency in seconds. Broken down by verb, and host.");
    CLIENT_REQUEST_SIZE = histogram("rest_client_request_size_bytes", Alpha, &["host", "verb"], SIZE_BUCKETS,
        "Request size in bytes. Broken down by verb and host.");
    CLIENT_RESPONSE_SIZE = histogram("rest_client_response_size_bytes", Alpha, &["host", "verb"], SIZE_BUCKETS,
        "Response size in bytes. Broken down by verb and host.");

    BUILD_INFO = gauge("kubernetes_build_info", Beta,
        &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"],
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.");
    VERSION_INFO = gauge("version_info", Alpha, &["binary", "component", "emulation", "min_compat"],
        "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.");
    FEATURE_ENABLED = gauge("kubernetes_feature_enabled", Beta, &["name", "stage"],
        "This metric records the data about the stage and enablement of a k8s feature.");
    REGISTERED = counter("registered_metrics_total", Beta, &["deprecated_version", "stability_level"],
        "The count of registered metrics broken by stability level and deprecation version.");
    DISABLED = counter("disabled_metrics_total", Beta, &[], "The count of disabled metrics.");
    UNEXPECTED_VALUES = counter("cardinality_enforcement_unexpected_categorizations_total", Alpha, &[],
        "The count of unexpected categorizations during cardinality enforcement.");
    HIDDEN = counter("hidden_metrics_total", Beta, &[], "The count of hidden metrics.");
    RUNNING_CONTROLLERS = gauge("running_managed_controllers", Beta, &["manager", "name"],
        "Indicates where instances of a controller are currently running");

    HEALTHCHECK = gauge("kubernetes_healthcheck", Stable, &["name", "type"],
        "This metric records the result of a single healthcheck.");
    HEALTHCHECKS = counter("kubernetes_healthchecks_total", Stable, &["name", "status", "type"],
        "This metric records the results of all healthcheck.");

    AUTHN_REQUESTS = counter("apiserver_delegated_authn_request_total", Alpha, &["code"],
        "Number of HTTP requests partitioned by status code.");
    AUTHN_DURATION = histogram("apiserver_delegated_authn_request_duration_seconds", Alpha, &["code"], REVIEW_BUCKETS,
        "Request latency in seconds. Broken down by status code.");
    AUTHZ_REQUESTS = counter("apiserver_delegated_authz_request_total", Alpha, &["code"],
        "Number of HTTP requests partitioned by status code.");
    AUTHZ_DURATION = histogram("apiserver_delegated_authz_request_duration_seconds", Alpha, &["code"], REVIEW_BUCKETS,
        "Request latency in seconds. Broken down by status code.");
    AUTHENTICATED_REQUESTS = counter("authenticated_user_requests", Alpha, &["username"],
        "Counter of authenticated requests broken out by username.");
    AUTHENTICATION_ATTEMPTS = counter("authentication_attempts", Alpha, &["result"],
        "Counter of authenticated attempts.");
    AUTHENTICATION_DURATION = histogram("authentication_duration_seconds", Alpha, &["result"], DOUBLING_SECONDS,
        "Authentication duration in seconds broken out by result.");
    CERTIFICATE_EXPIRATION = histogram("apiserver_client_certificate_expiration_seconds", Alpha, &[], LIFETIME_BUCKETS,
        "Distribution of the remaining lifetime on the certificate used to authenticate a request.");
    TOKEN_CACHE_REQUESTS = counter("authentication_token_cache_request_total", Alpha, &["status"],
        "");
    TOKEN_CACHE_DURATION = histogram("authentication_token_cache_request_duration_seconds", Alpha, &["status"],
        DEFAULT_BUCKETS, "");
    TOKEN_CACHE_FETCHES = counter("authentication_token_cache_fetch_total", Alpha, &["status"],
        "");
    TOKEN_CACHE_ACTIVE = gauge("authentication_token_cache_active_fetch_count", Alpha, &["status"],
        "");
    AUTHORIZATION_ATTEMPTS = counter("authorization_attempts_total", Alpha, &["result"],
        "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.");
    AUTHORIZATION_DURATION = histogram("authorization_duration_seconds", Alpha, &["result"], DOUBLING_SECONDS,
        "Authorization duration in seconds broken out by result.");

    PROCESS_CPU = counter("process_cpu_seconds_total", Unstated, &[], "Total user and system CPU time spent in seconds.");
    PROCESS_MAX_FDS = gauge("process_max_fds", Unstated, &[], "Maximum number of open file descriptors.");
    PROCESS_RECEIVED = counter("process_network_receive_bytes_total", Unstated, &[],
        "Number of bytes received by the process over the network.");
    PROCESS_SENT = counter("process_network_transmit_bytes_total", Unstated, &[],
        "Number of bytes sent by the process over the network.");
    PROCESS_OPEN_FDS = gauge("process_open_fds", Unstated, &[], "Number of open file descriptors.");
    PROCESS_RESIDENT = gauge("process_resident_memory_bytes", Unstated, &[], "Resident memory size in bytes.");
    PROCESS_START_TIME = gauge("process_start_time_seconds", Unstated, &[], "Start time of the process since unix epoch in seconds.");
    PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", Unstated, &[], "Virtual memory size in bytes.");
    PROCESS_MAX_VIRTUAL = gauge("process_virtual_memory_max_bytes", Unstated, &[], "Maximum amount of virtual memory available in bytes.");

    DAEMONSET_STALE = counter("daemonset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Total number of DaemonSet syncs skipped due to a stale watch cache.");
    JOB_STALE = counter("job_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Total number of Job syncs skipped due to a stale watch cache.");
    REPLICASET_STALE = counter("replicaset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Total number of ReplicaSet syncs skipped due to a stale watch cache.");
    STATEFULSET_STALE = counter("statefulset_controller_stale_sync_skips_total", Alpha, &["group", "resource"],
        "Total number of StatefulSet syncs skipped due to a stale watch cache.");

    CONTROLLER_PANICS = counter("flyball_controller_panics_total", Alpha, &["name", "place"],
        "Panics of a controller. After a panic in a sync only its key is delayed, after one aside nothing; after any other the controller is set up again.");
    QUARANTINED = gauge("flyball_quarantined_keys", Alpha, &["name"],
        "Keys of a controller that wait because their sync panicked.");
    WRITES_REFUSED = counter("flyball_writes_refused_total", Alpha, &["lease"],
        "Writes that were not sent, because the lease that allows them had run out.");
    LOG_DROPPED = counter("flyball_log_lines_dropped_total", Alpha, &[],
        "Log lines that were dropped, because the log was not read fast enough.");
    DELETIONS_HELD = gauge("flyball_deletions_held", Alpha, &["name"],
        "Whether a controller deletes nothing more, because it has used up its budget for deletions.");
    DELETIONS_REFUSED = counter("flyball_deletions_refused_total", Alpha, &["name"],
        "Deletions of a controller that were not made, because it has used up its budget.");
    INFORMER_QUEUED = gauge("informer_queued_items", Alpha, &["group", "name", "resource", "version"],
        "Number of items currently queued in the FIFO.");
    INFORMER_LATENCY = histogram("informer_processing_latency_seconds", Alpha, &["group", "name", "resource", "version"],
        &flyball_cache::DELIVERY_BUCKETS, "Time taken to process events after popping from the queue.");
    INFORMER_VERSION = gauge("informer_store_resource_version", Alpha, &["group", "name", "resource", "version"],
        "The 15 least significant digits of the resource version of the store.");
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
