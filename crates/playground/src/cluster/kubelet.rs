//! Simulated `kubectl logs`, `exec`, `attach` and `port-forward`.

use std::sync::{Arc, OnceLock, Weak};

use flyball_api::Key;
use flyball_apiserver::{Amounts, InPod, Kubelet, Log, PodUsage, Process, Ran};
use flyball_cache::Informer;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::Notify;

use crate::nodes::behaviour::Behaviour;
use crate::nodes::node::{KUBELET_PORT, SIMULATED, STOPPED};
use crate::nodes::page;
use crate::nodes::script::{self, Script};
use crate::nodes::terminal::Interactive;
use crate::objects::{Container, ContainerStatus, Pod};

/// How much of a connection to a pod is under way.
const BUFFER: usize = 64 << 10;
/// A shell's exit code for a command that was found but could not be executed.
const CANNOT_RUN: i32 = 126;

/// Serves the kubelet API for all simulated nodes, on which no container really runs.
#[derive(Default)]
pub(super) struct Simulated {
    /// The API server holds this, and the informer holds a client of the API server.
    pods: OnceLock<Weak<Informer<Pod>>>,
}

impl Simulated {
    /// Called after the server has started, since the informer needs the server.
    pub(super) fn set_pods(&self, pods: &Arc<Informer<Pod>>) {
        let _ = self.pods.set(Arc::downgrade(pods));
    }

    fn pods(&self) -> Option<Arc<Informer<Pod>>> {
        self.pods.get()?.upgrade()
    }

    fn pod(&self, target: &InPod<'_>) -> Result<Arc<Pod>, String> {
        let found = self.pods().and_then(|pods| pods.store().get(&Key::new(target.namespace, target.pod)));
        found.ok_or_else(|| format!("pod {:?} has not reached its node yet", target.pod))
    }
}

impl Kubelet for Simulated {
    fn logs(&self, target: &InPod<'_>, previous: bool) -> Result<Log, String> {
        let pod = self.pod(target)?;
        let (container, status) = started(&pod, target.container)?;
        let ended = match (previous, &status.last_state.terminated) {
            (false, _) => status.state.terminated.as_ref(),
            (true, Some(ended)) => Some(ended),
            (true, None) => {
                let (container, pod) = (&container.name, &pod.metadata.name);
                return Err(format!("previous terminated container {container:?} in pod {pod:?} not found"));
            }
        };
        let since = match (ended, &status.state.running) {
            (Some(ended), _) => ended.started_at,
            (None, running) => running.as_ref().and_then(|running| running.started_at),
        };
        let at = since.or(pod.status.start_time).unwrap_or_default();
        let lines = logs(&pod, container).into_iter().map(|line| (at, line)).collect();
        let end = match (self.pods(), ended) {
            (Some(pods), None) => stopped(pods, pod.metadata.key(), status.clone()).boxed(),
            _ => std::future::ready(()).boxed(),
        };
        Ok(Log { lines, end })
    }

    fn exec(&self, target: &InPod<'_>, command: &[&str]) -> Result<Process, String> {
        let pod = self.pod(target)?;
        let (container, _) = started(&pod, target.container)?;
        if command.is_empty() {
            return Ok(Ran { stdout: lines(logs(&pod, container)), ..Ran::default() }.process());
        }
        let Some(interactive) = Interactive::read(command) else {
            return Ok(run(&pod, container, command).process());
        };
        let (pod, container) = (Arc::clone(&pod), container.clone());
        let simulate = move |line: &str| run(&pod, &container, &["sh", "-c", line]);
        Ok(Box::new(move |streams| Box::pin(interactive.run(streams, simulate))))
    }

    fn can_forward(&self, target: &InPod<'_>) -> Result<(), String> {
        let pod = self.pod(target)?;
        match pod.status.phase.as_str() {
            "Running" => Ok(()),
            phase => Err(format!("pod {:?} is not running: its phase is {phase:?}", target.pod)),
        }
    }

