//! Why a container does not run: its image, its configuration, its exits.

use flyball_api::Timestamp;

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{between, one_line, seconds_after, seconds_between, span};
use crate::world::World;

/// A container's status and what to call it.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) status: Obj<'a>,
    pub(super) is_init: bool,
}

impl<'a> Container<'a> {
    pub(super) fn called(self) -> String {
        let noun = if self.is_init { "init container" } else { "container" };
        format!("{noun} {}", self.status.text("/name"))
    }

    fn waiting(self) -> (&'a str, &'a str) {
        (self.status.text("/state/waiting/reason"), self.status.text("/state/waiting/message"))
    }

    /// How it ended last: the current state, or the one before the restart.
    fn ended(self) -> Option<Obj<'a>> {
        [self.status.at("/state/terminated"), self.status.at("/lastState/terminated")]
            .into_iter()
            .find(|state| !state.is_null())
            .map(Obj)
    }
}

pub(super) fn containers<'a>(pod: Obj<'a>) -> impl Iterator<Item = Container<'a>> {
    let of = |pointer, is_init| pod.list(pointer).map(move |status| Container { status, is_init });
    of("/status/initContainerStatuses", true).chain(of("/status/containerStatuses", false))
}

pub(super) fn image(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    let found = containers(pod).filter_map(|container| {
        let (reason, message) = container.waiting();
        let is_pull = matches!(
            reason,
            "ErrImagePull"
                | "ImagePullBackOff"
                | "InvalidImageName"
                | "ErrImageNeverPull"
                | "ImageInspectError"
                | "RegistryUnavailable"
                | "SignatureValidationFailed"
        );
        is_pull.then(|| {
            let image = match container.status.text("/image") {
                "" => spec_of(pod, container).map_or("", |spec| spec.text("/image")),
                image => image,
            };
            let (why, advice) = pull_problem(reason, message);
            let text = format!("{}: image {image} cannot be pulled: {why}", container.called());
            Finding::blocks("image", pod, text).advise(advice)
        })
    });
    found.collect()
}

/// What a registry or the runtime said, and what helps.
fn pull_problem(reason: &str, message: &str) -> (String, &'static str) {
    let text = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let known = match reason {
        "InvalidImageName" => Some(("the name is not valid", "correct the image's name")),
        "ErrImageNeverPull" => Some((
            "it is not on the node, and imagePullPolicy is Never",
            "load the image on the node, or set imagePullPolicy to IfNotPresent",
        )),
        _ if has(&["toomanyrequests", "too many requests", "rate limit"]) => Some((
            "the registry limits how often it may be pulled",
            "log in to the registry with an imagePullSecret, or use a mirror",
        )),
        _ if has(&["no match for platform", "no matching manifest"]) => Some((
            "it is not built for the node's architecture",
            "use an image for this architecture, or a nodeSelector",
        )),
        _ if has(&[
            "unauthorized",
            "denied",
            "authentication required",
            "no basic auth",
            "403 forbidden",
        ]) =>
        {
            Some((
                "the registry refuses access (it may also not exist)",
                "check the image's name and the imagePullSecrets of the pod and its service account",
            ))
        }
        _ if has(&["not found", "manifest unknown", "does not exist"]) => {
            Some(("it does not exist in the registry", "check the image's name and tag"))
        }
        _ if has(&["x509", "certificate"]) => {
            Some(("the registry's certificate is not trusted", "install the registry's CA on the nodes"))
        }
        _ if has(&[
            "no such host",
            "i/o timeout",
            "connection refused",
            "deadline exceeded",
            "server misbehaving",
        ]) =>
        {
            Some(("the registry cannot be reached from the node", "check DNS and the network of the node"))
        }
        _ if has(&["no space left"]) => Some(("the node's disk is full", "free disk space on the node")),
        _ => None,
    };
    match known {
        Some((why, advice)) => (why.to_owned(), advice),
        None if message.is_empty() || message.starts_with("Back-off pulling image") => (
            "the kubelet backs off after failures".to_owned(),
            "see the events of the pod for what the registry said",
        ),
        None => (one_line(message, 200), "check the image's name, the registry and the imagePullSecrets"),
    }
}

fn spec_of<'a>(pod: Obj<'a>, container: Container<'_>) -> Option<Obj<'a>> {
    let list = if container.is_init { "/spec/initContainers" } else { "/spec/containers" };
    let name = container.status.text("/name");
    pod.list(list).find(|spec| spec.text("/name") == name)
}

pub(super) fn config(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    let found = containers(pod).filter_map(|container| {
        let (reason, message) = container.waiting();
        let (text, advice) = match reason {
            "CreateContainerConfigError" => match (missing(message), message.contains("runAsNonRoot")) {
                (Some(missing), _) => (missing, "create it, or mark the reference as optional"),
                (None, true) => (
                    "it must not run as root (runAsNonRoot), and its image does".to_owned(),
                    "set runAsUser, or use an image with a numeric user",
                ),
                (None, false) => (one_line(message, 200), "correct the container's configuration"),
            },
            "CreateContainerError" | "RunContainerError" | "StartError" | "PostStartHookError" => {
                let advice =
                    match message.contains("executable file not found") || message.contains("no such file") {
                        true => "check the command: the image has no such program",
                        false => "correct the container's command, mounts or hooks",
                    };
                (format!("it cannot be started: {}", one_line(message, 200)), advice)
            }
            _ => return None,
        };
        Some(
            Finding::blocks("container-config", pod, format!("{}: {text}", container.called()))
                .advise(advice),
        )
    });
    found.collect()
}

