use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use flyball_api::{Node, Service};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::*;
use crate::kit::choose;

fn node(name: &str, provider_id: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"providerID": provider_id}})).unwrap()
}

fn service(uid: &str, spec: Value, shown: &str) -> Service {
    let ingress: Vec<Value> = shown.split_whitespace().map(|ip| json!({"ip": ip})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": uid, "uid": uid}, "spec": spec, "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

fn write(file: &mut std::fs::File, text: &str) {
    use std::io::Seek;
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.flush().unwrap();
}

#[test]
fn an_address_is_what_was_asked_for_or_had_or_the_first_that_is_free() {
    #[rustfmt::skip]
    let table = [
        // case                    spec                                              had          taken                  chosen
        ("the first",              json!({}),                                        "",          "",                    Ok("192.0.2.1")),
        ("the next",               json!({}),                                        "",          "192.0.2.1",           Ok("192.0.2.2")),
        ("what it had",            json!({}),                                        "192.0.2.2", "",                    Ok("192.0.2.2")),
        ("what it had is taken",   json!({}),                                        "192.0.2.2", "192.0.2.2",           Ok("192.0.2.1")),
        ("what it had is foreign", json!({}),                                        "10.0.0.1",  "",                    Ok("192.0.2.1")),
        ("what it asks for",       json!({"loadBalancerIP": "192.0.2.2"}),           "192.0.2.1", "",                    Ok("192.0.2.2")),
        ("asks for a taken one",   json!({"loadBalancerIP": "192.0.2.2"}),           "",          "192.0.2.2",           Err("loadBalancerIP 192.0.2.2 is taken")),
        ("asks for a foreign one", json!({"loadBalancerIP": "10.0.0.1"}),            "",          "",                    Err("loadBalancerIP 10.0.0.1 is not one of this cloud's addresses")),
        ("asks for the network",   json!({"loadBalancerIP": "192.0.2.0"}),           "",          "",                    Err("loadBalancerIP 192.0.2.0 is the first or the last address of its range, which is the network's own")),
        ("asks for all machines",  json!({"loadBalancerIP": "192.0.2.3"}),           "",          "",                    Err("loadBalancerIP 192.0.2.3 is the first or the last address of its range, which is the network's own")),
        ("asks for the routers",   json!({"loadBalancerIP": "2001:db8::"}),          "",          "",                    Err("loadBalancerIP 2001:db8:: is the first or the last address of its range, which is the network's own")),
        ("asks for nonsense",      json!({"loadBalancerIP": "x"}),                   "",          "",                    Err("loadBalancerIP \"x\" is not an address")),
        ("two families",           json!({"ipFamilies": ["IPv6", "IPv4"]}),          "",          "",                    Ok("2001:db8::1 192.0.2.1")),
        ("none left",              json!({}),                                        "",          "192.0.2.1 192.0.2.2", Err("all addresses are taken")),
    ];
    let ranges: Vec<IpNet> = ["192.0.2.0/30", "2001:db8::/64"].map(|range| range.parse().unwrap()).into();
    for (case, spec, had, taken, want) in table {
        let taken: BTreeSet<IpAddr> = taken.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
        let chosen = choose(&ranges, &service("u", spec, had), &taken);
        let chosen = chosen.map(|ips| ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "));
        assert_eq!(
            chosen.map_err(|e| e.to_string()),
            want.map(str::to_owned).map_err(str::to_owned),
            "{case}"
        );
    }
}

#[tokio::test]
async fn a_changed_file_is_another_cloud_and_a_wrong_one_changes_nothing() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write(file.as_file_mut(), "machines:\n- {name: a, id: i-1, zone: z}\n");
    let simulated = Simulated::from_file(file.path()).unwrap();
    let instances = simulated.cloud().instances.unwrap();
    assert!(instances.exists(&node("a", "")).await.unwrap());
    assert!(instances.exists(&node("renamed", "simulated://i-1")).await.unwrap());
    assert!(!instances.exists(&node("a", "other://i-1")).await.unwrap());
    assert!(!instances.exists(&node("b", "")).await.unwrap());
    write(file.as_file_mut(), "machines:\n- {name: a, state: stopped}\n- {name: b}\n");
    assert!(instances.exists(&node("b", "")).await.unwrap());
    assert!(instances.is_shut_down(&node("a", "")).await.unwrap());
    write(file.as_file_mut(), "machines:\n- {name: a, systemUUID: u-1}\n- {name: b}\n");
    assert!(!instances.exists(&node("a", "")).await.unwrap(), "no kubelet reports that UUID");
    let info = json!({"metadata": {"name": "x"}, "status": {"nodeInfo": {"systemUUID": "u-1"}}});
    assert!(instances.exists(&serde_json::from_value(info).unwrap()).await.unwrap());
    write(file.as_file_mut(), "machines: 5\n");
    assert!(instances.exists(&node("b", "")).await.unwrap(), "what was there stays");
    write(file.as_file_mut(), "machines: []\n");
    assert!(!instances.exists(&node("b", "")).await.unwrap());
}

#[tokio::test]
async fn failures_in_the_file_are_errors_of_their_kind() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write(
        file.as_file_mut(),
        "machines: [{name: a}]\nfailures:\n  instanceExists: {kind: instanceNotFound}\n  \
         instanceIsShutDown: {kind: notImplemented}\n  \
         instanceMetadata: {message: not yet, retryAfter: 5s}\n",
    );
    let instances = Simulated::from_file(file.path()).unwrap().cloud().instances.unwrap();
    let a = node("a", "");
    assert!(matches!(instances.exists(&a).await, Err(CloudError::InstanceNotFound)));
    assert!(matches!(instances.is_shut_down(&a).await, Err(CloudError::NotImplemented)));
    let later = instances.metadata(&a).await.unwrap_err();
    assert_eq!((later.to_string().as_str(), later.retry_after()), ("not yet", Some(Duration::from_secs(5))));
}

#[test]
fn mistakes_in_the_file_are_named() {
    #[rustfmt::skip]
    let table = [
        ("machines:\n- {zone: z}\n",                           ":2: machines[0]: a machine needs a name, that of its Node"),
        ("machines:\n- {name: a}\n- {name: a}\n",              ":3: machines[1]: there are two machines \"a\"; names and ids must differ"),
        ("machines: [{name: a}, {name: b, id: a}]\n",          ":1: machines[1]: there are two machines \"b\""),
        ("machines:\n- name: a\n  addresses: [{type: Ip}]\n",  "an address needs type and address, such as {type: InternalIP, address: 10.0.0.1}, not \"Ip\" and \"\""),
        ("machines: 5\n",                                      "expected a list of machines such as {name: node-1}"),
        ("machines: [{name: a, state: asleep}]\n",             "unknown variant `asleep`, expected `running` or `stopped`"),
        ("machines: [{nme: a}]\n",                             "unknown field `nme`"),
        ("loadBalancers: {addresses: []}\n",                   "loadBalancers.addresses needs a range, such as 192.0.2.0/24"),
        ("loadBalancers: {addresses: [10.0.0.1]}\n",           "\"10.0.0.1\" is not a range such as 192.0.2.0/24"),
        ("loadBalancers: {addresses: [10.0.0.0/8], readyAfter: soon}\n", "\"soon\" is not a duration"),
        ("failures: {makeTea: no}\n",                           "unknown variant `makeTea`"),
        ("routes:\n- name: a\n  destination: x\n",             ":3: routes[0].destination: \"x\" is not a range such as 192.0.2.0/24"),
        ("routes: [{node: n}]\n",                               "routes[0] needs a destination, a range such as 10.244.1.0/24"),
    ];
    for (text, want) in table {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write(file.as_file_mut(), text);
        let error = Simulated::from_file(file.path()).err().expect(text);
        let shown = flyball_runtime::Chain(&error).to_string();
        assert!(
            shown.contains(want) && shown.contains(&file.path().display().to_string()),
            "{text}: {shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_takes_its_time_and_then_keeps_its_address() {
    let pool = Pool { ready_after: Duration::from_secs(5), ..Pool::default() };
    let simulated = Simulated::new(Config { load_balancers: Some(pool), ..Config::default() });
    let balancers = simulated.cloud().load_balancers.unwrap();
    let asked = service("u", json!({}), "");
    let early = balancers.ensure("c", &asked, &[]).await.unwrap_err();
    assert_eq!(early.retry_after(), Some(Duration::from_secs(5)));
    tokio::time::advance(Duration::from_secs(5)).await;
    let status = balancers.ensure("c", &asked, &[]).await.unwrap();
    assert_eq!(status.ingress[0].ip, "192.0.2.1");
    assert_eq!(balancers.get("c", &asked).await.unwrap(), Some(status));
    balancers.delete("c", &asked).await.unwrap();
    balancers.delete("c", &asked).await.unwrap();
    assert_eq!(balancers.get("c", &asked).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_meant_to_fail_fails_once_or_as_long_as_the_configuration_says() {
    let simulated = Simulated::new(Config { routes: Some(vec![]), ..Config::default() });
    let routes = simulated.cloud().routes.unwrap();
    simulated.fail(Call::ListRoutes, CloudError::failed("out of order"));
    assert_eq!(routes.list("c").await.unwrap_err().to_string(), "out of order");
    assert_eq!(routes.list("c").await.unwrap(), []);
    let still = Failure::Text("still".to_owned());
    simulated.change(|config| drop(config.failures.insert(Call::ListRoutes, still)));
    assert_eq!(routes.list("c").await.unwrap_err().to_string(), "still");
    assert_eq!(routes.list("c").await.unwrap_err().to_string(), "still");
}
