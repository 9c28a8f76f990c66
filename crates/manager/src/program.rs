//! The program: reads flags, prints what is wrong, or runs.

use std::{fmt::Display, io::Write, num::NonZero, process::ExitCode};

use flyball_runtime::{Chain, Giver, Signal, version};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    flags::{Invocation, VersionForm, help, parse},
    logging,
    prepare::{Prepared, prepare},
    run::run,
};

/// Does what the command line says; 1 if it cannot, or if the lease is lost.
pub fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    match parse(&arguments) {
        Ok(Invocation::Help) => print(help()),
        Ok(Invocation::Version(form)) => print(version_text(form)),
        Ok(Invocation::Run(parsed)) => match prepare(*parsed) {
            Ok(prepared) => start(prepared),
            Err(problems) => fail(&problems),
        },
        Err(error) => fail(&[format!("{error}; see --help")]),
    }
}

fn start(prepared: Prepared) -> ExitCode {
    let set_verbosity = logging::start(&prepared.options.logging);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&[format!("cannot start: {error}")]),
    };
    let result = runtime.block_on(async {
        let (giver, shutdown) = Signal::new();
        tokio::spawn(shut_down_on_signals(giver));
        run(prepared, Some(set_verbosity), shutdown).await
    });
    // Nothing may act after a lost lease, so nobody is waited for.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&[Chain(&error)]),
    }
}

/// Controllers wait for answers most of the time. Half of the cores, for the API server is often on the same machine,
/// and no more than four: each further thread costs memory and wakes for little.
fn runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads((cores / 2).clamp(1, 4)).enable_all().build()
}

/// The first signal asks controllers to finish, the second ends the process.
async fn shut_down_on_signals(shutdown: Giver) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the signals end the process by themselves; the giver must stay.
        return std::future::pending().await;
    };
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.give();
    }
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

/// A reader that has gone away is no failure.
fn print(text: String) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(problems: &[impl Display]) -> ExitCode {
    for problem in problems {
        let _ = writeln!(std::io::stderr(), "kube-controller-manager: {problem}");
    }
    ExitCode::FAILURE
}