/// `configmap "app" not found`, `couldn't find key port in Secret default/db`.
fn missing(message: &str) -> Option<String> {
    for (word, kind) in [("configmap \"", "ConfigMap"), ("secret \"", "Secret")] {
        if let Some(name) = between(message, word, "\" not found") {
            return Some(format!("{kind} {name} does not exist"));
        }
    }
    let rest = message.split_once("find key ")?.1;
    let (key, place) = rest.split_once(" in ")?;
    let mut words = place.split_whitespace();
    let (kind, name) = (words.next()?, words.next()?);
    Some(format!("{kind} {name} has no key {key}"))
}

pub(super) fn crash(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if matches!(pod.text("/status/phase"), "Succeeded" | "Failed") {
        return Vec::new();
    }
    let found = containers(pod).filter_map(|container| {
        let ended = container.ended()?;
        let (reason, message) = container.waiting();
        let restarts = container.status.count("/restartCount");
        let is_running = !container.status.at("/state/running").is_null();
        let is_backing_off = reason == "CrashLoopBackOff";
        if !is_backing_off && (restarts == 0 || (is_running && container.status.is_true("/ready"))) {
            return None;
        }
        let exit = exit_text(ended);
        if !is_backing_off && is_running {
            return recent(world.now, ended).then(|| {
                let text = format!(
                    "{} was restarted {} (last: {exit}) and is not ready yet",
                    container.called(),
                    times(restarts)
                );
                Finding::waits("crash", pod, text)
            });
        }
        let pause = seconds_after(message, "back-off").map(|pause| {
            let left = ended.time("/finishedAt").map(|end| pause - seconds_between(end, world.now));
            match left {
                Some(left) if left > 0 => {
                    format!("; the next start is in {} (back-off {})", span(left), span(pause))
                }
                _ => format!("; the kubelet pauses {} between starts", span(pause)),
            }
        });
        let text = format!(
            "{} keeps ending: {exit}, restarted {}{}",
            container.called(),
            times(restarts),
            pause.unwrap_or_default()
        );
        Some(Finding::blocks("crash", pod, text).advise(advice(pod, container, ended)))
    });
    found.collect()
}

fn times(count: i64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

fn recent(now: Timestamp, ended: Obj<'_>) -> bool {
    ended.time("/finishedAt").is_none_or(|end| seconds_between(end, now) < 600)
}

/// `exit code 137 (killed: out of memory)`.
pub(super) fn exit_text(ended: Obj<'_>) -> String {
    let code = ended.count("/exitCode");
    let meaning = match (ended.text("/reason"), code) {
        ("OOMKilled", _) => "killed: out of memory",
        ("ContainerCannotRun" | "StartError", _) => "it could not be started",
        ("DeadlineExceeded", _) => "its deadline passed",
        (_, 0) => "it ended by itself, but is expected to run on",
        (_, 126) => "the command cannot be executed",
        (_, 127) => "the command was not found",
        (_, 134) => "aborted",
        (_, 137) => "killed",
        (_, 139) => "segmentation fault",
        (_, 143) => "terminated by SIGTERM",
        _ => "",
    };
    let message = match ended.text("/message") {
        "" => String::new(),
        message => format!(": {}", one_line(message, 160)),
    };
    match meaning {
        "" => format!("exit code {code}{message}"),
        meaning => format!("exit code {code} ({meaning}){message}"),
    }
}

fn advice(pod: Obj<'_>, container: Container<'_>, ended: Obj<'_>) -> String {
    let name = container.status.text("/name");
    if ended.text("/reason") == "OOMKilled" {
        let limit = spec_of(pod, container).map_or("", |spec| spec.text("/resources/limits/memory"));
        return match limit {
            "" => "the node ran out of memory: set memory requests and limits".to_owned(),
            limit => format!("raise the memory limit ({limit}), or use less memory"),
        };
    }
    format!("kubectl -n {} logs {} -c {name} --previous", pod.namespace(), pod.name())
}

/// Init containers that run, in turn; what comes after them waits.
pub(super) fn init(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    let all: Vec<Obj<'_>> = pod.list("/status/initContainerStatuses").collect();
    let is_done = |status: &Obj<'_>| {
        status.int("/state/terminated/exitCode") == Some(0)
            || (status.is_true("/started") && status.is_true("/ready"))
    };
    let Some(position) = all.iter().position(|status| !is_done(status)) else { return Vec::new() };
    let current = all[position];
    if current.at("/state/running").is_null() {
        return Vec::new();
    }
    let began = current.time("/state/running/startedAt");
    let text = format!(
        "init container {} ({} of {}) is running{}; the other containers start after it",
        current.text("/name"),
        position + 1,
        all.len(),
        crate::words::since(began, world.now)
    );
    vec![Finding::waits("init-container", pod, text)]
}

pub(super) fn starting(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    let creating = containers(pod).find(|container| container.waiting().0 == "ContainerCreating");
    let text = |container: Container<'_>| format!("{} is being created", container.called());
    creating.map(|container| Finding::waits("container-starting", pod, text(container))).into_iter().collect()
}
