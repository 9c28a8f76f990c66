//! A process of the control plane: it cannot outlive the test, is stopped with SIGTERM, and logs to a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::watchdog::Watchdog;

/// Waits for a line on its input before it execs the program: by then the watchdog knows the process id, and if the test
/// dies before that, the input ends and the program never starts.
const GATE: &str = r#"read -r _ || exit 1; exec "$@" </dev/null"#;

/// A running process; killed when dropped.
pub struct Process {
    name: String,
    pid: u32,
    child: Option<Child>,
    log: PathBuf,
    watchdog: Arc<Watchdog>,
}

impl Process {
    pub(super) fn spawn(
        name: &str,
        program: &Path,
        args: &[String],
        log: PathBuf,
        watchdog: &Arc<Watchdog>,
    ) -> std::io::Result<Self> {
        let mut out = OpenOptions::new().create(true).append(true).open(&log)?;
        writeln!(out, "\n==== {} {}", program.display(), args.join(" "))?;
        let mut child = Command::new("sh")
            .args(["-c", GATE, name])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()?;
        let pid = child.id();
        let mut gate = child.stdin.take();
        let mut process =
            Self { name: name.to_owned(), pid, child: Some(child), log, watchdog: Arc::clone(watchdog) };
        process.watchdog.guard(pid)?;
        if let Some(gate) = gate.as_mut() {
            writeln!(gate, "go").inspect_err(|_| process.kill())?;
        }
        Ok(process)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> u32 {
        self.pid
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Sends SIGTERM, and SIGKILL after `grace_period`. Returns the exit status.
    pub async fn stop(&mut self, grace_period: Duration) -> std::io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        self.wait_at_most(grace_period).await
    }

    /// Sends SIGKILL, like a machine failure.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            self.watchdog.release(self.pid);
            let _ = child.wait();
        }
    }

    /// Pauses the process (SIGSTOP), until [`go_on`](Self::go_on).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a paused process (SIGCONT).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the process has exited, and kills it after `limit`.
    pub async fn wait_at_most(&mut self, limit: Duration) -> std::io::Result<ExitStatus> {
        let Some(mut child) = self.child.take() else {
            return Err(std::io::Error::other(format!("{} has already exited", self.name)));
        };
        let mut waiter = tokio::task::spawn_blocking(move || child.wait());
        let status = match tokio::time::timeout(limit, &mut waiter).await {
            Ok(status) => status,
            Err(_) => {
                self.signal(Signal::KILL);
                waiter.await
            }
        };
        self.watchdog.release(self.pid);
        status.map_err(std::io::Error::other)?
    }

    fn signal(&self, signal: Signal) {
        // An error means that the process has exited.
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::time::Instant;

    use super::*;

    fn start_sleeper(dir: &Path) -> (Arc<Watchdog>, Process) {
        let watchdog = Arc::new(Watchdog::start(&dir.join("data")).unwrap());
        let args = ["600".to_owned()];
        let process =
            Process::spawn("sleeper", Path::new("sleep"), &args, dir.join("log"), &watchdog).unwrap();
        (watchdog, process)
    }

    fn is_alive(pid: u32) -> bool {
        // A zombie has exited; its parent has not waited for it yet.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    fn exits_soon(pid: u32) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if !is_alive(pid) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    #[test]
    fn dropping_kills_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let (_watchdog, process) = start_sleeper(dir.path());
        let pid = process.id();
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[tokio::test]
    async fn stop_returns_the_exit_status() {
        let dir = tempfile::tempdir().unwrap();
        let (_watchdog, mut process) = start_sleeper(dir.path());
        let status = process.stop(Duration::from_secs(20)).await.unwrap();
        assert!(!status.success());
        assert!(process.stop(Duration::from_secs(1)).await.is_err(), "it has already exited");
    }

    /// Not a test by itself: the test below runs it in another process, which it kills.
    #[test]
    #[ignore = "runs until it is killed"]
    fn sleeps_with_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let (_watchdog, process) = start_sleeper(dir.path());
        println!("started {}", process.id());
        std::thread::sleep(Duration::from_secs(600));
    }

    #[test]
    fn a_killed_test_leaves_no_process_behind() {
        let mut test = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "cluster::process::tests::sleeps_with_a_program"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(test.stdout.take().unwrap()).lines();
        let started =
            lines.map_while(Result::ok).find_map(|line| Some(line.split_once("started ")?.1.to_owned()));
        let pid: u32 = started.unwrap().trim().parse().unwrap();
        assert!(is_alive(pid));
        test.kill().unwrap();
        test.wait().unwrap();
        assert!(exits_soon(pid), "process {pid} survived the test that started it");
    }
}
