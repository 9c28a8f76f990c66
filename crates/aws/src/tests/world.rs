//! moto's server with a small world, and boto3 to ask it what there is.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use flyball_cloud::Opening;
use flyball_runtime::config::Config;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Parts;

pub(crate) struct World {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    pub(crate) facts: Facts,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Facts {
    pub(crate) endpoint: String,
    pub(crate) vpc: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) gateway: String,
    pub(crate) table: String,
    pub(crate) running: Vec<Machine>,
    pub(crate) stopped: Machine,
    pub(crate) terminated: Machine,
    pub(crate) key: Key,
    pub(crate) role: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Machine {
    pub(crate) id: String,
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Key {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
}

impl World {
    /// A world with so many machines; none where moto is not installed, which is said past the capture of the test harness.
    pub(crate) fn start(test: &str, machines: usize) -> Option<Self> {
        match python() {
            Ok(python) => Some(Self::run(&python, machines)),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
                None
            }
        }
    }

    fn run(python: &Path, machines: usize) -> Self {
        let mut child = Command::new(python)
            .arg(tools().join("world.py"))
            .arg(machines.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let questions = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        let facts = serde_json::from_str(&line).expect("world.py describes its world");
        Self { child, questions, answers, folder: tempfile::tempdir().unwrap(), facts }
    }

    /// The answer of boto3 to a call.
    pub(crate) fn ask(&mut self, client: &str, call: &str, with: Value) -> Value {
        let question = json!({"client": client, "call": call, "with": with});
        writeln!(self.questions.as_mut().unwrap(), "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The same; it must succeed.
    pub(crate) fn done(&mut self, client: &str, call: &str, with: Value) -> Value {
        let answer = self.ask(client, call, with);
        assert!(answer.get("error").is_none(), "{call}: {answer}");
        answer
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The environment with the key of the world.
    pub(crate) fn key(&self) -> Vec<(&'static str, String)> {
        let Key { access_key_id, secret_access_key } = &self.facts.key;
        vec![
            ("AWS_ACCESS_KEY_ID", access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", secret_access_key.clone()),
        ]
    }

    /// What is opened here, with further lines in the file.
    pub(crate) async fn parts(&self, environment: &[(&'static str, String)], lines: &str) -> Parts {
        let Facts { endpoint, vpc, .. } = &self.facts;
        let text = format!(
            "region: eu-central-1\nvpc: {vpc}\nroutes: {{}}\n\
             endpoints: {{ec2: '{endpoint}', elasticloadbalancing: '{endpoint}', sts: '{endpoint}'}}\n{lines}"
        );
        let mut opening = Opening::standalone("aws", Some(&self.file("cloud.yaml", &text)));
        let mut config = Config::default();
        config.kube_cloud_shared.cluster_cidr = "10.244.0.0/16".to_owned();
        opening.config = Arc::new(config);
        let found =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        crate::parts(opening, &found).await.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.questions.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tools() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/moto"))
}

/// The Python that has moto, where `tools/moto/install` puts it; or why there is none.
fn python() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let folder = set("FLYBALL_MOTO_DIR").or_else(|| cache.map(|cache| cache.join("flyball/moto")));
    let folder = folder.ok_or("there is no cache folder: neither XDG_CACHE_HOME nor HOME is set")?;
    let wanted = fs::read(tools().join("requirements.txt")).map_err(|error| error.to_string())?;
    match fs::read(folder.join("requirements.txt")) {
        Ok(found) if found == wanted => Ok(folder.join("venv/bin/python")),
        Ok(_) => {
            Err(format!("the moto in {} is another one; tools/moto/install installs it", folder.display()))
        }
        Err(_) => Err(format!("there is no moto in {}; tools/moto/install installs it", folder.display())),
    }
}
