use super::node;
use crate::Metadata;
use crate::node::labels::{Ignored, drifted, initial};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn ga_labels_follow_their_beta_twins() {
    #[rustfmt::skip]
    let table = [
        // case                     labels                                                                   set
        ("neither",                 String::new(),                                                           vec![]),
        ("both agree",              format!("{BETA_ZONE}=a {ZONE}=a"),                                       vec![]),
        ("the beta one counts",     format!("{BETA_ZONE}=a {ZONE}=b"),                                       vec![(ZONE, "a")]),
        ("the GA one is missing",   format!("{BETA_ZONE}=a"),                                                vec![(ZONE, "a")]),
        ("the beta one is missing", format!("{ZONE}=b"),                                                     vec![]),
        ("three at once",           format!("{BETA_ZONE}=a failure-domain.beta.kubernetes.io/region=r beta.kubernetes.io/instance-type=t"),
            vec![("node.kubernetes.io/instance-type", "t"), ("topology.kubernetes.io/region", "r"), (ZONE, "a")]),
    ];
    for (case, labels, want) in table {
        let node = node(&labels, "", serde_json::json!({}));
        let set = drifted(&node.metadata.labels);
        let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (*key, value.as_str())).collect();
        assert_eq!(set, want, "{case}");
    }
}

#[test]
fn a_cloud_may_add_labels_but_not_those_of_kubernetes_and_change_none() {
    #[rustfmt::skip]
    let table = [
        // case                        the cloud's                    the node's     set                     ignored
        ("a new one",                  "example.com/rack=7",          "",            "example.com/rack=7",   None),
        ("one that is there",          "rack=7",                      "rack=7",      "",                     None),
        ("one that says otherwise",    "rack=7",                      "rack=8",      "",                     Some(Ignored::OtherValue)),
        ("kubernetes.io",              "kubernetes.io/role=x",        "",            "",                     Some(Ignored::OfKubernetes)),
        ("k8s.io",                     "k8s.io/role=x",               "",            "",                     Some(Ignored::OfKubernetes)),
        ("below kubernetes.io",        "node.kubernetes.io/x=y",      "",            "",                     Some(Ignored::OfKubernetes)),
        ("below k8s.io",               "a.b.k8s.io/x=y",              "",            "",                     Some(Ignored::OfKubernetes)),
        ("merely alike",               "notk8s.io/x=y",               "",            "notk8s.io/x=y",        None),
        ("merely beginning alike",     "k8s.io.example.com/x=y",      "",            "k8s.io.example.com/x=y", None),
        ("in the name",                "example.com/k8s.io=y",        "",            "example.com/k8s.io=y", None),
        ("no namespace",               "kubernetes.io=y",             "",            "kubernetes.io=y",      None),
    ];
    for (case, given, present, want, ignored) in table {
        let node = node(present, "", serde_json::json!({}));
        let pairs = given.split_whitespace().filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(key, value)| (key.into(), value.into())).collect();
        let initial = initial(&Metadata { labels, ..Metadata::default() }, &node.metadata.labels);
        let set: Vec<String> = initial.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(set.join(" "), want, "{case}");
        let whys: Vec<Ignored> = initial.ignored.iter().map(|(_, why)| *why).collect();
        assert_eq!(whys, Vec::from_iter(ignored), "{case}");
    }
}
