use super::*;

const UPSTREAM: &str = include_str!("../../../../docs/parity/metrics.tsv");

fn number_list(text: &str) -> Vec<f64> {
    let text = text.trim_end_matches(" (defaults)");
    text.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect()
}

#[test]
fn names_types_labels_buckets_stability_and_help_are_upstreams() {
    let rows: BTreeMap<&str, Vec<&str>> = UPSTREAM
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|columns| (columns[0], columns))
        .collect();
    let mut compared = 0;
    for family in PROCESS_FAMILIES {
        let ours_alone = family.name.starts_with("flyball_") || family.name.starts_with("process_");
        let Some(row) = rows.get(family.name) else {
            assert!(ours_alone, "{} is not upstream's", family.name);
            continue;
        };
        let sorted = |labels: Vec<&str>| labels.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(format!("{:?}", family.kind).to_lowercase(), row[1], "{}", family.name);
        let want: Vec<&str> = row[2].split(',').filter(|label| !label.is_empty()).collect();
        assert_eq!(sorted(family.labels.to_vec()), sorted(want), "{}", family.name);
        assert_eq!(family.buckets, number_list(row[3]), "{}", family.name);
        assert_eq!(family.stability.to_string(), row[4], "{}", family.name);
        assert_eq!(family.help, row[10], "{}", family.name);
        compared += 1;
    }
    assert!(compared > 25, "only {compared} families were compared");
}

/// Of Go's libraries: the cache of connections, credential plugins (docs/operations.md).
const NOT_OURS: [&str; 3] =
    ["rest_client_dns_resolution_duration_seconds", "rest_client_exec_plugin_", "rest_client_transport_"];

/// Those of controllers are compared with a running upstream (crates/sim/tests/metrics.rs).
#[test]
fn no_metric_of_the_process_is_missing() {
    let ours: BTreeSet<&str> = PROCESS_FAMILIES.iter().map(|family| family.name).collect();
    let rows = UPSTREAM.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let of_process = rows.filter(|row| !row[5].ends_with("controller")).map(|row| row[0]);
    let is_left_out = |name: &str| NOT_OURS.iter().any(|prefix| name.starts_with(prefix));
    let missing: Vec<&str> = of_process.filter(|name| !ours.contains(name) && !is_left_out(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    #[rustfmt::skip]
    let table = [
        (0.0, "0"), (1.0, "1"), (-1.5, "-1.5"), (0.1, "0.1"), (0.0001, "0.0001"), (0.00001, "1e-05"),
        (100_000.0, "100000"), (1_000_000.0, "1e+06"), (1_794_779_954.89, "1.79477995489e+09"),
        (1e-8, "1e-08"), (16_777_216.0, "1.6777216e+07"), (f64::INFINITY, "+Inf"), (f64::NAN, "NaN"),
    ];
    for (value, want) in table {
        assert_eq!(text::number(value), want);
    }
}

#[test]
fn the_text_form_is_prometheus() {
    static SYNCS: Family = Family::counter("syncs_total", Stability::Beta, &["b", "a"], "Syncs.\nReally.");
    static TIMES: Family = Family::histogram("times_seconds", Stability::Stable, &[], &[0.5, 1.0], "Times.");
    let metrics = Metrics::default();
    metrics.counter(&SYNCS, &["q\"uo\\te\n", "2"]).add(3);
    metrics.counter(&SYNCS, &["q\"uo\\te\n", "2"]).inc();
    let times = metrics.histogram(&TIMES, &[]);
    for value in [0.25, 0.5, 0.75, 9.0] {
        times.observe(value);
    }
    let text = metrics.text();
    let want = "# HELP syncs_total [BETA] Syncs.\\nReally.\n# TYPE syncs_total counter\n\
        syncs_total{a=\"2\",b=\"q\\\"uo\\\\te\\n\"} 4\n\
        # HELP times_seconds [STABLE] Times.\n# TYPE times_seconds histogram\n\
        times_seconds_bucket{le=\"0.5\"} 2\ntimes_seconds_bucket{le=\"1\"} 3\ntimes_seconds_bucket{le=\"+Inf\"} 4\n\
        times_seconds_sum 10.5\ntimes_seconds_count 4\n";
    assert!(text.contains(want), "{text}");
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
}

#[test]
fn policy_hides_metrics_and_folds_labels() {
    let allowed =
        BTreeMap::from([("workqueue_adds_total,name".to_owned(), BTreeSet::from(["job".to_owned()]))]);
    let disabled = BTreeSet::from(["workqueue_retries_total".to_owned()]);
    let metrics = Metrics::new(Policy { disabled, allowed });
    for name in ["job", "pod", "node"] {
        metrics.counter(&WORKQUEUE_ADDS, &[name]).inc();
        metrics.counter(&WORKQUEUE_RETRIES, &[name]).inc();
    }
    let text = metrics.text();
    assert!(text.contains("workqueue_adds_total{name=\"job\"} 1\n"), "{text}");
    assert!(text.contains("workqueue_adds_total{name=\"unexpected\"} 2\n"), "{text}");
    assert!(!text.contains("workqueue_retries_total"), "{text}");
}

#[test]
fn queues_are_asked_at_each_scrape_and_bounded_in_number() {
    let metrics = Metrics::default();
    for _ in 0..100 {
        metrics.watch_queue("job", || (2, (Duration::from_secs(3), Duration::from_secs(1))));
    }
    let text = metrics.text();
    assert!(text.contains("workqueue_depth{name=\"job\"} 32\n"), "{text}");
    assert!(text.contains("workqueue_unfinished_work_seconds{name=\"job\"} 48\n"), "{text}");
    assert!(text.contains("workqueue_longest_running_processor_seconds{name=\"job\"} 1\n"), "{text}");
}

#[test]
fn series_are_bounded() {
    static MANY: Family = Family::gauge("many", Stability::Alpha, &["n"], "Many.");
    let metrics = Metrics::default();
    for n in 0..MAX_SERIES + 10 {
        metrics.gauge(&MANY, &[&n.to_string()]).set(1.0);
    }
    assert_eq!(metrics.text().lines().filter(|line| line.starts_with("many{")).count(), MAX_SERIES);
    metrics.forget(&MANY, &["7"]);
    assert!(!metrics.text().contains("many{n=\"7\"}"));
}

#[test]
fn health_checks_are_service_level_indicators() {
    let metrics = Metrics::default();
    metrics.gauge(&HEALTHCHECK, &["ping", "healthz"]).set(1.0);
    assert!(metrics.slis().contains("kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n"));
    assert!(!metrics.text().contains("kubernetes_healthcheck"));
}
