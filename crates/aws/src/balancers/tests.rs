//! Tables: what a Service asks for, and the steps to it.

use flyball_cloud::conformance::{node, service};
use flyball_runtime::Metrics;
use serde_json::{Value, json};

use super::plan::*;
use super::*;
use crate::query::{Api, EC2, ELB};

fn asking(spec: Value, annotations: Value) -> Service {
    let mut service = service("web", &["IPv4"]);
    let mut whole = serde_json::to_value(&service).unwrap()["spec"].clone();
    for (name, value) in spec.as_object().unwrap() {
        whole[name] = value.clone();
    }
    service.spec = serde_json::from_value(whole).unwrap();
    service.metadata.annotations = serde_json::from_value(annotations).unwrap();
    service
}

fn nodes(ids: &[&str]) -> Vec<Arc<Node>> {
    ids.iter().map(|id| Arc::new(node(id, &format!("aws:///eu-central-1a/{id}")))).collect()
}

fn wanted(spec: Value, machines: &[&str]) -> Wanted {
    Wanted::new(&asking(spec, json!({})), &nodes(machines), &config::LoadBalancers::default()).unwrap()
}

#[test]
fn what_cannot_be_done_is_refused_and_says_what_can() {
    let port = |protocol: &str, port: i32, node_port: i32| json!({"protocol": protocol, "port": port, "nodePort": node_port});
    let none = json!({});
    #[rustfmt::skip]
    let table = [
        (json!({"ports": [port("SCTP", 80, 30080)]}),                             none.clone(), "port 80: protocol SCTP is not supported, only TCP and UDP are"),
        (json!({"ports": [port("TCP", 80, 0)]}),                                  none.clone(), "port 80 has no node port"),
        (json!({"ports": [port("TCP", 53, 30053), port("UDP", 53, 30054)]}),      none.clone(), "port 53 has different node ports for TCP and UDP"),
        (json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}),                     none.clone(), "loadBalancerSourceRanges is not supported"),
        (json!({"loadBalancerIP": "192.0.2.1"}),                                  none.clone(), "loadBalancerIP is not supported"),
        (json!({"ipFamilies": ["IPv6"]}),                                         none,         "IPv6 alone is not supported; ipFamilies must have IPv4"),
        (json!({}),                                                               json!({SCHEME: "public"}), "the annotation service.beta.kubernetes.io/aws-load-balancer-scheme is \"public\"; it must be"),
    ];
    for (spec, annotations, want) in table {
        let error =
            Wanted::new(&asking(spec, annotations), &[], &config::LoadBalancers::default()).unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
    }
    let open =
        wanted(json!({"loadBalancerSourceRanges": ["0.0.0.0/0"], "ipFamilies": ["IPv6", "IPv4"]}), &[]);
    assert_eq!(open.ports.len(), 1);
}

