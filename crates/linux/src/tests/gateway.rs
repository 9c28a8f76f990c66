//! The gateway over a kernel that is only memory.

use flyball_client::{Fence, FenceClock};
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_what_could() {
    let (_file, config, _cloud) = opened(Arc::default(), FILE);
    let gateway = Gateway::new(config, Arc::new(Memory::default()), Lifetime::Forever, &Metrics::default());
    #[rustfmt::skip]
    let table = [
        (json!({"ports": [{"port": 80, "protocol": "SCTP", "nodePort": 30080}]}), "port 80: protocol SCTP is not supported, only TCP and UDP are"),
        (json!({"ports": [{"port": 80}]}),                                       "port 80 has no node port; set allocateLoadBalancerNodePorts: true"),
        (json!({"loadBalancerSourceRanges": ["10.0.0.0"]}),                      "loadBalancerSourceRanges: \"10.0.0.0\" is not a range such as 192.0.2.0/24"),
        (json!({"ports": ports(257)}),                                           "it has 257 ports; at most 256 are supported"),
        (json!({"loadBalancerSourceRanges": ranges(0..1001)}),                   "it has 1001 source ranges; at most 1000 are supported, after those that overlap are merged"),
        (json!({"loadBalancerIP": "10.0.0.1"}),                                  "loadBalancerIP 10.0.0.1 is not one of this cloud's addresses"),
    ];
    for (spec, want) in table {
        let service =
            serde_json::from_value(json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec})).unwrap();
        let error = gateway.ensure("c", &service, &[]).await.unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}

#[tokio::test]
async fn after_the_end_nothing_is_held_and_everything_is_refused() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway =
        Gateway::new(config, kernel.clone(), Lifetime::For(Duration::from_secs(5)), &Metrics::default());
    let web = service("web", &["IPv4"]);
    gateway.ensure("c", &web, &[]).await.unwrap();
    assert_eq!(kernel.seen.lock().addresses.len(), 1);
    gateway.end().await;
    assert_eq!(*kernel.seen.lock(), Seen::default());
    let error = gateway.ensure("c", &web, &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "this process leads no more");
    assert_eq!(*kernel.seen.lock(), Seen::default());
}

#[tokio::test]
async fn a_missing_interface_fails_only_the_services_that_need_it() {
    let kernel = Arc::new(Memory { lacks_lan6: true, ..Memory::default() });
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let metrics = Metrics::default();
    let gateway = Gateway::new(config, kernel.clone(), Lifetime::Forever, &metrics);
    let (dual, web) = (service("dual", &["IPv6", "IPv4"]), service("web", &["IPv4"]));
    let error = gateway.ensure("c", &dual, &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot hold 2001:db8::1 on lan6: there is no interface \"lan6\"");
    let status = gateway.ensure("c", &web, &[]).await.unwrap();
    assert_eq!(status.ingress[0].ip, "192.0.2.2");
    assert_eq!(kernel.seen.lock().addresses.len(), 2);
    let text = metrics.text();
    assert!(
        text.contains("linux_cloud_addresses 2\n") && text.contains("linux_cloud_missing_addresses 1\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_change_that_is_no_longer_waited_for_does_not_undo_the_end() {
    let gate = Arc::new(tokio::sync::Mutex::new(()));
    let kernel = Arc::new(Memory { gate: Some(gate.clone()), ..Memory::default() });
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway =
        Gateway::new(config, kernel.clone(), Lifetime::For(Duration::from_secs(5)), &Metrics::default());
    let closed = gate.lock().await;
    {
        // Shown already, its address is not asked for in the network.
        let mut web = service("web", &["IPv4"]);
        web.status.load_balancer.ingress =
            vec![flyball_api::service::LoadBalancerIngress { ip: "192.0.2.1".into(), ..Default::default() }];
        let ensure = gateway.ensure("c", &web, &[]);
        // Its change has begun, and waits; then it is dropped, as when the lease is lost.
        assert!(futures::poll!(std::pin::pin!(ensure)).is_pending());
    }
    let mut ending = tokio::spawn(async move { gateway.end().await });
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ending).await;
    assert!(early.is_err(), "it has not waited for the change that is still under way");
    drop(closed);
    ending.await.unwrap();
    assert_eq!(*kernel.seen.lock(), Seen::default());
}

#[tokio::test]
async fn where_no_other_could_take_over_everything_stays_for_the_next_start() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway = Gateway::new(config, kernel.clone(), Lifetime::Forever, &Metrics::default());
    let web = service("web", &["IPv4"]);
    gateway.ensure("c", &web, &[]).await.unwrap();
    let before = kernel.seen.lock().clone();
    gateway.end().await;
    assert!(gateway.ensure("c", &web, &[]).await.is_err());
    assert!(before == *kernel.seen.lock() && !before.rules.is_empty());
}

