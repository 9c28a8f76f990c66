//! How long it is unknown whether etcd was restored. Controllers wait meanwhile, so it must be short.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Resource, ResourceType};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::server::{Server, Streaming};
use super::{Widget, settle, synced};
use crate::era::Era;
use crate::source::Class;
use crate::{AnyInformer, Informer, InformerOptions};

const SECOND: Duration = Duration::from_secs(1);

fn start_in(era: &Arc<Era>, server: &Server, seed: u64) -> Informer<Widget> {
    start_of(Widget::TYPE, era, server, seed)
}

fn start_of(resource: ResourceType, era: &Arc<Era>, server: &Server, seed: u64) -> Informer<Widget> {
    let (source, options) = (Arc::new(server.clone()), InformerOptions::default());
    Informer::start_in(era.clone(), resource, source, &options, StdRng::seed_from_u64(seed))
}

/// How long the informer is in doubt within `period`, and the longest time that it reports.
async fn doubts_within(informer: &Informer<Widget>, period: Duration) -> (Duration, Duration) {
    const STEP: Duration = Duration::from_millis(100);
    let (end, mut all, mut longest) = (Instant::now() + period, Duration::ZERO, Duration::ZERO);
    while Instant::now() < end {
        if let Some(lasts) = informer.in_doubt_for() {
            all += STEP;
            longest = longest.max(lasts);
        }
        sleep(STEP).await;
    }
    (all, longest)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_its_timeout_raises_no_doubt() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    for _ in 0..5 {
        let lifetime = *server.watch_timeouts().last().unwrap();
        sleep(lifetime - SECOND).await;
        informer.reached(server.bookmark()).await;
        sleep(SECOND).await;
        server.close_watches();
        let (all, _) = doubts_within(&informer, SECOND).await;
        assert_eq!(all, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_early_raises_a_doubt_for_one_request() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.reached(server.bookmark()).await;
    sleep(10 * SECOND).await;
    server.take_requests();
    server.close_watches();
    settle().await;
    assert_eq!(informer.in_doubt_for(), None);
    assert_eq!(server.take_requests()[0], "present");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_was_compacted_does_not_raise_a_doubt_for_a_whole_list() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    informer.reached(server.bookmark()).await;
    sleep(60 * SECOND).await;
    server.compact();
    server.take_requests();
    let server = server.streaming(Streaming::NoEnd);
    server.end_watches(Class::VersionUnusable, "expired");
    settle().await;
    assert_eq!(server.take_requests(), ["present", "stream"], "the list has not ended");
    assert_eq!(informer.in_doubt_for(), None);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_the_newest_object_ends_the_doubt_without_a_bookmark() {
    let server = Server::with(&["a/x", "a/y"]);
    let informer = synced(&server).await;
    server.set_reachable(false);
    server.delete("a/y");
    server.put("b/other", json!({}));
    server.set_reachable(true);
    sleep(2 * SECOND).await;
    assert_eq!(informer.in_doubt_for(), None);
    assert_eq!(informer.counts().relists, 0);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_lasts_as_long_as_the_server_is_away_but_that_time_does_not_count() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.set_reachable(false);
    sleep(600 * SECOND).await;
    let lasts = informer.in_doubt_for().expect("in doubt");
    assert!(lasts < SECOND, "{lasts:?}");
    server.set_reachable(true);
    sleep(61 * SECOND).await;
    assert_eq!(informer.in_doubt_for(), None);
}

#[tokio::test(start_paused = true)]
async fn when_one_informer_reaches_the_server_again_all_do() {
    let era = Arc::default();
    let servers: Vec<Server> = (0..20).map(|_| Server::with(&["a/x"])).collect();
    let informers: Vec<_> =
        servers.iter().zip(1..).map(|(server, seed)| start_in(&era, server, seed)).collect();
    for informer in &informers {
        informer.synced().await;
    }
    servers.iter().for_each(|server| server.set_reachable(false));
    sleep(300 * SECOND).await;
    let doubts = || informers.iter().filter(|informer| informer.in_doubt_for().is_some()).count();
    assert_eq!(doubts(), 20);
    servers.iter().for_each(|server| server.set_reachable(true));
    let back = Instant::now();
    while doubts() == 20 {
        sleep(Duration::from_millis(1)).await;
    }
    // Twenty informers try again every 30 to 60 seconds.
    assert!(back.elapsed() < 15 * SECOND, "{:?}", back.elapsed());
    settle().await;
    assert_eq!(doubts(), 0, "all others follow the first");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_alone_cannot_reach_the_server_does_not_hurry_with_the_others() {
    let era = Arc::default();
    let (cut_off, other) = (Server::with(&["a/x"]), Server::with(&["a/x"]));
    let informer = start_in(&era, &cut_off, 1);
    let healthy = start_in(&era, &other, 2);
    informer.synced().await;
    healthy.synced().await;
    cut_off.set_reachable(false);
    cut_off.take_requests();
    let busy = tokio::spawn(async move {
        loop {
            other.put("a/busy", json!({}));
            sleep(Duration::from_millis(10)).await;
        }
    });
    let (_, longest) = doubts_within(&informer, 120 * SECOND).await;
    busy.abort();
    let requests = cut_off.take_requests();
    assert!(requests.len() < 12, "{requests:?}");
    assert!(longest > 100 * SECOND, "the server responds, so the time counts: {longest:?}");
}

/// As when a conversion webhook works only now and then.
#[tokio::test(start_paused = true)]
async fn broken_custom_resources_raise_no_doubt_while_others_show_that_there_was_no_restore() {
    const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);
    for has_others in [true, false] {
        let era = Arc::default();
        let of_nodes = Server::with(&["a/x"]);
        let nodes = has_others.then(|| start_of(NODES, &era, &of_nodes, 0));
        let servers: Vec<Server> = (0..40).map(|_| Server::with(&["a/x"])).collect();
        let informers: Vec<_> =
            servers.iter().zip(1..).map(|(server, seed)| start_in(&era, server, seed)).collect();
        for informer in informers.iter().chain(&nodes) {
            informer.synced().await;
        }
        of_nodes.take_requests();
        let (mut all, mut steps) = (0, 0);
        while steps < 6000 {
            // Each fails twice in 40 seconds.
            if steps % 10 == 0 {
                let server = &servers[steps / 10 % servers.len()];
                server.fail_next(2, None);
                server.end_watches(Class::Passing, "conversion webhook failed");
            }
            sleep(SECOND / 10).await;
            all += usize::from(era.has_doubts());
            steps += 1;
        }
        let asked = of_nodes.take_requests().iter().filter(|request| *request == "present").count();
        match has_others {
            true => assert!(all == 0 && asked <= 1800, "{all} of {steps}, {asked} requests"),
            false => assert!(all > steps / 2, "{all} of {steps}"),
        }
    }
}

/// A restore must not be overlooked because others are asked.
#[tokio::test(start_paused = true)]
async fn a_custom_resource_that_fails_learns_of_a_restore_from_others() {
    const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);
    let (era, of_nodes, custom) =
        (Arc::default(), Server::with(&["a/x", "a/y"]), Server::with(&["a/x", "a/y"]));
    let nodes = start_of(NODES, &era, &of_nodes, 1);
    let widgets = start_in(&era, &custom, 2);
    nodes.synced().await;
    widgets.synced().await;
    // The watch of nodes survives, and is silent.
    of_nodes.restore(&Server::with(&["a/x"]));
    custom.fail_next(1, None);
    custom.end_watches(Class::Passing, "conversion webhook failed");
    sleep(SECOND / 10).await;
    assert_eq!(era.now(), 1, "all are listed again");
}

#[tokio::test(start_paused = true)]
async fn doubts_that_repeat_add_up_and_are_forgotten() {
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    server.refuse_watches(Class::Passing);
    let (_, longest) = doubts_within(&informer, 300 * SECOND).await;
    assert!(longest > 100 * SECOND, "each list ends a doubt and each watch begins one: {longest:?}");
    let server = Server::with(&["a/x"]);
    let informer = synced(&server).await;
    for _ in 0..100 {
        informer.reached(server.bookmark()).await;
        server.end_watches(Class::Passing, "overloaded");
        let (_, longest) = doubts_within(&informer, 60 * SECOND).await;
        assert!(longest < 10 * SECOND, "a second in each minute is forgotten: {longest:?}");
    }
}
