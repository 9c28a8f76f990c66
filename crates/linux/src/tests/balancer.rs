//! The rules of load balancers, and the plans that bring the kernel to them.

use super::*;

#[test]
fn a_table_has_the_rules_that_its_load_balancers_need() {
    #[rustfmt::skip]
    let table_of = [
        ("two nodes, two protocols", "192.0.2.1 ports=TCP/80,UDP/53 node=10.0.0.1 node=10.0.0.2,fd00::2", "
            @backends: 10.0.0.1 10.0.0.2
            @ports: 53:30080
            @ports: 80:30080
            to-192.0.2.1: dnat ip to numgen random mod 2 map @backends : tcp dport map @ports
            to-192.0.2.1: dnat ip to numgen random mod 2 map @backends : udp dport map @ports"),
        ("session affinity, two families", "192.0.2.1 2001:db8::1 affinity=ClientIP node=10.0.0.2,fd00::2", "
            @backends: 10.0.0.2
            @backends: fd00::2
            @ports: 80:30080
            to-192.0.2.1: dnat ip to jhash ip saddr mod 1 map @backends : tcp dport map @ports
            to-2001_db8__1: dnat ip6 to jhash ip6 saddr mod 1 map @backends : tcp dport map @ports"),
        ("source ranges", "192.0.2.1 sources=10.1.0.0/16,10.1.2.0/24,fd00::/8,10.0.0.0/16 node=10.0.0.1", "
            @backends: 10.0.0.1
            @clients: 10.0.0.0/15
            @from: 192.0.2.1:from-192.0.2.1
            @guarded: 30080
            @nodes: 10.0.0.1
            @ports: 80:30080
            to-192.0.2.1: dnat ip to numgen random mod 1 map @backends : tcp dport map @ports
            from-192.0.2.1: ip saddr @clients accept
            from-192.0.2.1: meta l4proto tcp drop
            from-192.0.2.1: meta l4proto udp drop
            node-ports: tcp dport @guarded drop
            sources: ip daddr vmap @from
            forward: iifname lan ct status & dnat == 0 ip daddr @nodes jump node-ports"),
        ("nobody of this family", "192.0.2.1 sources=fd00::/8", "
            @from: 192.0.2.1:from-192.0.2.1
            @guarded: 30080
            from-192.0.2.1: meta l4proto tcp drop
            from-192.0.2.1: meta l4proto udp drop
            node-ports: tcp dport @guarded drop
            sources: ip daddr vmap @from"),
        ("nodes see clients, and one has no endpoint", "192.0.2.1 local=yes node=10.0.0.1 node=!10.0.0.2", "
            @backends: 10.0.0.1
            @ports: 80:30080
            to-192.0.2.1: dnat ip to numgen random mod 1 map @backends : tcp dport map @ports"),
        ("no node of this family", "2001:db8::1 node=10.0.0.1", ""),
    ];
    // The same for each family that there is: the way to an address's chain, and what is not translated is refused.
    let common = |is_v6: bool, is_hidden: bool| {
        let (chain, family, address) = match is_v6 {
            false => ("to-192.0.2.1", "ip", "192.0.2.1"),
            true => ("to-2001_db8__1", "ip6", "2001:db8::1"),
        };
        let hidden = [
            format!("@hidden-clients: {address}"),
            format!("postrouting: ct status dnat ct original {family} daddr @hidden-clients masquerade"),
        ];
        let others = [
            format!("@to: {address}:{chain}"),
            format!("@held: {address}"),
            format!("services: {family} daddr vmap @to"),
            format!("input: {family} daddr @held meta l4proto tcp reject"),
            format!("input: {family} daddr @held meta l4proto udp reject"),
        ];
        others.into_iter().chain(hidden.into_iter().filter(move |_| is_hidden))
    };
    for (case, text, want) in table_of {
        let balancer = balancer(text);
        let shown = without_digests(&table(&[&balancer]).to_string());
        let mut want: BTreeSet<String> = want.lines().map(|line| line.trim().to_owned()).collect();
        want.remove("");
        for held in &balancer.addresses {
            want.extend(common(held.address.is_ipv6(), !balancer.preserves_client));
        }
        want.extend(["prerouting", "output"].map(|chain| format!("{chain}: jump services")));
        let got: BTreeSet<String> = shown.lines().map(str::to_owned).collect();
        assert_eq!(got, want, "{case}");
    }
    assert!(table(&[]).is_empty());
}

/// The text of a table with the kinds of its sets for their names.
fn without_digests(text: &str) -> String {
    let mut parts = text.split('@');
    let mut shown = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find([' ', ':', '\n']).unwrap();
        let (name, rest) = part.split_at(end);
        shown.extend(["@", name.rsplit_once('-').unwrap().0, rest]);
    }
    shown
}

/// A rule is evaluated for every packet, or every new connection, only in these chains.
#[test]
fn the_rules_that_every_packet_passes_do_not_become_more() {
    let count = |services: u8| {
        let balancers: Vec<Balancer> = (1..=services)
            .map(|number| {
                balancer(&format!("192.0.2.{number} ports=TCP/80,UDP/53 sources=10.1.0.0/16 node=10.0.0.1"))
            })
            .collect();
        let table = table(&balancers.iter().collect::<Vec<_>>());
        let common =
            |chain: &&(String, String)| !(chain.0.starts_with("to-") || chain.0.starts_with("from-"));
        table.texts().iter().filter(common).count()
    };
    assert_eq!(count(1), count(200));
}

#[test]
fn a_plan_changes_what_differs_and_nothing_else() {
    #[rustfmt::skip]
    let plans = [
        // case                       wanted               ours          foreign       table  plan
        ("nothing",                   "",                  "",           "",           false, ""),
        ("new",                       "192.0.2.1",         "",           "",           false, "replace the table with 7 rules, hold 192.0.2.1 on lan, announce 192.0.2.1 on lan"),
        ("settled",                   "192.0.2.1",         "192.0.2.1",  "192.0.2.9",  true,  ""),
        ("the table was flushed",     "192.0.2.1",         "192.0.2.1",  "",           false, "replace the table with 7 rules"),
        ("the address was removed",   "192.0.2.1",         "",           "",           true,  "hold 192.0.2.1 on lan, announce 192.0.2.1 on lan"),
        ("one too many",              "192.0.2.1",         "192.0.2.1 192.0.2.2", "",  true,  "release 192.0.2.2 on lan"),
        ("taken by another",          "192.0.2.1",         "",           "192.0.2.1",  false, ""),
        ("none wanted",               "",                  "192.0.2.1",  "192.0.2.9",  true,  "release 192.0.2.1 on lan, delete the table"),
    ];
    for (case, wanted, ours, foreign, has_table, want) in plans {
        let balancers: Vec<Balancer> =
            wanted.split_whitespace().map(|a| balancer(&format!("{a} node=10.0.0.1"))).collect();
        let balancers: Vec<&Balancer> = balancers.iter().collect();
        let seen = |list: &str, is_ours| -> Vec<SeenAddress> {
            let held = |address: &str| Held { address: address.parse().unwrap(), interface: "lan".into() };
            list.split_whitespace().map(|address| SeenAddress { held: held(address), is_ours }).collect()
        };
        let rules = if wanted.is_empty() {
            vec![("a".to_owned(), "b".to_owned())]
        } else {
            table(&balancers).texts()
        };
        let seen = Seen {
            addresses: [seen(ours, true), seen(foreign, false)].concat(),
            rules: if has_table { rules } else { vec![] },
        };
        let plan = plan(&Wanted { balancers, lifetime: Lifetime::Forever }, &seen);
        let shown: Vec<String> = plan.operations.iter().map(Operation::to_string).collect();
        assert_eq!(shown.join(", "), want, "{case}");
        assert_eq!(plan.conflicts.len(), usize::from(case == "taken by another"), "{case}");
    }
}

#[test]
fn lifetimes_are_renewed_and_shorter_than_the_time_to_the_next_leader() {
    let web = balancer("192.0.2.1 node=10.0.0.1");
    let held = SeenAddress { held: web.addresses[0].clone(), is_ours: true };
    let seen = Seen { addresses: vec![held], rules: table(&[&web]).texts() };
    let election = LeaderElection { leader_elect: true, ..LeaderElection::default() };
    let lifetime = crate::lifetime(&election);
    assert_eq!(lifetime, Lifetime::For(Duration::from_secs(5)));
    let plan = plan(&Wanted { balancers: vec![&web], lifetime }, &seen);
    assert_eq!(plan.operations, [Operation::Hold(web.addresses[0].clone(), lifetime)]);
    assert_eq!(crate::lifetime(&LeaderElection { leader_elect: false, ..election }), Lifetime::Forever);
}

#[test]
fn connections_end_with_their_service_or_their_node() {
    let web = balancer("192.0.2.1 ports=UDP/53 node=10.0.0.1");
    let translated: BTreeSet<IpAddr> = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap()).into();
    #[rustfmt::skip]
    let table = [
        // case                         flow                                stale
        ("served",                      ("192.0.2.1", "udp", 53, "10.0.0.1"), false),
        ("another port",                ("192.0.2.1", "udp", 54, "10.0.0.1"), true),
        ("another protocol",            ("192.0.2.1", "tcp", 53, "10.0.0.1"), true),
        ("a node that is gone",         ("192.0.2.1", "udp", 53, "10.0.0.2"), true),
        ("a Service that is gone",      ("192.0.2.2", "udp", 53, "10.0.0.1"), true),
        ("not through a load balancer", ("10.9.9.9",  "udp", 53, "10.0.0.1"), false),
        ("never was one of ours",       ("192.0.2.3", "udp", 53, "10.0.0.1"), false),
    ];
    for (case, (address, protocol, port, backend), want) in table {
        let protocol =
            if protocol == "udp" { crate::balancer::Protocol::Udp } else { crate::balancer::Protocol::Tcp };
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        let flow = Flow { address: parse(address), protocol, port, backend: parse(backend) };
        assert_eq!(is_stale(&flow, &[&web], &translated), want, "{case}");
    }
}

#[test]
fn source_ranges_may_be_in_the_annotation_if_the_field_is_empty() {
    #[rustfmt::skip]
    let table = [
        (json!([]),              "",                          "Ok([])"),
        (json!([]),              " 10.0.0.0/8, fd00::/8 ",    "Ok([10.0.0.0/8, fd00::/8])"),
        (json!(["10.1.0.0/16"]), "10.0.0.0/8",                "Ok([10.1.0.0/16])"),
        (json!([]),              "10.0.0.0/8,",               "Err(SourceRange(\"\"))"),
    ];
    for (field, annotation, want) in table {
        let mut service = asking(json!({"loadBalancerSourceRanges": field}));
        let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
        service.metadata.annotations = [(key, annotation)].into_iter().collect();
        assert_eq!(format!("{:?}", crate::balancer::sources(&service)), want);
    }
}

#[test]
fn a_node_counts_by_its_last_answer_and_before_the_first_as_the_situation_is() {
    let nodes = [at("a", "10.0.0.1"), at("b", "10.0.0.2"), at("c", "10.0.0.3")].map(Arc::new);
    let local = asking(json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}));
    let mut local = Balancer::new(&local, vec![], &nodes, false).unwrap();
    let health = [("10.0.0.1:31000", true), ("10.0.0.2:31000", false)];
    let health = health.map(|(target, has)| (target.parse().unwrap(), has)).into_iter().collect();
    let mut usable = |unknown| {
        local.set_idle(&health, unknown);
        local.usable_backends().map(|backend| backend.node.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(usable(crate::balancer::Unknown::Idle), "a");
    assert_eq!(usable(crate::balancer::Unknown::Usable), "a c");
}