#[tokio::test]
async fn an_address_that_the_machine_has_already_is_avoided() {
    let kernel = Arc::new(Memory::default());
    let taken = Held { address: "192.0.2.1".parse().unwrap(), interface: "lan".into() };
    kernel.seen.lock().addresses.push(SeenAddress { held: taken, is_ours: false });
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway = Gateway::new(config, kernel, Lifetime::Forever, &Metrics::default());
    let web = service("web", &["IPv4"]);
    let first = gateway.ensure("c", &web, &[]).await.unwrap_err();
    assert_eq!(
        first.to_string(),
        "192.0.2.1 is an address of this machine already, on lan; remove it there, or take it out of the pools"
    );
    let second = gateway.ensure("c", &web, &[]).await.unwrap();
    assert_eq!(second.ingress[0].ip, "192.0.2.2");
}

fn ports(count: u16) -> Vec<Value> {
    (1..=count).map(|port| json!({"port": port, "nodePort": 20000 + port})).collect()
}

/// None of which touches another.
fn ranges(numbers: Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("{}/32", std::net::Ipv4Addr::from(0x1e00_0000 + 2 * number))).collect()
}

#[tokio::test]
async fn a_service_that_asks_for_too_much_is_left_out_and_the_others_stay() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway = Gateway::new(config, kernel.clone(), Lifetime::Forever, &Metrics::default());
    gateway.ensure("c", &service("small", &["IPv4"]), &[]).await.unwrap();
    let (mut refused, mut made) = (None, 0);
    for number in 0..100 {
        let mut large = asking(json!({"ports": ports(256), "loadBalancerSourceRanges": ranges(0..1000)}));
        large.metadata.uid = format!("large-{number}").as_str().into();
        match gateway.ensure("c", &large, &[]).await {
            Ok(_) => made += 1,
            Err(error) => drop(refused.get_or_insert(error.to_string())),
        }
    }
    assert_eq!(made, 86);
    let want = "it needs 2306 entries in the gateway's maps, and its other load balancers have 198367 of at most 200000; \
                Services with fewer ports or source ranges need fewer";
    assert_eq!(refused.as_deref(), Some(want));
    assert_eq!(kernel.seen.lock().addresses.len(), 1 + made);
    gateway.ensure("c", &service("small", &["IPv4"]), &[]).await.unwrap();
}

#[tokio::test]
async fn addresses_are_renewed_although_the_rules_cannot_be_replaced() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let lifetime = Lifetime::For(Duration::from_secs(5));
    let gateway = Gateway::new(config, kernel.clone(), lifetime, &Metrics::default());
    gateway.ensure("c", &service("web", &["IPv4"]), &[]).await.unwrap();
    kernel.take_log();
    kernel.refuses_rules.store(true, Ordering::Relaxed);
    let error = gateway.ensure("c", &service("other", &["IPv4"]), &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot replace the table with 6 rules: Message too long");
    // Without rules there is no new address, but the one from before goes on.
    assert_eq!(kernel.take_log(), "hold 192.0.2.1 on lan for 5s, replace the table with 6 rules");
}

#[tokio::test]
async fn addresses_are_renewed_while_the_rules_take_long() {
    let gate = Arc::new(tokio::sync::Mutex::new(()));
    let kernel = Arc::new(Memory { gate: Some(gate.clone()), ..Memory::default() });
    let machine = Arc::new(apply::Machine::new(kernel.clone()));
    let lifetime = Lifetime::For(Duration::from_secs(5));
    let (web, dns) = (balancer("192.0.2.1 node=10.0.0.1"), balancer("192.0.2.2 node=10.0.0.1"));
    let change = |balancers: Vec<Balancer>| {
        let machine = machine.clone();
        tokio::task::spawn_blocking(move || {
            machine.change(&Wanted { balancers: balancers.iter().collect(), lifetime }, &[]).map(drop)
        })
    };
    change(vec![web.clone()]).await.unwrap().unwrap();
    kernel.take_log();
    let closed = gate.lock().await;
    let slow = change(vec![web, dns]);
    let renewing = machine.clone();
    tokio::task::spawn_blocking(move || renewing.renew(lifetime)).await.unwrap();
    assert!(kernel.take_log().starts_with("hold 192.0.2.1 on lan for 5s"));
    drop(closed);
    slow.await.unwrap().unwrap();
    // What is released is not renewed.
    change(vec![]).await.unwrap().unwrap();
    kernel.take_log();
    machine.renew(lifetime);
    assert_eq!(kernel.take_log(), "");
}

