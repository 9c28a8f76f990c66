//! Logging: klog's verbosity on tracing's levels, as text or JSON, changeable at run time.

use std::sync::Arc;

use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::options::LoggingOptions;

/// Changes how much is logged.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// Starts to log to stderr. May be called once for a process; later calls change nothing.
pub fn start(options: &LoggingOptions) -> SetVerbosity {
    let (filter, handle) =
        reload::Layer::<EnvFilter, Registry>::new(filter(options.verbosity, &options.vmodule));
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = match options.format.as_str() {
        "json" => registry.with(lines.json().flatten_event(true)).try_init(),
        _ => registry.with(lines.with_ansi(false)).try_init(),
    };
    let vmodule = options.vmodule.clone();
    Arc::new(move |verbosity| {
        let _ = handle.reload(self::filter(verbosity, &vmodule));
    })
}

/// Level 0 and 1 tell what happens, 2 to 4 why, 5 and up everything; libraries stay one step quieter.
fn filter(verbosity: u32, vmodule: &str) -> EnvFilter {
    let mut directives = directives(verbosity);
    for (pattern, level) in vmodule.split(',').filter_map(|item| item.split_once('=')) {
        directives.push_str(&format!(",{pattern}={}", level_of(level.parse().unwrap_or(0))));
    }
    EnvFilter::builder().parse_lossy(directives)
}

fn directives(verbosity: u32) -> String {
    let others = if verbosity >= 8 { "debug" } else { "warn" };
    let ours = level_of(verbosity);
    let crates = ["api", "apps", "cache", "client", "common", "identity", "manager", "queue", "runtime"];
    let ours: Vec<String> = crates.iter().map(|name| format!("flyball_{name}={ours}")).collect();
    format!("{others},{}", ours.join(","))
}

fn level_of(verbosity: u32) -> &'static str {
    match verbosity {
        0..=1 => "info",
        2..=5 => "debug",
        _ => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_maps_to_levels_and_modules_can_be_louder() {
        #[rustfmt::skip]
        let table = [
            (0, "",                         "flyball_runtime=info"),
            (2, "",                         "flyball_runtime=debug"),
            (9, "",                         "flyball_runtime=trace"),
            (0, "flyball_cache::informer=6", "flyball_cache::informer=trace"),
        ];
        for (verbosity, vmodule, want) in table {
            let text = filter(verbosity, vmodule).to_string();
            assert!(text.split(',').any(|directive| directive == want), "-v {verbosity} {vmodule}: {text}");
        }
    }

    #[test]
    fn odd_patterns_are_left_out_without_a_panic() {
        filter(0, "a=b=c,=,][=4,x=99999999999999");
    }
}
