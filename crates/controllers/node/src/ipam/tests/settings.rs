use super::{flags, show};
use crate::ipam::settings::parse;

#[test]
fn flags_become_blocks() {
    #[rustfmt::skip]
    let table = [
        // cluster                      sizes         blocks
        ("10.244.0.0/16",               (0, 0, 0),    "256 of 10.244.0.0/24"),
        ("10.244.0.0/16",               (26, 0, 0),   "1024 of 10.244.0.0/26"),
        ("10.244.0.0/16",               (0, 20, 0),   "16 of 10.244.0.0/20"),
        (" 10.244.0.0/24 ",             (0, 0, 0),    "1 of 10.244.0.0/24"),
        ("fd00::/56",                   (0, 0, 0),    "256 of fd00::/64"),
        ("fd00::/56",                   (72, 0, 0),   "65536 of fd00::/72"),
        ("fd00::/56",                   (0, 0, 60),   "16 of fd00::/60"),
        ("10.244.0.0/16,fd00::/48",     (0, 0, 0),    "256 of 10.244.0.0/24, 65536 of fd00::/64"),
        ("fd00::/56,10.244.0.0/16",     (0, 25, 64),  "256 of fd00::/64, 512 of 10.244.0.0/25"),
    ];
    for (cluster, sizes, want) in table {
        let settings = flags(cluster, "", sizes).unwrap();
        let shown: Vec<String> =
            settings.clusters.iter().map(|b| format!("{} of {}", b.total(), b.network(0))).collect();
        assert_eq!(shown.join(", "), want, "{cluster} {sizes:?}");
    }
}

#[test]
fn invalid_flags_are_named() {
    #[rustfmt::skip]
    let table = [
        // cluster                                 services                 sizes          problem
        ("",                                       "",                      (0, 0, 0),     "needs --cluster-cidr"),
        ("10.244.0.0",                             "",                      (0, 0, 0),     "\"10.244.0.0\" is not a range"),
        ("10.0.0.0/16,10.1.0.0/16",                "",                      (0, 0, 0),     "one must be IPv4 and the other IPv6"),
        ("10.0.0.0/16,fd00::/48,fd01::/48",        "",                      (0, 0, 0),     "at most two ranges, not 3"),
        ("10.0.0.0/16,fd00::/48",                  "",                      (24, 0, 0),    "--node-cidr-mask-size cannot be used in a dual-stack"),
        ("10.0.0.0/16",                            "",                      (24, 24, 0),   "--node-cidr-mask-size excludes"),
        ("fd00::/48",                              "",                      (0, 24, 0),    "-ipv4 cannot be used in an IPv6 cluster"),
        ("10.0.0.0/16",                            "",                      (0, 0, 64),    "-ipv6 cannot be used in an IPv4 cluster"),
        ("10.0.0.0/26",                            "",                      (0, 0, 0),     "10.0.0.0/26 is smaller than the /24 of a node"),
        ("10.0.0.0/16",                            "",                      (40, 0, 0),    "a node cannot have a /40"),
        ("10.0.0.0/16",                            "",                      (-1, 0, 0),    "must be the length of a prefix, not -1"),
        ("fd00::/40",                              "",                      (0, 0, 0),     "by at most 16 bits"),
        ("10.0.0.0/16",                            "10.1.0.0/24,10.2.0.0/24", (0, 0, 0),   "--service-cluster-ip-range: of two"),
    ];
    for (cluster, services, sizes, want) in table {
        let problem = flags(cluster, services, sizes).map(|_| ()).expect_err(cluster);
        assert!(problem.contains(want), "{cluster} {sizes:?}: {problem}");
    }
}

#[test]
fn valid_service_cidrs_are_used() {
    for (services, want) in [
        ("", ""),
        ("10.96.0.0/12", "10.96.0.0/12"),
        ("10.96.0.1/12,fd00::/108", "10.96.0.0/12,fd00::/108"),
        ("x", ""),
    ] {
        assert_eq!(show(&flags("10.0.0.0/8", services, (0, 0, 0)).unwrap().services), want);
    }
}

#[test]
fn cidrs_are_parsed_as_leniently_as_the_api_does() {
    for (text, want) in
        [("010.0.004.0/24", "10.0.4.0/24"), ("10.0.0.7/24", "10.0.0.0/24"), ("000.0.0.0/8", "0.0.0.0/8")]
    {
        assert_eq!(parse(text), Some(want.parse().unwrap()), "{text}");
    }
    for text in ["", "10.0.0.0", "10.0.0.0/33", "a/b", "10.0.0/8", "/8"] {
        assert_eq!(parse(text), None, "{text}");
    }
}
