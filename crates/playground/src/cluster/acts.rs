//! What the buttons of the live page do in a playground: as its administrator, under a field manager of their own, so that the
//! history of an object says who it was.

use std::time::Duration;

use flyball_api::deployment::Deployment;
use flyball_api::node::Node;
use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSet;
use flyball_api::stateful_set::StatefulSet;
use flyball_api::{Key, Resource as _, ResourceType};
use flyball_client::{Client, DeleteOptions, Patch};
use flyball_runtime::Chain;
use flyball_ui::{Act, Acts, Switch};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use crate::nodes::behaviour::FAIL;
use crate::nodes::node::{is_simulated, is_stopped};
use crate::nodes::power::{Power, switch};
use crate::timeline::Dial;

/// More than any simulated cluster has room for.
const MOST_REPLICAS: u32 = 100_000;

pub(super) struct Buttons {
    pub(super) client: Client,
    /// Without it the clock cannot be moved.
    pub(super) dial: Option<Dial>,
}

impl Acts for Buttons {
    fn act(&self, act: Act) -> BoxFuture<'static, Result<String, String>> {
        let (client, dial) = (self.client.clone(), self.dial.clone());
        async move {
            match act {
                Act::Advance { seconds } => advance(dial, Duration::from_secs(seconds)).await,
                Act::Speed { speed } => set_speed(dial, speed).await,
                other => perform(&client, other).await,
            }
        }
        .boxed()
    }

    fn speed(&self) -> Option<u32> {
        self.dial.as_ref().map(Dial::speed)
    }

    fn switch(&self, node: &Node) -> Switch {
        match (is_simulated(node), is_stopped(node)) {
            (false, _) => Switch::None,
            (true, true) => Switch::Off,
            (true, false) => Switch::On,
        }
    }
}

/// What is said where the clock is the machine's.
const FIXED: &str = "the clock of this cluster cannot be moved";

async fn advance(dial: Option<Dial>, by: Duration) -> Result<String, String> {
    let now = dial.ok_or(FIXED)?.advance(by).await.map_err(|error| Chain(&error).to_string())?;
    Ok(format!("the clock shows {now:.0} now"))
}

async fn set_speed(dial: Option<Dial>, speed: u32) -> Result<String, String> {
    dial.ok_or(FIXED)?.set_speed(speed).await.map_err(|error| Chain(&error).to_string())?;
    Ok(match speed {
        1 => "time goes as fast as outside".to_owned(),
        _ => format!("time goes {speed} times as fast"),
    })
}

async fn perform(client: &Client, act: Act) -> Result<String, String> {
    match act {
        Act::Advance { .. } | Act::Speed { .. } => Err(FIXED.to_owned()),
        Act::StopNode { node } => {
            switch(client, &node, Power::Off).await.map_err(|error| Chain(&error).to_string())?;
            Ok(format!("{node} is off: it sends no more heartbeats"))
        }
        Act::StartNode { node } => {
            switch(client, &node, Power::On).await.map_err(|error| Chain(&error).to_string())?;
            Ok(format!("{node} is on again"))
        }
        Act::FailPod { namespace, name } => {
            let fail = json!({"metadata": {"annotations": {FAIL: "true"}}});
            patch(client, &Pod::TYPE, &Key::new(namespace, name.as_str()), fail).await?;
            Ok(format!("the containers of {name} fail from now on"))
        }
        Act::DeletePod { namespace, name } => {
            let (key, options) = (Key::new(namespace, name.as_str()), DeleteOptions::default());
            let deleted = client.delete::<Pod>(&key, &options).await;
            deleted.map_err(|error| Chain(&error).to_string())?;
            Ok(format!("{name} is being deleted"))
        }
        Act::Scale { replicas, .. } if replicas > MOST_REPLICAS => {
            Err(format!("{replicas} replicas are too many: at most {MOST_REPLICAS}"))
        }
        Act::Scale { kind, namespace, name, replicas } => {
            let scaled = [&Deployment::TYPE, &StatefulSet::TYPE, &ReplicaSet::TYPE];
            let resource = scaled.into_iter().find(|resource| resource.kind == kind);
            let resource = resource.ok_or_else(|| format!("a {kind} cannot be scaled"))?;
            let scale = json!({"spec": {"replicas": replicas}});
            patch(client, resource, &Key::new(namespace, name.as_str()), scale).await?;
            Ok(format!("{name} is to have {replicas} replicas"))
        }
    }
}

async fn patch(
    client: &Client,
    resource: &ResourceType,
    key: &Key,
    patch: serde_json::Value,
) -> Result<(), String> {
    let patched = client.patch_dynamic(resource, key, None, &Patch::Merge(patch)).await;
    patched.map(|_| ()).map_err(|error| Chain(&error).to_string())
}
