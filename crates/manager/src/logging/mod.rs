//! Logging: klog's verbosity on tracing's levels, changeable at run time, in upstream's formats.

mod lines;
mod outlet;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    panic::PanicHookInfo,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{Timestamp, tz::TimeZone};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use self::{
    lines::{Format, Lines},
    outlet::Outlet,
};
use crate::options::LoggingOptions;

pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// The prefix of all our crates.
const OURS: &str = "flyball";

/// How long the process waits at its end until the log has been read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The log of the process.
#[derive(Clone)]
pub struct Logging {
    pub set_verbosity: SetVerbosity,
    outlets: Arc<[Outlet]>,
}

impl Logging {
    /// Lines that were dropped because the log was not read fast enough.
    pub fn dropped(&self) -> u64 {
        self.outlets.iter().map(Outlet::dropped).sum()
    }

    /// Writes all remaining lines, for a limited time. Call it before the process ends.
    pub fn flush(&self) {
        self.flush_within(LAST_LINES);
    }

    fn flush_within(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.outlets.iter().for_each(|outlet| {
            outlet.flush(deadline);
        });
    }
}

/// Starts logging, also of panics. Only the first call in a process has an effect. Fails if there is no stderr.
pub fn start(options: &LoggingOptions) -> std::io::Result<Logging> {
    let (filter, handle) =
        reload::Layer::<Targets, Registry>::new(filter(options.verbosity, &options.vmodule));
    let (format, split) = match options.format.as_str() {
        "json" => (Format::Json, options.json_split_stream),
        _ => (Format::Text, options.text_split_stream),
    };
    let errors = outlet(std::io::stderr().as_fd())?;
    let others = if split { outlet(std::io::stdout().as_fd())? } else { errors.clone() };
    let outlets: Arc<[Outlet]> =
        if split { [errors.clone(), others.clone()].into() } else { [errors.clone()].into() };
    let out = move |level, line: &str| {
        let outlet = if level == Level::ERROR { &errors } else { &others };
        outlet.push(line);
    };
    let lines = Lines::new(format, Timestamp::now, TimeZone::system(), Box::new(out));
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    let vmodule = options.vmodule.clone();
    let set_verbosity: SetVerbosity = Arc::new(move |verbosity| {
        let _ = handle.reload(self::filter(verbosity, &vmodule));
    });
    let logging = Logging { set_verbosity, outlets };
    let of_panics = logging.clone();
    std::panic::set_hook(Box::new(move |panic| {
        log_panic(panic);
        // A panic in the main thread ends the process. In others it may, if it is a second panic at once.
        let is_main = std::thread::current().name() == Some("main");
        of_panics.flush_within(if is_main { LAST_LINES } else { Duration::from_millis(100) });
    }));
    Ok(logging)
}

/// A stream of the process, without the standard library's lock.
fn outlet(stream: BorrowedFd<'_>) -> std::io::Result<Outlet> {
    Outlet::new(File::from(stream.try_clone_to_owned()?))
}

/// Panics are logged like all lines: the default message would block if stderr is not read.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        error = message.unwrap_or("a panic without a message"),
        location,
        thread = thread.name(),
        backtrace,
        "a thread panicked"
    );
}

/// Verbosity 0 and 1 log what happens, 2 to 4 why, 5 and above everything; libraries have one level less.
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
