//! The buttons of the page, where there is something to press: in the playground.

use flyball_api::node::Node;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// What a visitor asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Switches a node off: it sends no more heartbeats.
    StopNode {
        node: String,
    },
    StartNode {
        node: String,
    },
    /// Makes the containers of a pod fail.
    FailPod {
        namespace: String,
        name: String,
    },
    /// Deletes a pod.
    DeletePod {
        namespace: String,
        name: String,
    },
    /// Sets the number of replicas of a Deployment, StatefulSet or ReplicaSet.
    Scale {
        kind: String,
        namespace: String,
        name: String,
        replicas: u32,
    },
    /// Moves the cluster's clock.
    Advance {
        seconds: u64,
    },
    /// Makes time go this many times as fast as outside.
    Speed {
        speed: u32,
    },
}

/// Whether a node can be switched, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
    /// It is not ours to switch.
    None,
}

/// Executes the actions of visitors. Called for authorized visitors only.
pub trait Acts: Send + Sync {
    /// What was done, or why it was not, for the visitor.
    fn act(&self, act: Act) -> BoxFuture<'static, Result<String, String>>;

    fn switch(&self, node: &Node) -> Switch;

    /// How many times as fast as outside time goes; `None` if the clock cannot be moved.
    fn speed(&self) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Act;

    #[test]
    fn a_request_names_everything_or_is_refused() {
        let read = |text: &str| serde_json::from_str::<Act>(text).map_err(|error| error.to_string());
        let scale =
            Act::Scale { kind: "Deployment".into(), namespace: "a".into(), name: "b".into(), replicas: 3 };
        let text = r#"{"do":"scale","kind":"Deployment","namespace":"a","name":"b","replicas":3}"#;
        assert_eq!(read(text), Ok(scale));
        for wrong in [
            r#"{"do":"scale","kind":"Deployment","namespace":"a","name":"b","replicas":-1}"#,
            r#"{"do":"stop-node"}"#,
            r#"{"do":"drop-database"}"#,
            r#"{"do":"stop-node","node":"a","force":true}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
