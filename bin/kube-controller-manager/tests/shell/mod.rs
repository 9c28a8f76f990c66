//! A manager's binary as a shell sees it, for the tests of each.

use std::process::{Command, Output};

/// A binary by its path, and the tables that it is tested by.
pub(crate) struct Binary(pub(crate) &'static str);

/// Arguments, and what the binary prints.
type Table<'a> = &'a [(&'a [&'a str], &'a str)];

impl Binary {
    /// Runs it in an environment without a cluster.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    pub(crate) fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        Command::new(self.0)
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .envs(environment.iter().copied())
            .output()
            .expect("the binary runs")
    }

    /// It succeeds, and what it prints to stdout begins so.
    pub(crate) fn prints(&self, table: Table<'_>) {
        for (arguments, want) in table {
            let output = self.run(arguments);
            assert!(output.status.success(), "{arguments:?}");
            assert!(String::from_utf8_lossy(&output.stdout).starts_with(want), "{arguments:?}");
            assert!(output.stderr.is_empty(), "{arguments:?}");
        }
    }

    /// It exits with 1, and this is all that it prints to stderr.
    pub(crate) fn refuses(&self, table: Table<'_>) {
        for (arguments, want) in table {
            let output = self.run(arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), *want, "{arguments:?}");
        }
    }

    /// Beside `arguments`, a kubeconfig that does not exist: the last line names flag and file.
    pub(crate) fn names_a_missing_kubeconfig(&self, arguments: &[&str]) {
        let output = self.run(&[arguments, &["--kubeconfig=no-such-file"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.contains("--kubeconfig") && last.contains("no-such-file"), "{stderr}");
    }
}
