//! What a simulated pod has to say to `kubectl logs`.

use std::sync::{Arc, OnceLock};

use flyball_api::Key;
use flyball_apiserver::Kubelet;
use flyball_cache::Informer;

use crate::nodes::script;
use crate::objects::Pod;

/// Answers for pods of which nothing runs.
#[derive(Default)]
pub(super) struct Simulated {
    pods: OnceLock<Arc<Informer<Pod>>>,
}

impl Simulated {
    /// Where the pods are; the server is there before anybody can watch it.
    pub(super) fn look_at(&self, pods: Arc<Informer<Pod>>) {
        let _ = self.pods.set(pods);
    }
}

impl Kubelet for Simulated {
    fn logs(&self, namespace: &str, pod: &str, container: Option<&str>) -> Result<String, String> {
        let found = self.pods.get().and_then(|pods| pods.store().get(&Key::new(namespace, pod)));
        match found {
            Some(found) => logs(&found, container.filter(|name| !name.is_empty())),
            None => Err(format!("pod {pod:?} has not reached its node yet")),
        }
    }

    fn refusal(&self, what: &str) -> String {
        format!("{what} is not available: the pod is simulated, so nothing runs in it")
    }
}

fn logs(pod: &Pod, container: Option<&str>) -> Result<String, String> {
    let name = &pod.metadata.name;
    let all = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
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
    let mut statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let status = statuses.find(|status| status.name == spec.name);
    if status.is_none_or(|status| status.container_id.is_empty()) {
        let waits = status.and_then(|status| status.state.waiting.as_ref());
        let reason = waits.map_or("ContainerCreating", |waits| waits.reason.as_str());
        return Err(format!("container {:?} in pod {name:?} is waiting to start: {reason}", spec.name));
    }
    let mut text = format!(
        "[flyball] {} ({}) is simulated on {}: nothing runs, so it writes nothing of its own.\n",
        spec.name, spec.image, pod.spec.node_name,
    );
    for line in script::output(spec) {
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}