#[test]
fn a_service_says_ports_health_check_scheme_and_affinity() {
    let both = json!({"ports": [
        {"protocol": "UDP", "port": 53, "nodePort": 30053}, {"protocol": "TCP", "port": 53, "nodePort": 30053},
        {"protocol": "TCP", "port": 443, "nodePort": 30443},
    ], "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "sessionAffinity": "ClientIP"});
    let mut service = asking(both, json!({SCHEME: "internal"}));
    service.metadata.uid = "7f1f7a3e-86a5-4a38-8b32-0123456789ab".into();
    let nodes = [nodes(&["i-1"]), vec![Arc::new(node("b", "")), Arc::new(node("c", "gce://x/y/z"))]].concat();
    let wanted = Wanted::new(&service, &nodes, &config::LoadBalancers::default()).unwrap();
    let shown: Vec<String> =
        wanted.ports.iter().map(|p| format!("{} {} {}", p.protocol.name(), p.port, p.node_port)).collect();
    assert_eq!(shown, ["TCP_UDP 53 30053", "TCP 443 30443"]);
    assert_eq!(wanted.machines, BTreeSet::from(["i-1".into()]));
    assert_eq!(wanted.health, Health { port: 31000, path: "/healthz".into() });
    assert_eq!((wanted.scheme, wanted.is_sticky), (Scheme::Internal, true));
    let names: Vec<SmolStr> = plan(&wanted, &Observed::default())
        .into_iter()
        .filter_map(|step| match step {
            Step::CreateGroup { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["a7f1f7a3e86a54a388b3-53-both", "a7f1f7a3e86a54a388b3-443-tcp"]);
    assert!(names.iter().all(|name| name.len() <= 32 && name.starts_with(&group_prefix(&wanted.name))));
}

/// The state after all steps are done, as AWS would do them.
fn after(wanted: &Wanted, mut observed: Observed, steps: &[Step]) -> Observed {
    let arn = |name: &SmolStr| format!("arn/{name}");
    for step in steps {
        let mut change = |name: &SmolStr, change: &dyn Fn(&mut Group)| {
            let group = observed.groups.iter_mut().find(|group| group.name == *name);
            change(group.expect("a step names a group that is there"));
        };
        match step {
            Step::CreateGroup { name, .. } => observed.groups.push(Group {
                arn: arn(name),
                name: name.clone(),
                health: Some(wanted.health.clone()),
                ..Group::default()
            }),
            Step::SetHealth { group } => change(group, &|group| group.health = Some(wanted.health.clone())),
            Step::SetSticky { group, is_sticky } => change(group, &|group| group.is_sticky = *is_sticky),
            Step::Register { group, targets } => {
                change(group, &|group| group.targets.extend(targets.iter().cloned()))
            }
            Step::Deregister { group, targets } => {
                change(group, &|group| group.targets.retain(|target| !targets.contains(target)));
            }
            Step::DeleteListener { arn } => observed.listeners.retain(|listener| listener.arn != *arn),
            Step::CreateListener { protocol, port, group } => {
                assert!(observed.listeners.iter().all(|listener| listener.port != *port), "{port} is taken");
                let arn = format!("listener/{port}");
                let group = format!("arn/{group}");
                observed.listeners.push(Listener { arn, port: *port, protocol: *protocol, group });
            }
            Step::ModifyListener { arn, group } => {
                let listener = observed.listeners.iter_mut().find(|listener| listener.arn == *arn);
                listener.unwrap().group = format!("arn/{group}");
            }
            Step::DeleteGroup { group } => {
                let arn = arn(group);
                assert!(observed.listeners.iter().all(|listener| listener.group != arn), "{group} is in use");
                observed.groups.retain(|other| other.name != *group);
            }
        }
    }
    observed
}

fn named(steps: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::CreateGroup { name, .. } => format!("create {name}"),
        Step::SetHealth { group } => format!("check {group}"),
        Step::SetSticky { group, is_sticky } => format!("sticky {is_sticky} {group}"),
        Step::Register { group, targets } => format!("register {} in {group}", shown(targets)),
        Step::Deregister { group, targets } => format!("deregister {} from {group}", shown(targets)),
        Step::DeleteListener { arn } => format!("delete {arn}"),
        Step::CreateListener { protocol, port, group } => {
            format!("listen {} {port} for {group}", protocol.name())
        }
        Step::ModifyListener { arn, group } => format!("forward {arn} to {group}"),
        Step::DeleteGroup { group } => format!("delete {group}"),
    };
    steps.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn shown(targets: &[Target]) -> String {
    targets.iter().map(|target| format!("{}:{}", target.instance, target.port)).collect::<Vec<_>>().join("+")
}

/// What a Service asks for, and the machines of its nodes.
type Asked<'a> = (Value, &'a [&'a str]);

#[test]
fn the_steps_close_the_gap_in_an_order_in_which_no_connection_is_lost() {
    let port = |protocol: &str, port: i32, node_port: i32| json!({"protocol": protocol, "port": port, "nodePort": node_port});
    let web = |ports: Value| json!({"ports": ports});
    let (http, other) = (port("TCP", 80, 30080), port("TCP", 81, 30081));
    #[rustfmt::skip]
    let table: [(&str, Asked<'_>, Asked<'_>, &str); 8] = [
        // case                     before                                        after                                                    steps
        ("settled",                  (web(json!([http])), &["i-1"]),               (web(json!([http])), &["i-1"]),                          ""),
        ("another node",             (web(json!([http])), &["i-1"]),               (web(json!([http])), &["i-2"]),                          "register i-2:30080 in G-80-tcp, deregister i-1:30080 from G-80-tcp"),
        ("another node port",        (web(json!([http])), &["i-1"]),               (web(json!([port("TCP", 80, 30099)])), &["i-1"]),        "register i-1:30099 in G-80-tcp, deregister i-1:30080 from G-80-tcp"),
        ("one port more",            (web(json!([http])), &["i-1"]),               (web(json!([http, other])), &["i-1"]),                   "create G-81-tcp, register i-1:30081 in G-81-tcp, listen TCP 81 for G-81-tcp"),
        ("one port less",            (web(json!([http, other])), &["i-1"]),        (web(json!([http])), &["i-1"]),                          "delete listener/81, delete G-81-tcp"),
        ("another protocol",         (web(json!([http])), &["i-1"]),               (web(json!([port("UDP", 80, 30080)])), &["i-1"]),        "create G-80-udp, register i-1:30080 in G-80-udp, delete listener/80, listen UDP 80 for G-80-udp, delete G-80-tcp"),
        ("health check and affinity", (web(json!([http])), &["i-1"]),              (json!({"ports": [http], "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "sessionAffinity": "ClientIP"}), &["i-1"]), "check G-80-tcp, sticky true G-80-tcp"),
        ("no node at all",           (web(json!([http])), &["i-1"]),               (web(json!([http])), &[]),                               "deregister i-1:30080 from G-80-tcp"),
    ];
    for (case, (before, old), (spec, new), want) in table {
        let was = wanted(before, old);
        let made = plan(&was, &Observed::default());
        let observed = after(&was, Observed::default(), &made);
        let wanted = wanted(spec, new);
        let steps = plan(&wanted, &observed);
        assert_eq!(named(&steps).replace("aconformanceweb", "G"), want, "{case}");
        let settled = after(&wanted, observed, &steps);
        assert_eq!(plan(&wanted, &settled), [], "{case}: a second plan has nothing to do");
        let gone = after(&wanted, settled.clone(), &plan_deletion(&settled));
        assert_eq!(gone, Observed::default(), "{case}");
    }
}

#[test]
fn a_plan_goes_on_where_the_last_one_was_interrupted() {
    let ports = json!({"ports": [
        {"protocol": "TCP", "port": 80, "nodePort": 30080}, {"protocol": "UDP", "port": 53, "nodePort": 30053},
    ], "sessionAffinity": "ClientIP"});
    let was = wanted(json!({}), &["i-1"]);
    let start = after(&was, Observed::default(), &plan(&was, &Observed::default()));
    let wanted = wanted(ports, &["i-2"]);
    let steps = plan(&wanted, &start);
    for done in 0..steps.len() {
        let halfway = after(&wanted, start.clone(), &steps[..done]);
        let rest = plan(&wanted, &halfway);
        assert_eq!(named(&rest), named(&steps[done..]), "after {done} steps");
    }
}

#[test]
fn a_load_balancer_gets_one_subnet_of_each_zone() {
    let subnet = |(id, zone): (&str, &str)| Subnet { id: id.into(), zone: zone.into() };
    let subnets = [("subnet-1", "a"), ("subnet-2", "b"), ("subnet-3", "a")].map(subnet);
    assert_eq!(one_for_each_zone(subnets.into()), ["subnet-1", "subnet-2"]);
}

#[test]
fn a_load_balancer_that_is_not_ready_yet_asks_for_a_retry_and_one_that_failed_says_why() {
    #[rustfmt::skip]
    let table = [
        // state            outcome
        ("active",          "ok web.example"),
        ("active_impaired", "ok web.example"),
        ("provisioning",    "after 10s: AWS is making the load balancer aweb"),
        ("failed",          "the load balancer aweb is failed: no addresses"),
    ];
    for (state, want) in table {
        let balancer = Balancer {
            arn: "arn".to_owned(),
            host: "web.example".into(),
            scheme: "internal".to_owned(),
            state: state.to_owned(),
            reason: "no addresses".to_owned(),
        };
        let shown = match ready("aweb", &balancer) {
            Ok(status) => format!("ok {}", status.ingress[0].hostname),
            Err(error) => match error.retry_after() {
                Some(after) => format!("after {after:?}: {error}"),
                None => error.to_string(),
            },
        };
        assert_eq!(shown, want);
    }
}

#[tokio::test]
async fn a_target_group_that_is_still_in_use_is_deleted_later_and_the_load_balancer_after_it() {
    let answer =
        |action: &str, inside: &str| format!("200 OK|<R><{action}Result>{inside}</{action}Result></R>");
    let tagged = |arn: &str| {
        let tag = "<Tags><member><Key>kubernetes.io/cluster/test</Key><Value>owned</Value></member></Tags>";
        let thing = format!("<member><ResourceArn>{arn}</ResourceArn>{tag}</member>");
        answer("DescribeTags", &format!("<TagDescriptions>{thing}</TagDescriptions>"))
    };
    let balancer = "<LoadBalancers><member><LoadBalancerArn>lb</LoadBalancerArn></member></LoadBalancers>";
    let group = "<TargetGroups><member><TargetGroupArn>tg</TargetGroupArn>\
                 <TargetGroupName>aconformanceweb-80-tcp</TargetGroupName></member></TargetGroups>";
    let answers = [
        answer("DescribeLoadBalancers", balancer),
        tagged("lb"),
        answer("DescribeListeners", ""),
        answer("DescribeTargetGroups", group),
        tagged("tg"),
        "400 Bad|<E><Error><Code>ResourceInUse</Code><Message>in use</Message></Error></E>".to_owned(),
    ];
    let server = crate::tests::fake::serving(&answers).await;
    let text = format!(
        "region: eu-central-1\nvpc: vpc-0a\nendpoints: {{ec2: '{0}', elasticloadbalancing: '{0}'}}\n",
        server.address
    );
    let config: config::Config = flyball_cloud::kit::parse(&text).unwrap();
    let api = |dialect| Api::new(config.http(dialect, &Metrics::default()).unwrap(), dialect, Arc::default());
    let balancers = NetworkBalancers {
        elb: Elb::new(api(&ELB)),
        ec2: Ec2::new(api(&EC2), &config),
        settings: config::LoadBalancers::default(),
    };
    let error = balancers.delete("test", &service("web", &["IPv4"])).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(IN_USE), "{error}");
    assert_eq!(error.to_string(), "the target group aconformanceweb-80-tcp is still in use");
    let last = server.seen.lock().last().cloned().unwrap();
    assert!(last.contains("Action=DeleteTargetGroup") && last.ends_with("&TargetGroupArn=tg"), "{last}");
}
