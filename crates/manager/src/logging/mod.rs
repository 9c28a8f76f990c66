//! Logging: klog's verbosity on tracing's levels, changeable at run time, in upstream's formats.

mod lines;

use std::{io::Write, sync::Arc};

use jiff::{Timestamp, tz::TimeZone};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use self::lines::{Format, Lines};
use crate::options::LoggingOptions;

/// Changes how much is logged.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// What the names of all our crates begin with.
const OURS: &str = "flyball";

/// Starts to log. May be called once for a process; later calls change nothing.
pub fn start(options: &LoggingOptions) -> SetVerbosity {
    let (filter, handle) =
        reload::Layer::<Targets, Registry>::new(filter(options.verbosity, &options.vmodule));
    let (format, split) = match options.format.as_str() {
        "json" => (Format::Json, options.json_split_stream),
        _ => (Format::Text, options.text_split_stream),
    };
    let lines = Lines::new(format, Timestamp::now, TimeZone::system(), Box::new(out(split)));
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    let vmodule = options.vmodule.clone();
    Arc::new(move |verbosity| {
        let _ = handle.reload(self::filter(verbosity, &vmodule));
    })
}

/// Everything goes to stderr, or, split, only errors do. A reader that has gone away is no failure.
fn out(split: bool) -> impl Fn(Level, &str) + Send + Sync {
    move |level, line| {
        let _ = match split && level != Level::ERROR {
            true => std::io::stdout().lock().write_all(line.as_bytes()),
            false => std::io::stderr().lock().write_all(line.as_bytes()),
        };
    }
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
mod tests;
