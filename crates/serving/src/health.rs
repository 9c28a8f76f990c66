//! `/healthz`, `/livez` and `/readyz`: every check by name. The reason of a failure is only logged.

use std::fmt::Write;

use flyball_listen::SeldomEach;
use flyball_runtime::metrics::{HEALTHCHECK, HEALTHCHECKS};
use http::StatusCode;

use crate::{
    Pages,
    answer::{Answer, text},
    routes::Query,
};

/// Runs all checks but those excluded; `page` is `healthz`, `livez` or `readyz`.
pub(super) fn health(page: &'static str, query: &Query, pages: &Pages, failures: &SeldomEach) -> Answer {
    let (metrics, remarks) = (&pages.metrics, (pages.remarks)());
    let mut excluded = query.all("exclude");
    excluded.sort_unstable();
    excluded.dedup();
    let mut lines = String::new();
    let mut failed = false;
    for (name, result) in with_ping((pages.checks)()) {
        if let Some(at) = excluded.iter().position(|excluded| *excluded == name) {
            excluded.remove(at);
            let _ = writeln!(lines, "[+]{name} excluded: ok");
            continue;
        }
        let passed = result.is_ok();
        metrics.gauge(&HEALTHCHECK, &[&name, page]).set(f64::from(u8::from(passed)));
        let status = if passed { "success" } else { "error" };
        metrics.counter(&HEALTHCHECKS, &[&name, status, page]).inc();
        match result {
            Ok(()) => {
                let remark = remarks.get(&name).map(|remark| format!(" ({remark})")).unwrap_or_default();
                let _ = writeln!(lines, "[+]{name} ok{remark}");
            }
            Err(reason) => {
                failed = true;
                // The page is public, so the reason is only logged, and not with each request.
                failures.say(&name, |unsaid| {
                    tracing::warn!(check = name, reason, unsaid, "health check failed");
                });
                let _ = writeln!(lines, "[-]{name} failed: reason withheld");
            }
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            lines,
            "warn: some health checks cannot be excluded: no matches for {}",
            names.join(",")
        );
    }
    if failed {
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{page} check failed\n"))
    } else if query.has("verbose") {
        text(StatusCode::OK, format!("{lines}{page} check passed\n"))
    } else {
        text(StatusCode::OK, "ok")
    }
}

/// For a server without checks.
fn with_ping(checks: Vec<(String, Result<(), String>)>) -> Vec<(String, Result<(), String>)> {
    if checks.is_empty() { vec![("ping".to_owned(), Ok(()))] } else { checks }
}
