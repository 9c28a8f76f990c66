//! `kube-controller-manager`: flags in, exit code out. Everything else is in `flyball-manager`.

use std::process::ExitCode;

fn main() -> ExitCode {
    flyball_manager::main()
}
