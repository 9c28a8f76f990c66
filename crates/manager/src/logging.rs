//! Logging: klog's verbosity on tracing's levels, as text or JSON, changeable at run time.

use std::sync::Arc;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::options::LoggingOptions;

/// Changes how much is logged.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// What the names of all our crates begin with.
const OURS: &str = "flyball";

/// Starts to log to stderr. May be called once for a process; later calls change nothing.
pub fn start(options: &LoggingOptions) -> SetVerbosity {
    let (filter, handle) =
        reload::Layer::<Targets, Registry>::new(filter(options.verbosity, &options.vmodule));
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
fn filter(verbosity: u32, vmodule: &str) -> Targets {
    let others = if verbosity >= 8 { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let modules = vmodule.split(',').filter_map(|item| item.split_once('='));
    let modules = modules.map(|(module, level)| (module, level_of(level.parse().unwrap_or(0))));
    Targets::new().with_default(others).with_target(OURS, level_of(verbosity)).with_targets(modules)
}

fn level_of(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=1 => LevelFilter::INFO,
        2..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

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
    fn odd_patterns_are_left_out_without_a_panic() {
        filter(0, "a=b=c,=,][=4,x=99999999999999");
    }
}
