//! The client for a running cluster, from its kubeconfig.

use std::path::Path;

use anyhow::{Context as _, bail};
use flyball_client::{Client, ClientOptions, ConnectOptions, connect};

use crate::args::Target;
use crate::{named, place};

pub(crate) async fn client(target: &Target) -> anyhow::Result<Client> {
    let path = match &target.kubeconfig {
        Some(path) => place::kubeconfig(path)?,
        None => named::kubeconfig_of(target.name.as_ref()).await?,
    };
    if !path.exists() {
        bail!("there is no file {}; name the kubeconfig of the cluster with --kubeconfig", path.display());
    }
    connected(&path, None).await
}

/// The client for a kubeconfig and one of its contexts.
pub(crate) async fn connected(path: &Path, context: Option<&str>) -> anyhow::Result<Client> {
    let context = context.map(str::to_owned);
    let options = ConnectOptions { kubeconfig: Some(path.to_owned()), context, ..ConnectOptions::default() };
    let connection = connect(&options).await.with_context(|| path.display().to_string())?;
    let options = ClientOptions {
        user_agent: concat!("flyball/", env!("CARGO_PKG_VERSION")).to_owned(),
        ..ClientOptions::default()
    };
    Ok(Client::with_watches(connection.transport(), connection.watch_transport(), options))
}