    fn connect(&self, target: &InPod<'_>, port: u16) -> Result<DuplexStream, String> {
        self.can_forward(target)?;
        let pod = self.pod(target)?;
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        tokio::spawn(page::serve(ours, Ok(pod), port));
        Ok(theirs)
    }

    fn connect_node(&self, node: &Value, port: Option<u16>) -> Result<DuplexStream, String> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        if node["metadata"]["labels"][SIMULATED] != "true" {
            return Err(format!("node {name:?} is not simulated, and there is no network to it"));
        }
        if !node["metadata"]["annotations"][STOPPED].is_null() {
            return Err(format!("node {name:?} is switched off"));
        }
        if port.is_some_and(|port| port != KUBELET_PORT) {
            return Err(format!("node {name:?} listens on port {KUBELET_PORT} only"));
        }
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        tokio::spawn(page::serve_node(ours));
        Ok(theirs)
    }

    fn usage(&self) -> Option<Vec<PodUsage>> {
        let pods = self.pods().map(|pods| pods.store().list()).unwrap_or_default();
        Some(pods.iter().filter_map(|pod| usage(pod)).collect())
    }

    fn refusal(&self, what: &str) -> String {
        format!("{what} is not available: the pod is simulated, so nothing runs in it")
    }
}

/// The simulated usage of a container without annotations.
const IDLE: Amounts = Amounts { cpu_milli: 1, memory_bytes: 16 << 20 };

/// Simulated usage of a running pod: its first container uses what the annotations say, the others `IDLE`.
fn usage(pod: &Pod) -> Option<PodUsage> {
    let metadata = &pod.metadata;
    let runs = |name: &str| {
        pod.status.all_containers().any(|status| status.name == name && status.state.running.is_some())
    };
    let behaviour = Behaviour::read(&metadata.annotations);
    let unsigned = |amount: i64| u64::try_from(amount).unwrap_or_default();
    let first = Amounts {
        cpu_milli: behaviour.cpu.map_or(IDLE.cpu_milli, |cpu| unsigned(cpu.milli_value())),
        memory_bytes: behaviour.memory.map_or(IDLE.memory_bytes, |memory| unsigned(memory.value())),
    };
    let amounts = std::iter::once(first).chain(std::iter::repeat(IDLE));
    let containers: Vec<_> = pod
        .spec
        .containers
        .iter()
        .zip(amounts)
        .filter(|(container, _)| runs(&container.name))
        .map(|(container, used)| (container.name.as_str().into(), used))
        .collect();
    (!containers.is_empty()).then(|| PodUsage {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        labels: metadata.labels.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        node: pod.spec.node_name.clone(),
        containers,
    })
}

/// Completes when the container with this status no longer runs.
async fn stopped(pods: Arc<Informer<Pod>>, key: Key, container: ContainerStatus) {
    let changed = Arc::new(Notify::new());
    let _subscription = pods.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    let runs = |pod: &Pod| {
        pod.status
            .all_containers()
            .any(|status| status.container_id == container.container_id && status.state.running.is_some())
    };
    while pods.store().get(&key).is_some_and(|pod| runs(&pod)) {
        changed.notified().await;
    }
}

/// The container of that name, or the only container of the pod. An error if it has not started.
fn started<'a>(
    pod: &'a Pod,
    container: Option<&str>,
) -> Result<(&'a Container, &'a ContainerStatus), String> {
    let name = &pod.metadata.name;
    let spec = &pod.spec;
    let all = || spec.init_containers.iter().chain(&spec.containers).chain(&spec.ephemeral_containers);
    let spec = match (container, &pod.spec.containers[..]) {
        (Some(wanted), _) => all()
            .find(|spec| spec.name == wanted)
            .ok_or_else(|| format!("container {wanted} is not valid for pod {name}"))?,
        (None, [only]) => only,
        (None, _) => {
            let names: Vec<&str> = all().map(|spec| spec.name.as_str()).collect();
            let names = names.join(" ");
            return Err(format!(
                "a container name must be specified for pod {name}, choose one of: [{names}]"
            ));
        }
    };
    let status = pod.status.all_containers().find(|status| status.name == spec.name);
    match status.filter(|status| !status.container_id.is_empty()) {
        Some(status) => Ok((spec, status)),
        None => {
            let waiting = status.and_then(|status| status.state.waiting.as_ref());
            let reason = waiting.map_or("ContainerCreating", |waiting| waiting.reason.as_str());
            Err(format!("container {:?} in pod {name:?} is waiting to start: {reason}", spec.name))
        }
    }
}

