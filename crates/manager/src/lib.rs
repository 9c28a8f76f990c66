//! The controller manager as a library: flags, the table of controllers, and the run from start to end.

pub mod engine;
pub mod flags;
pub mod options;
pub mod parity;
pub mod run;
pub mod select;
pub mod table;

use std::process::ExitCode;

use flags::{Invocation, VersionForm};
use flyball_runtime::gates::Gates;
use flyball_runtime::version;

/// The program: reads the command line, runs, and says in one line why it cannot.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match begin(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kube-controller-manager: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn begin(arguments: &[String]) -> anyhow::Result<()> {
    let parsed = match flags::parse(arguments)? {
        Invocation::Help => {
            print!("{}", flags::help());
            return Ok(());
        }
        Invocation::Version(VersionForm::Plain) => {
            println!("Kubernetes {} (Flyball {})", version::GIT_VERSION, version::FLYBALL);
            return Ok(());
        }
        Invocation::Version(VersionForm::Raw) => {
            println!("{} {}", version::GIT_VERSION, version::FLYBALL);
            return Ok(());
        }
        Invocation::Run(parsed) => parsed,
    };
    let gates = Gates::parse(&parsed.options.feature_gates)?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run::run(parsed.options, gates))
}
