//! `flyball up` on another address, with further names in its certificate.

mod common;

use anyhow::ensure;
use flyball_api::Key;
use flyball_api::node::Node;
use flyball_client::{Client, ClientOptions, ConnectOptions, connect};

use common::Up;

#[tokio::test]
async fn other_machines_trust_the_names_that_were_given() -> anyhow::Result<()> {
    let up = Up::start(&["--bind-address", "127.0.0.2", "--certificate-names", "a.example,flyball.example"])?;
    let text = std::fs::read_to_string(up.kubeconfig())?;
    ensure!(text.contains(&format!("server: https://127.0.0.2:{}", up.port()?)), "{text}");
    up.client().await?.get::<Node>(&Key::cluster("node-1")).await?;

    for (name, is_trusted) in [("a.example", true), ("flyball.example", true), ("other.example", false)] {
        let renamed = text.replace("server:", &format!("tls-server-name: {name}\n    server:"));
        let path = up.file(name, &renamed)?;
        let options = ConnectOptions { kubeconfig: Some(path.into()), ..ConnectOptions::default() };
        let read = async {
            let client = Client::new(connect(&options).await?.transport(), ClientOptions::default());
            anyhow::Ok(client.get::<Node>(&Key::cluster("node-1")).await?)
        };
        let outcome = read.await;
        ensure!(outcome.is_ok() == is_trusted, "{name}: {outcome:?}");
    }
    up.stop()
}