fn simulated(pod: &Pod, container: &Container) -> String {
    format!("[flyball] {} ({}) is simulated on {}", container.name, container.image, pod.spec.node_name)
}

fn logs(pod: &Pod, container: &Container) -> Vec<String> {
    let note = format!("{}: no process runs in it, so this is its only output.", simulated(pod, container));
    std::iter::once(note).chain(script::output(container)).collect()
}

/// The output and exit code of a command, if it can be simulated; other commands fail.
fn run(pod: &Pod, container: &Container, command: &[&str]) -> Ran {
    let container_of_command = Container {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..Container::default()
    };
    let (simulated, shown) = (simulated(pod, container), command.join(" "));
    match script::read(&container_of_command) {
        Script::Ends { code, .. } => Ran {
            stdout: lines(script::output(&container_of_command)),
            stderr: format!("{simulated}: `{shown}` was not run; this is what it would print.\n"),
            code,
        },
        Script::Forever | Script::Unknown => Ran {
            stderr: format!("{simulated}: no process runs in it, so `{shown}` cannot be run.\n"),
            code: CANNOT_RUN,
            ..Ran::default()
        },
    }
}

fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_commands_are_simulated_and_others_fail() {
        #[rustfmt::skip]
        let table: [(&[&str], &str, i32); 5] = [
            (&["echo", "hello", "world"],        "hello world\n", 0),
            (&["sh", "-c", "echo a; exit 3"],    "a\n",           3),
            (&["false"],                         "",              1),
            (&["cat", "/etc/hosts"],             "",              CANNOT_RUN),
            (&["tail", "-f", "/dev/null"],       "",              CANNOT_RUN),
        ];
        for (command, stdout, code) in table {
            let ran = run(&Pod::default(), &Container::default(), command);
            assert_eq!((ran.stdout.as_str(), ran.code), (stdout, code), "{command:?}");
            assert!(ran.stderr.contains("simulated"), "{command:?} prints {:?}", ran.stderr);
        }
    }

    #[test]
    fn annotations_set_the_usage_of_the_first_container() {
        let pod = |annotations: serde_json::Value, running: &[&str]| -> Pod {
            let statuses: Vec<_> = running
                .iter()
                .map(|name| serde_json::json!({"name": name, "state": {"running": {}}}))
                .collect();
            serde_json::from_value(serde_json::json!({
                "metadata": {"namespace": "ns", "name": "p", "annotations": annotations, "labels": {"app": "x"}},
                "spec": {"nodeName": "node-1", "containers": [{"name": "a"}, {"name": "b"}]},
                "status": {"containerStatuses": statuses},
            }))
            .unwrap()
        };
        let show = |pod: &Pod| {
            let used = usage(pod)?;
            let one = |(name, used): &(smol_str::SmolStr, Amounts)| {
                format!("{name}={}m,{}Mi", used.cpu_milli, used.memory_bytes >> 20)
            };
            Some(used.containers.iter().map(one).collect::<Vec<_>>().join(" "))
        };
        let annotated = serde_json::json!({"flyball.dev/cpu": "1.5", "flyball.dev/memory": "64Mi"});
        #[rustfmt::skip]
        let table = [
            (annotated.clone(),              &["a", "b"][..], Some("a=1500m,64Mi b=1m,16Mi")),
            (serde_json::json!({}),     &["a", "b"][..], Some("a=1m,16Mi b=1m,16Mi")),
            (annotated.clone(),              &["b"][..],      Some("b=1m,16Mi")),
            (annotated,                      &[][..],         None),
        ];
        for (annotations, running, want) in table {
            assert_eq!(show(&pod(annotations, running)).as_deref(), want);
        }
    }
}