#[tokio::test(start_paused = true)]
async fn an_address_is_gone_when_another_process_may_lead() {
    let kernel = Arc::new(Memory::default());
    let machine = apply::Machine::new(kernel.clone());
    let fence = Fence::new(FenceClock::Tokio(Instant::now()));
    machine.fence.set(fence.clone()).unwrap();
    let (web, lifetime) = (balancer("192.0.2.1 node=10.0.0.1"), Lifetime::For(Duration::from_secs(4)));
    machine.change(&Wanted { balancers: vec![&web], lifetime }, &[]).unwrap();
    kernel.take_log();
    // With a lease of 15 s that is renewed for 11 s, writes end after 13 s.
    fence.hold_until(fence.now() + Duration::from_secs(13));
    let fence_set = Instant::now();
    for (at, want) in [(0, "4s"), (11, "4s"), (12, "3s")] {
        tokio::time::sleep_until(fence_set + Duration::from_secs(at)).await;
        machine.renew(lifetime);
        assert_eq!(kernel.take_log(), format!("hold 192.0.2.1 on lan for {want}"), "after {at} s");
    }
    tokio::time::sleep_until(fence_set + Duration::from_secs(14)).await;
    machine.renew(lifetime);
    assert_eq!(kernel.take_log(), "", "nothing is renewed any more");
}

#[tokio::test]
async fn an_update_that_is_refused_still_keeps_clients_out() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway = Gateway::new(config, kernel.clone(), Lifetime::Forever, &Metrics::default());
    let sctp = json!([{"port": 80, "protocol": "SCTP", "nodePort": 30080}]);
    #[rustfmt::skip]
    let table = [
        // case               the update                                                                  addresses, and whether clients are limited
        ("another port",      json!({"ports": sctp, "loadBalancerSourceRanges": ["10.0.0.0/8"]}),         (1, true)),
        ("a taken address",   json!({"loadBalancerIP": "10.9.9.9", "loadBalancerSourceRanges": ["10.0.0.0/8"]}), (1, true)),
        ("no range",          json!({"loadBalancerSourceRanges": ["10.0.0.0"]}),                          (0, false)),
        ("too many ranges",   json!({"loadBalancerSourceRanges": ranges(0..1001)}),                       (0, false)),
    ];
    for (case, update, want) in table {
        gateway.ensure("c", &asking(json!({})), &[]).await.unwrap();
        gateway.ensure("c", &asking(update), &[]).await.unwrap_err();
        let seen = kernel.seen.lock().clone();
        let is_limited = seen.rules.iter().any(|(chain, _)| chain.starts_with("from-"));
        assert_eq!((seen.addresses.len(), is_limited), want, "{case}");
    }
}

#[tokio::test]
async fn an_address_of_another_machine_in_the_network_is_not_taken_over() {
    let elsewhere = ["192.0.2.1", "192.0.2.3"].map(|address| address.parse().unwrap()).into();
    let kernel = Arc::new(Memory { elsewhere, ..Memory::default() });
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let gateway = Gateway::new(config, kernel, Lifetime::Forever, &Metrics::default());
    let status = gateway.ensure("c", &asking(json!({})), &[]).await.unwrap();
    assert_eq!(status.ingress[0].ip, "192.0.2.2");
    let mut router = asking(json!({"loadBalancerIP": "192.0.2.3"}));
    router.metadata.uid = "u".into();
    let error = gateway.ensure("c", &router, &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "loadBalancerIP 192.0.2.3 is in use by another machine in the network");
    // What a Service shows may still be answered for by the gateway that had it before.
    router.status.load_balancer.ingress =
        vec![flyball_api::service::LoadBalancerIngress { ip: "192.0.2.3".into(), ..Default::default() }];
    assert_eq!(gateway.ensure("c", &router, &[]).await.unwrap().ingress[0].ip, "192.0.2.3");
}

#[tokio::test(start_paused = true)]
async fn a_standby_deletes_the_rules_of_a_killed_process_once_its_addresses_are_gone() {
    let kernel = Arc::new(Memory::default());
    let (_file, config, _cloud) = opened(kernel.clone(), FILE);
    let lifetime = Lifetime::For(Duration::from_secs(5));
    let killed = Gateway::new(config.clone(), kernel.clone(), lifetime, &Metrics::default());
    killed.ensure("c", &asking(json!({})), &[]).await.unwrap();
    drop(killed);
    let (_never, shutdown) = flyball_runtime::Signal::new();
    let standby = Gateway::new(config, kernel.clone(), lifetime, &Metrics::default());
    let forgetting = tokio::spawn(standby.delete_leftover_rules(shutdown));
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!kernel.seen.lock().rules.is_empty() && !forgetting.is_finished());
    kernel.seen.lock().addresses.clear();
    forgetting.await.unwrap();
    assert_eq!(*kernel.seen.lock(), Seen::default());
}
