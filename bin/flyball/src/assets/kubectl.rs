//! The `kubectl` of the folder: the one of `PATH`.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use anyhow::Context as _;

/// Becomes kubectl; returns only if that is not possible.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let missing = "there is no kubectl in PATH; install one, since this one only calls it";
    let kubectl = find().context(missing)?;
    let error = std::process::Command::new(&kubectl).args(arguments).exec();
    Err(error).with_context(|| format!("run {}", kubectl.display()))
}

/// The first kubectl in `PATH` that is not a script of ours, which would call us again.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    all.filter(|file| file.is_file())
        .find(|file| !std::fs::read(file).is_ok_and(|text| super::is_ours(&text)))
}
