//! `flyball`: a small cluster in one command, and commands to inspect it.

#![warn(clippy::print_stdout)] // `say!` does not panic when stdout is closed

mod args;
mod ask;
mod assets;
mod clock;
mod control;
mod demo;
mod journal;
mod lines;
mod manager_page;
mod manual;
mod named;
mod node;
mod place;
mod record;
mod replay;
mod signals;
mod snapshot;
mod up;
mod why;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

/// Returns memory to the system after many objects are gone, which the default allocator does not (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("flyball: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match args.command {
            Command::Up(options) if options.control.is_some() => control::run(options).await,
            Command::Up(options) if options.detach => named::detach::run(&options),
            Command::Up(options) => up::run(options).await,
            Command::List(options) => named::list::run(&options).await,
            Command::Down(options) => named::down::run(&options).await,
            Command::Ui(options) => match &options.manager_kubeconfig {
                Some(kubeconfig) => manager_page::run(kubeconfig).await,
                None => named::page::run(&options).await,
            },
            Command::Why(options) => why::run(&options.object, None, &options.answer).await,
            Command::WhyNot(options) => {
                why::run(&options.object, Some(options.question), &options.answer).await
            }
            Command::Clock(options) => clock::run(&options).await,
            Command::Node(options) => node::run(&options).await,
            Command::Demo(options) => demo::run(&options).await,
            Command::Journal(options) => journal::run(&options),
            Command::Record(options) => record::run(&options).await,
            Command::Replay(options) => replay::run(&options).await,
            Command::Snapshot(options) => snapshot::run(&options).await,
            Command::Completions(options) => {
                manual::completions(&options);
                Ok(())
            }
            Command::Man(options) => manual::pages(&options),
            Command::Assets(options) => assets::make(&options),
            Command::Asset { program } => assets::run(program).await,
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flyball: {error:#}");
            ExitCode::FAILURE
        }
    }
}
