//! Ends a cluster's processes when the test that started them is gone, even if it was killed: a killed test cannot run
//! destructors, but its end of this pipe is closed.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use parking_lot::Mutex;

/// Reads process ids from its input; at the end of the input kills those that were not released, and removes the data folder.
/// The logs stay, for an investigation of the killed test.
const SCRIPT: &str = r#"
alive=
while read -r verb pid; do
    others=
    for p in $alive; do [ "$p" = "$pid" ] || others="$others $p"; done
    alive=$others
    [ "$verb" = guard ] && alive="$alive $pid"
done
[ -z "$alive" ] && exit 0
kill -KILL $alive 2>/dev/null
rm -rf "$1"
"#;

/// A small shell process that outlives the test for a short time.
pub(super) struct Watchdog {
    pipe: Mutex<Option<ChildStdin>>,
    shell: Mutex<Child>,
}

impl Watchdog {
    /// `data` is removed if the test dies without stopping its processes.
    pub(super) fn start(data: &Path) -> std::io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C reaches the whole foreground group; the watchdog must survive it to do its work.
            .process_group(0)
            .spawn()?;
        let pipe = Mutex::new(shell.stdin.take());
        Ok(Self { pipe, shell: Mutex::new(shell) })
    }

    pub(super) fn guard(&self, pid: u32) -> std::io::Result<()> {
        self.send("guard", pid)
    }

    /// To be called as soon as the process has ended, before its id can be reused.
    pub(super) fn release(&self, pid: u32) {
        // A watchdog that is gone has nothing left to kill.
        let _ = self.send("release", pid);
    }

    fn send(&self, verb: &str, pid: u32) -> std::io::Result<()> {
        match self.pipe.lock().as_mut() {
            Some(pipe) => writeln!(pipe, "{verb} {pid}"),
            None => Ok(()),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pipe.lock().take();
        let _ = self.shell.lock().wait();
    }
}
