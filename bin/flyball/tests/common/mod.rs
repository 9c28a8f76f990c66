//! A `flyball up` with its own folder and port.

#![allow(dead_code)] // each test program needs another part of it

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use flyball_api::{Key, ResourceType};
use flyball_client::{Client, ClientOptions, ConnectOptions, Request, Verb, connect};
use serde_json::Value;

/// How long an object may take to become what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a cluster may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// The object once it is so, `null` if it does not exist.
pub(crate) async fn wait(
    client: &Client,
    resource: &ResourceType,
    key: &Key,
    is_so: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let seen = async {
        loop {
            last = match client.request(Request::object(Verb::Get, resource, key, None)).await {
                Ok(reply) => serde_json::from_slice(&reply.body)?,
                Err(error) if error.is_not_found() => Value::Null,
                Err(error) => return Err(error.into()),
            };
            if is_so(&last) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, seen).await;
    waited.with_context(|| format!("waited in vain for {key}: {last}"))??;
    Ok(last)
}

pub(crate) struct Up {
    folder: tempfile::TempDir,
    child: Child,
    server: String,
    page: Option<String>,
}

impl Up {
    /// Starts a cluster and waits for its first line of output.
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["up", "--port", "0", "--log-format", "json", "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .args(arguments)
            .env("FLYBALL_HOME", folder.path().join("home"))
            .stdout(Stdio::piped())
            .spawn()
            .context("start flyball up")?;
        let out = child.stdout.take().context("no stdout")?;
        let mut lines = BufReader::new(out).lines();
        let first = lines.next().context("flyball up said nothing")??;
        // Without a reader the decisions would fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let greeting: Value = serde_json::from_str(&first).with_context(|| format!("read {first:?}"))?;
        let server = greeting["up"]["server"].as_str().context("no address")?.to_owned();
        let page = greeting["up"]["page"].as_str().map(str::to_owned);
        Ok(Self { folder, child, server, page })
    }

    pub(crate) fn port(&self) -> anyhow::Result<String> {
        Ok(self.server.rsplit(':').next().context("no port")?.to_owned())
    }

    /// The link to the live page; it works once.
    pub(crate) fn page_link(&self) -> Option<String> {
        self.page.clone()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let options = ConnectOptions { kubeconfig: Some(self.kubeconfig()), ..ConnectOptions::default() };
        let connection = connect(&options).await?;
        let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
        Ok(Client::with_watches(connection.transport(), connection.watch_transport(), options))
    }

    /// Writes a file for the test and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.env("FLYBALL_HOME", self.folder.path().join("home"));
        let kubeconfig = match arguments.first() {
            Some(&"up") => self.folder.path().join("another"),
            _ => self.kubeconfig(),
        };
        // Arguments after a bare `--` belong to others.
        let own = arguments.split(|argument| *argument == "--").next().unwrap_or_default();
        command.args(own);
        if !own.contains(&"--kubeconfig") {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command.args(&arguments[own.len()..]);
        command
    }

    /// Runs another flyball command and returns its output.
    pub(crate) fn flyball(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.command(arguments))
    }

    /// Runs a kubectl command and returns its output.
    pub(crate) fn kubectl(&self, binary: &Path, line: &str) -> anyhow::Result<String> {
        let mut command = Command::new(binary);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(line.split_whitespace());
        // kubectl caches discovery in the home directory.
        command.env("HOME", self.folder.path());
        output(command).with_context(|| format!("kubectl {line}"))
    }

    /// The same with input, and with an environment variable.
    pub(crate) fn kubectl_with_input(
        &self,
        binary: &Path,
        line: &str,
        input: &str,
        (name, value): (&str, &str),
    ) -> anyhow::Result<String> {
        use std::io::Write as _;
        let mut child = Command::new(binary)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(line.split_whitespace())
            .env("HOME", self.folder.path())
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // Dropped, which ends the input.
        child.stdin.take().context("no stdin")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {line}: {}: {errors}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ends the cluster as Ctrl-C does; it must exit with success.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.context("no process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::INT).context("send SIGINT")?;
        let begun = Instant::now();
        while begun.elapsed() < ENDS_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "flyball up ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("flyball up did not end within {ENDS_WITHIN:?}")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a flyball command that must fail; its exit code and its error output.
    pub(crate) fn fails(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let output = self.command(arguments).output()?;
        ensure!(!output.status.success(), "{arguments:?} succeeded");
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Ends the cluster as `kill -9` does.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().context("kill")?;
        self.child.wait().context("wait")?;
        Ok(())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(mut command: Command) -> anyhow::Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// The stock kubectl, if there is one.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS")?;
    Some(PathBuf::from(folder).join("kubectl")).filter(|path| path.is_file())
}
