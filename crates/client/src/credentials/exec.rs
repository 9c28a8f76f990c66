//! Credential plugins: programs that print an ExecCredential with a token or a client certificate. What they print is secret and
//! reaches no error and no log.

use std::io::IsTerminal;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use flyball_api::time::{Timestamp, parse_rfc3339};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::Instant;

use super::tls::Identity;
use crate::config::{Exec, Interactive};
use crate::transport::BoxError;

/// The longest output that is read.
const MAX_OUTPUT: u64 = 1 << 20;

/// The timeout of a plugin that is not interactive.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a plugin gave us.
pub(super) struct Issued {
    pub(super) token: Option<String>,
    pub(super) identity: Option<Identity>,
    pub(super) expires: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
#[error("credential plugin {:?}: {problem}", plugin)]
struct PluginError {
    plugin: String,
    problem: String,
}

/// Runs the plugin.
pub(super) async fn run(exec: &Exec) -> Result<Issued, BoxError> {
    let answer = match output(exec).await {
        Ok(output) => issued(exec, &output, Timestamp::now(), Instant::now()),
        Err(problem) => Err(problem),
    };
    answer.map_err(|problem| PluginError { plugin: exec.command.display().to_string(), problem }.into())
}

async fn output(exec: &Exec) -> Result<Vec<u8>, String> {
    let has_terminal = std::io::stdin().is_terminal();
    let is_interactive = match exec.interactive {
        Interactive::Never => false,
        Interactive::IfAvailable => has_terminal,
        Interactive::Always if has_terminal => true,
        Interactive::Always => {
            return Err("it must be used interactively, and standard input is not a terminal".to_owned());
        }
    };
    // stderr is shown on a terminal only: verbose plugins print credentials there.
    let (stdin, stderr) =
        if is_interactive { (Stdio::inherit(), Stdio::inherit()) } else { (Stdio::null(), Stdio::null()) };
    let mut child = Command::new(&exec.command)
        .args(&exec.args)
        .envs(exec.env.iter().map(|(name, value)| (name, value)))
        .env("KUBERNETES_EXEC_INFO", info(exec, is_interactive))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| cannot_start(exec, &error))?;
    let stdout = child.stdout.take();
    let all = async { tokio::join!(read(stdout), child.wait()) };
    let limit = if is_interactive { Duration::MAX } else { TIMEOUT };
    let Ok((stdout, status)) = tokio::time::timeout(limit, all).await else {
        return Err(format!("it did not end within {} seconds", TIMEOUT.as_secs()));
    };
    let status = status.map_err(|error| format!("its end was not seen: {error}"))?;
    if status.success() { Ok(stdout) } else { Err(failed(status)) }
}

fn cannot_start(exec: &Exec, error: &std::io::Error) -> String {
    match &exec.install_hint {
        Some(hint) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("it cannot be started: {error}. {hint}")
        }
        _ => format!("it cannot be started: {error}"),
    }
}

/// Up to a limit; the rest is read and dropped, so that the plugin does not block.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // A pipe that breaks off ends the output; the parser finds out whether it is complete.
        let _ = (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    bytes
}

fn failed(status: ExitStatus) -> String {
    format!(
        "it ended with {status}; what it prints is not logged, since it may be secret: run the command by hand, with the \
         arguments and the environment of the kubeconfig, to see it"
    )
}

/// The request that a plugin finds in its environment.
fn info(exec: &Exec, is_interactive: bool) -> String {
    let mut spec = json!({ "interactive": is_interactive });
    if let Some(cluster) = &exec.cluster {
        spec["cluster"] = cluster.clone();
    }
    json!({ "kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec }).to_string()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

fn issued(exec: &Exec, output: &[u8], now: Timestamp, instant: Instant) -> Result<Issued, String> {
    let credential: ExecCredential =
        serde_json::from_slice(output).map_err(|_| "its output is not an ExecCredential".to_owned())?;
    if credential.kind != "ExecCredential" || credential.api_version != exec.api_version {
        return Err(format!("its output is not an ExecCredential of {}", exec.api_version));
    }
    let status = credential.status.ok_or("its output has no status")?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let token = given(status.token);
    let identity = match (given(status.client_certificate_data), given(status.client_key_data)) {
        (Some(certificate), Some(key)) => {
            let origin =
                format!("the key that the credential plugin {:?} gave", exec.command.display().to_string());
            Some(Identity { certificate: certificate.into_bytes(), key: key.into_bytes(), origin })
        }
        (None, None) if token.is_none() => {
            return Err("its output has neither a token nor a certificate".to_owned());
        }
        (None, None) => None,
        _ => {
            return Err(
                "its output has a certificate without its key, or a key without its certificate".to_owned()
            );
        }
    };
    let expires = match given(status.expiration_timestamp) {
        None => None,
        Some(text) => {
            let time = parse_rfc3339(&text)
                .ok_or("the time at which its credentials expire is not in RFC 3339's form")?;
            // One that is in the past, or in the far future, is taken as it is.
            let left = Duration::try_from(time.duration_since(now)).unwrap_or_default();
            instant.checked_add(left)
        }
    };
    Ok(Issued { token, identity, expires })
}
