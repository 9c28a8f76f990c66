//! `cargo xtask dist`: what is shipped, for both architectures, from one Linux machine.
//!
//! For each program and architecture an archive with the static program and the list of its parts, for each program an image
//! (as an archive of an OCI layout), and the checksums of all of them. The same commit gives the same bytes.

mod compiler;
mod elf;
mod image;
mod sbom;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;

use crate::oci::{self, write};
use compiler::Compiler;

/// `cargo xtask dist`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to put the files; must be empty or not exist
    #[arg(long, default_value = "target/shipped", value_name = "DIR")]
    out: PathBuf,
    /// For which processors
    #[arg(long = "arch", value_delimiter = ',', default_values = ["amd64", "arm64"], value_name = "ARCH,…")]
    architectures: Vec<Architecture>,
    /// Which programs
    #[arg(long = "program", value_delimiter = ',', default_values = PROGRAMS, value_name = "NAME,…",
          value_parser = clap::builder::PossibleValuesParser::new(PROGRAMS))]
    programs: Vec<String>,
    /// The profile of Cargo.toml; `release` builds quicker, to try this command
    #[arg(long, default_value = "dist", value_name = "NAME")]
    profile: String,
    /// What stands before the program's name in the name of its image
    #[arg(long, default_value = "localhost/flyball", value_name = "REGISTRY/PATH")]
    repository: String,
    /// The certificates of public authorities that images contain
    #[arg(long, default_value = "/etc/ssl/certs/ca-certificates.crt", value_name = "FILE")]
    certificates: PathBuf,
}

const PROGRAMS: [&str; 4] =
    ["cloud-controller-manager", "flyball", "kube-controller-manager", "linux-cloud-controller-manager"];

/// As Go and OCI call them, because operators do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's target. With musl the program is static, and runs on every distribution.
    fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// What is the same for all files.
struct Release {
    /// Of Cargo.toml.
    version: String,
    commit: String,
    /// Of the commit, so that building later gives the same bytes.
    time: Timestamp,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let out = &options.out;
    if std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty: remove it, or name another folder with --out", out.display());
    }
    let certificates = std::fs::read(&options.certificates).with_context(|| {
        format!("read {} (--certificates names another file)", options.certificates.display())
    })?;
    let release = Release::of_head()?;
    let compiler = Compiler::provide(&options.architectures)?;
    std::fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;

    let builds = options.architectures.iter().flat_map(|a| options.programs.iter().map(move |p| (*a, p)));
    let builds: Vec<(Architecture, &String)> = builds.collect();
    let mut built = Vec::new();
    for (n, (architecture, program)) in builds.iter().enumerate() {
        let start = Instant::now();
        let position = format!("[{}/{}] {program} for {}", n + 1, builds.len(), architecture.name());
        println!("{position} …");
        let file = compiler.build(program, *architecture, &options.profile, &release)?;
        let bytes = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        elf::check(&bytes, *architecture).with_context(|| format!("{} cannot be shipped", file.display()))?;
        println!("{position}: {} bytes in {:.0} s", bytes.len(), start.elapsed().as_secs_f64());
        ship(program, *architecture, &file, &release, out)?;
        built.push((*architecture, (*program).clone(), bytes));
    }
    for program in &options.programs {
        let binaries = built.iter().filter(|(_, of, _)| of == program);
        let binaries: Vec<(Architecture, &[u8])> = binaries.map(|(a, _, bytes)| (*a, &bytes[..])).collect();
        let name = format!("{}/{program}", options.repository);
        image::assemble(&name, program, &binaries, &certificates, &release, out)?;
    }
    checksums(out)?;
    println!("Everything is in {}; check it with `sha256sum -c SHA256SUMS` there.", out.display());
    Ok(ExitCode::SUCCESS)
}

/// The archive for one architecture, and the list of the program's parts beside it.
fn ship(
    program: &str,
    architecture: Architecture,
    file: &Path,
    release: &Release,
    out: &Path,
) -> anyhow::Result<()> {
    let stem = format!("{program}-{}-linux-{}", release.version, architecture.name());
    let sbom = sbom::of(program, architecture, release)?;
    let sbom = serde_json::to_vec_pretty(&sbom).context("write the list of parts")?;
    write(&out.join(format!("{stem}.cdx.json")), &sbom)?;

    let folder = out.join(&stem);
    std::fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
    for (from, to) in [(file, program), (&crate::root().join("LICENSE"), "LICENSE")] {
        std::fs::copy(from, folder.join(to)).with_context(|| format!("copy {}", from.display()))?;
    }
    write(&folder.join("sbom.cdx.json"), &sbom)?;
    let archive = out.join(format!("{stem}.tar"));
    oci::tar(&folder, &archive)?;
    std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    let packed = gzip(&std::fs::read(&archive).context("read an archive")?)?;
    std::fs::remove_file(&archive).context("remove an archive")?;
    write(&out.join(format!("{stem}.tar.gz")), &packed)
}

/// Without a name or a time in the header: the same bytes give the same bytes.
fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(bytes).context("compress")?;
    writer.finish().context("compress")
}

fn checksums(out: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(out).with_context(|| format!("read {}", out.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut lines = String::new();
    for file in &files {
        let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines.push_str(&format!("{}  {name}\n", oci::sha256(&bytes)));
    }
    write(&out.join("SHA256SUMS"), lines.as_bytes())
}

impl Release {
    fn of_head() -> anyhow::Result<Self> {
        let git = |args: &[&str]| -> anyhow::Result<String> {
            let output =
                Command::new("git").arg("-C").arg(crate::root()).args(args).output().context("run git")?;
            ensure!(
                output.status.success(),
                "git {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let mut commit = git(&["rev-parse", "HEAD"])?;
        if !git(&["status", "--porcelain"])?.is_empty() {
            println!("The tree has changes that are not committed: what is built is marked with -dirty.");
            commit.push_str("-dirty");
        }
        let seconds = git(&["log", "-1", "--format=%ct"])?;
        let seconds = seconds.parse().with_context(|| format!("git's time of the commit, {seconds:?}"))?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit,
            time: Timestamp::from_second(seconds).context("the time of the commit")?,
        })
    }
}
