//! Resources that may have a store of their own go back alone; those of the API server speak for all.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Resource, ResourceType};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::server::Server;
use super::{Listener, Widget, shape_of};
use crate::era::Era;
use crate::{Informer, InformerOptions, Progress};

const SECOND: Duration = Duration::from_secs(1);
const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);

async fn start(era: &Arc<Era>, resource: ResourceType, server: &Server) -> Informer<Widget> {
    let (source, options) = (Arc::new(server.clone()), InformerOptions::default());
    let informer = Informer::start_in(era.clone(), resource, source, &options, StdRng::seed_from_u64(1));
    assert!(informer.synced().await);
    informer
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_api_with_odd_versions_is_listed_again_alone_and_not_all_the_time() {
    let (of_nodes, aggregated) = (Server::with(&["a/x"]), Server::with(&["a/x", "a/y", "a/z"]));
    let era = Arc::default();
    let nodes = start(&era, NODES, &of_nodes).await;
    let widgets = start(&era, Widget::TYPE, &aggregated).await;
    sleep(60 * SECOND).await;
    let (listener, _subscription) = Listener::to(&widgets);
    listener.take();
    // It is restarted, and begins again with the lowest versions.
    let replicas = [Server::with(&["a/y"]), Server::with(&["a/x", "a/y", "a/z", "a/w"])];
    aggregated.restore(&replicas[0]);
    aggregated.cut();
    sleep(15 * SECOND).await;
    assert_eq!(shape_of(widgets.store()), aggregated.shape());
    assert_eq!(listener.view(), aggregated.shape());
    assert!(listener.take().contains(&"add a/y Initial".to_owned()), "all that is there is shown again");
    assert_eq!((nodes.counts().relists, widgets.counts().relists, era.now()), (0, 1, 0));
    // Each watch reaches another replica.
    let before = widgets.counts().relists;
    for n in 0..60 {
        aggregated.restore(&replicas[n % 2]);
        aggregated.cut();
        sleep(5 * SECOND).await;
    }
    let relists = widgets.counts().relists - before;
    assert!((2..=31).contains(&relists), "{relists} in five minutes");
    assert_eq!((nodes.counts().relists, era.now()), (0, 0));
    // A write to it returns a version from the past.
    sleep(15 * SECOND).await;
    let next = Progress::next_list(&widgets);
    widgets.report_restore(0);
    timeout(15 * SECOND, Progress::listed(&widgets, next)).await.expect("it is listed again");
    assert_eq!((nodes.counts().relists, era.now()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_that_goes_back_with_the_api_server_makes_all_list_anew() {
    let (of_nodes, custom) = (Server::with(&["a/x", "a/y"]), Server::with(&["a/x", "a/y", "a/z"]));
    let era = Arc::default();
    let nodes = start(&era, NODES, &of_nodes).await;
    let widgets = start(&era, Widget::TYPE, &custom).await;
    sleep(60 * SECOND).await;
    // The watch of nodes survives.
    of_nodes.restore(&Server::with(&["a/x"]));
    custom.restore(&Server::with(&["a/x"]));
    custom.cut();
    sleep(20 * SECOND).await;
    assert_eq!((nodes.counts().relists, widgets.counts().relists, era.now()), (1, 1, 1));
    custom.put("a/new", json!({}));
    sleep(SECOND).await;
    assert_eq!(shape_of(nodes.store()), of_nodes.shape());
    assert_eq!(shape_of(widgets.store()), custom.shape());
}
