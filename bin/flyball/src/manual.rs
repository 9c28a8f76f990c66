//! `flyball completions` and `flyball man`: both are written from the same table as `--help`.

use std::fs;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{self, Args};
use crate::lines::{self, say};

const PROGRAM: &str = "flyball";

pub(crate) fn completions(options: &args::Completions) {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), PROGRAM, &mut script);
    lines::print(&String::from_utf8_lossy(&script));
}

/// Writes `flyball.1`, and a page for each command that is not hidden.
pub(crate) fn pages(options: &args::Man) -> anyhow::Result<()> {
    let folder = &options.folder;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(Args::command(), folder)
        .with_context(|| format!("write manual pages into {}", folder.display()))?;
    say!("Read them with `man -l {}`.", folder.join("flyball.1").display());
    Ok(())
}
