//! The program: parses flags, prints problems, or runs.

use std::{io::Write, num::NonZero, process::ExitCode, time::Duration};

use flyball_runtime::{Chain, SignalSender, version};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    component::{Component, KUBE_CONTROLLER_MANAGER},
    equipment::{Equipment, Foundation},
    flags::{Invocation, VersionForm},
    logging::{self, Logging},
    preflight::preflight,
    prepare::{Prepared, prepare},
    run::{metrics, run},
};

/// The `main` of kube-controller-manager.
pub fn main() -> ExitCode {
    main_of(&KUBE_CONTROLLER_MANAGER, async |_, _| Ok(Equipment::default()))
}

/// Runs the command line. The exit code is 1 if that fails, or if the lease is lost. `equip` returns what the manager needs
/// besides its flags, or the problems, one line each.
pub fn main_of(
    component: &'static Component,
    equip: impl AsyncFnOnce(&Prepared, &Foundation) -> Result<Equipment, Vec<String>>,
) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let done = match component.parse(&arguments) {
        Ok(Invocation::Help) => print(component.help()),
        Ok(Invocation::Version(form)) => print(version_text(form)),
        Ok(Invocation::Run(parsed)) => prepare(*parsed).and_then(|prepared| {
            preflight(&prepared)?;
            start(prepared, equip)
        }),
        Err(error) => Err(vec![format!("{error}; see --help")]),
    };
    let problems = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(problems) => problems,
    };
    for problem in problems {
        let _ = writeln!(std::io::stderr(), "{}: {problem}", component.name);
    }
    ExitCode::FAILURE
}

/// How long the process waits until the programs that controllers have started are killed (FlexVolume drivers). Most have none.
const PROGRAMS_END: Duration = Duration::from_millis(500);

fn start(
    prepared: Prepared,
    equip: impl AsyncFnOnce(&Prepared, &Foundation) -> Result<Equipment, Vec<String>>,
) -> Result<(), Vec<String>> {
    let logging =
        logging::start(&prepared.options.logging).map_err(|error| vec![format!("cannot log: {error}")])?;
    let runtime = runtime().map_err(|error| vec![format!("cannot start: {error}")])?;
    let result = runtime.block_on(async {
        let metrics = metrics(&prepared, Some(logging.clone()));
        let (stop, foundation) = Foundation::new(prepared.component.name, metrics);
        tokio::spawn(shut_down_on_signals(stop, logging.clone()));
        let equipment = tokio::select! {
            biased;
            () = foundation.shutdown.wait() => return Ok(()),
            equipment = equip(&prepared, &foundation) => equipment?,
        };
        let ended = run(prepared, foundation, equipment, Some(logging.clone())).await;
        ended.map_err(|error| {
            // In the format of the log, so that a log parser can read the last line.
            tracing::error!(error = %Chain(&error), "controller manager exits");
            vec![]
        })
    });
    // No controller may act after the lease is lost, so exit now; wait only for child processes of controllers.
    runtime.shutdown_timeout(PROGRAMS_END);
    logging.flush();
    result
}

/// Half of the cores, since the API server is often on the same machine, and at most four: controllers mostly wait for
/// responses, and each thread costs memory.
fn runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads((cores / 2).clamp(1, 4)).enable_all().build()
}

/// The first signal starts a graceful shutdown, the second ends the process.
async fn shut_down_on_signals(shutdown: SignalSender, logging: Logging) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the signals end the process; the sender must not be dropped.
        return std::future::pending().await;
    };
    for _ in 0..2 {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.set();
    }
    logging.flush();
    std::process::exit(1);
}

fn version_text(form: VersionForm) -> String {
    match form {
        VersionForm::Plain => format!("Kubernetes {} (Flyball {})\n", version::GIT_VERSION, version::FLYBALL),
        VersionForm::Raw => format!(
            "version.Info{{Major:{:?}, Minor:{:?}, GitVersion:{:?}, Compiler:\"rustc\", Platform:\"{}/{}\", Flyball:{:?}}}\n",
            version::MAJOR,
            version::MINOR,
            version::GIT_VERSION,
            std::env::consts::OS,
            version::arch(),
            version::FLYBALL,
        ),
    }
}

/// A closed pipe is not an error.
fn print(text: String) -> Result<(), Vec<String>> {
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
