//! One file per kind.

pub mod config_map;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_template;
pub mod replica_set;
pub mod replication_controller;
pub mod secret;
pub mod service_account;
pub mod taint;

pub use config_map::ConfigMap;
pub use lease::Lease;
pub use namespace::Namespace;
pub use node::Node;
pub use pod::Pod;
pub use pod_template::PodTemplate;
pub use replica_set::ReplicaSet;
pub use replication_controller::ReplicationController;
pub use secret::Secret;
pub use service_account::ServiceAccount;
