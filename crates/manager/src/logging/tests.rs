use std::sync::{Arc, Mutex};

use jiff::{Timestamp, tz::TimeZone};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

use super::{
    filter,
    lines::{Format, Lines},
};

/// The lines that are written while `say` runs.
fn written(format: Format, say: impl FnOnce()) -> String {
    let written = Arc::new(Mutex::new(String::new()));
    let out = {
        let written = written.clone();
        Box::new(move |_: Level, line: &str| written.lock().unwrap().push_str(line))
    };
    let now = || "2026-11-16T11:28:27.123456Z".parse::<Timestamp>().unwrap();
    let lines = Lines::new(format, now, TimeZone::UTC, out);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), say);
    let written = written.lock().unwrap().clone();
    // Process and line number are not compared.
    let process = format!("{:>7}", std::process::id());
    let written = written.replace(&process, "      1");
    let parts = written.split("logging/tests.rs:").map(|part| part.trim_start_matches(char::is_numeric));
    parts.collect::<Vec<_>>().join("logging/tests.rs:9")
}

fn say_everything() {
    tracing::info!("starting");
    tracing::warn!(error = %"no route", count = 3, "trying \"again\"");
    let controller = tracing::info_span!("controller", controller = "job-controller", task = %"worker 0");
    let _inside = controller.enter();
    let sync = tracing::info_span!("sync", namespace = "a", attempt = 2u64);
    let _inside = sync.enter();
    tracing::error!(error = "one\ntwo", attempt = 3u64, forced = true, "gave up");
    tracing::debug!(controller = "other", share = 0.5, "why");
}

#[test]
fn text_lines_have_klogs_header_and_pairs() {
    let want = "\
I1116 11:28:27.123456       1 logging/tests.rs:9] \"starting\"
W1116 11:28:27.123456       1 logging/tests.rs:9] \"trying \\\"again\\\"\" err=\"no route\" count=3
E1116 11:28:27.123456       1 logging/tests.rs:9] \"gave up\" err=<
\tone
\ttwo
 > logger=\"job-controller\" task=\"worker 0\" namespace=\"a\" attempt=3 forced=true
I1116 11:28:27.123456       1 logging/tests.rs:9] \"why\" logger=\"other\" task=\"worker 0\" namespace=\"a\" attempt=2 share=0.5
";
    assert_eq!(written(Format::Text, say_everything), want);
}

#[test]
fn times_are_right_at_each_second_and_before_the_epoch() {
    use std::sync::atomic::{AtomicI64, Ordering};
    static NOW: AtomicI64 = AtomicI64::new(0);
    let now = || Timestamp::from_microsecond(NOW.load(Ordering::Relaxed)).unwrap();
    let written = Arc::new(Mutex::new(vec![]));
    let out = {
        let written = written.clone();
        Box::new(move |_: Level, line: &str| written.lock().unwrap().push(line[1..21].to_owned()))
    };
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let lines = Lines::new(Format::Text, now, zone, out);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
        for at in [1_999_999, 2_000_000, 2_000_001, 1_000_000, -1, 86_400_000_000] {
            NOW.store(at, Ordering::Relaxed);
            tracing::info!("x");
        }
    });
    let want = [
        "0101 02:00:01.999999",
        "0101 02:00:02.000000",
        "0101 02:00:02.000001",
        "0101 02:00:01.000000",
        "0101 01:59:59.999999",
        "0102 02:00:00.000000",
    ];
    assert_eq!(*written.lock().unwrap(), want);
}

#[test]
fn texts_are_quoted_as_json_does() {
    for text in ["plain", "", "a \"b\"", "back\\slash", "tab\t", "\u{1}", "\u{7f}", "ü\u{2028}", "line\nline"]
    {
        let line = written(Format::Json, || tracing::info!(text, "said"));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["text"], text);
    }
}

#[test]
fn lines_within_a_sync_name_its_object() {
    let key = flyball_api::Key::new("a", "b");
    let within = || {
        let sync = flyball_runtime::Syncing::new(&key, 2, 0);
        futures::executor::block_on(sync.run(async { tracing::info!(name = "other", "within") }));
        tracing::info!("after");
    };
    let want = "\
I1116 11:28:27.123456       1 logging/tests.rs:9] \"within\" namespace=\"a\" name=\"other\" attempt=2
I1116 11:28:27.123456       1 logging/tests.rs:9] \"after\"
";
    assert_eq!(written(Format::Text, within), want);
}

#[test]
fn json_lines_have_upstreams_keys() {
    let want = r#"{"ts":1794828507123.456,"caller":"logging/tests.rs:9","msg":"starting","v":0}
{"ts":1794828507123.456,"caller":"logging/tests.rs:9","msg":"trying \"again\"","v":0,"count":3,"err":"no route"}
{"ts":1794828507123.456,"logger":"job-controller","caller":"logging/tests.rs:9","msg":"gave up","task":"worker 0","namespace":"a","attempt":3,"forced":true,"err":"one\ntwo"}
{"ts":1794828507123.456,"logger":"other","caller":"logging/tests.rs:9","msg":"why","v":2,"task":"worker 0","namespace":"a","attempt":2,"share":0.5}
"#;
    let lines = written(Format::Json, say_everything);
    assert_eq!(lines, want);
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn verbosity_maps_to_levels_and_modules_can_be_louder() {
    #[rustfmt::skip]
    let table = [
        // -v, --vmodule,                module,                    loudest that is heard, too quiet
        (0, "",                          "flyball_runtime",         Level::INFO,  Some(Level::DEBUG)),
        (2, "",                          "flyball_batch::job",      Level::DEBUG, Some(Level::TRACE)),
        (9, "",                          "flyball_runtime",         Level::TRACE, None),
        (0, "",                          "h2::proto",               Level::WARN,  Some(Level::INFO)),
        (8, "",                          "h2::proto",               Level::DEBUG, Some(Level::TRACE)),
        (0, "flyball_cache::informer=6", "flyball_cache::informer", Level::TRACE, None),
        (0, "flyball_cache::informer=6", "flyball_cache::store",    Level::INFO,  Some(Level::DEBUG)),
    ];
    for (verbosity, vmodule, module, heard, unheard) in table {
        let filter = filter(verbosity, vmodule);
        assert!(filter.would_enable(module, &heard), "-v {verbosity} {vmodule}: {filter}");
        assert!(
            !unheard.is_some_and(|level| filter.would_enable(module, &level)),
            "-v {verbosity} {vmodule}: {filter}"
        );
    }
}

#[test]
fn invalid_patterns_are_ignored() {
    filter(0, "a=b=c,=,][=4,x=99999999999999");
}
