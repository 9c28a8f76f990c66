//! v
pub(super) mod access;
pub(super) mod apps;
pub(super) mod autoscaling;
pub(super) mod batch;
pub(super) mod certificates;
pub(super) mod cluster;
pub(super) mod config;
pub(super) mod events;
pub(super) mod extension;
pub(super) mod network;
pub(super) mod policy;
pub(super) mod service;
pub(super) mod storage;
