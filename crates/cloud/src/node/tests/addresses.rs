use flyball_api::node::NodeAddress;
use serde_json::json;

use super::node;
use crate::node::addresses::{PROVIDED_IP, patch, wanted};

/// `in:10.0.0.1 ex:1.2.3.4 host:n` as addresses.
fn parse(text: &str) -> Vec<NodeAddress> {
    let types = [("in", "InternalIP"), ("ex", "ExternalIP"), ("host", "Hostname"), ("dns", "InternalDNS")];
    let address = |word: &str| {
        let (short, address) = word.split_once(':').expect("type:address");
        let (_, type_) = types.iter().find(|(name, _)| *name == short).expect("a type");
        NodeAddress { type_: (*type_).into(), address: address.into() }
    };
    text.split_whitespace().map(address).collect()
}

fn show(addresses: &[NodeAddress]) -> String {
    addresses.iter().map(|a| format!("{}={}", a.type_, a.address)).collect::<Vec<_>>().join(" ")
}

#[test]
fn addresses_come_from_the_cloud_in_the_order_that_the_kubelet_prefers() {
    #[rustfmt::skip]
    let table = [
        // case                             the node has                 the cloud says                       wish                  wanted
        ("the cloud knows nothing",         "in:10.0.0.1",               "",                                  "",                   Ok("")),
        ("nothing has changed",             "in:10.0.0.1",               "in:10.0.0.1",                       "",                   Ok("")),
        ("in another order",                "ex:1.1.1.1 in:10.0.0.1",    "in:10.0.0.1 ex:1.1.1.1",            "",                   Ok("")),
        ("two of a type, unchanged",        "in:10.0.0.1 in:fd00:0",     "in:10.0.0.1 in:fd00:0",             "",                   Ok("")),
        ("two of a type, swapped",          "in:10.0.0.1 in:fd00::1",    "in:fd00::1 in:10.0.0.1",            "",                   Ok("in:fd00::1 in:10.0.0.1")),
        ("new",                             "",                          "in:10.0.0.1",                       "",                   Ok("in:10.0.0.1")),
        ("one less",                        "in:10.0.0.1 ex:1.1.1.1",    "in:10.0.0.1",                       "",                   Ok("in:10.0.0.1")),
        ("the kubelet's name is kept",      "host:n",                    "in:10.0.0.1",                       "",                   Ok("in:10.0.0.1 host:n")),
        ("the cloud's name counts",         "host:n",                    "in:10.0.0.1 host:m",                "",                   Ok("in:10.0.0.1 host:m")),
        ("the wish is alone of its type",   "",                          "in:10.0.0.1 in:10.0.0.2 ex:1.1.1.1","10.0.0.2",           Ok("in:10.0.0.2 ex:1.1.1.1")),
        ("the wish is of two types",        "",                          "in:10.0.0.1 ex:10.0.0.1 in:10.0.0.3","10.0.0.1",          Ok("in:10.0.0.1 ex:10.0.0.1")),
        ("a pair",                          "",                          "in:fd00::1 in:10.0.0.1 in:10.0.0.2","10.0.0.2,fd00::1",   Ok("in:10.0.0.2 in:fd00::1")),
        ("leading zeros",                   "",                          "in:010.0.0.1 in:10.0.0.2",          "10.000.0.01",        Ok("in:010.0.0.1")),
        ("too many digits",                 "",                          "in:10.0.0.1",                       "10.0.0.1.0",         Err("failed to parse node IP \"10.0.0.1.0\": could not parse \"10.0.0.1.0\"")),
        ("a number is missing",             "",                          "in:10.0.0.1",                       "10.0..1",            Err("failed to parse node IP \"10.0..1\": could not parse \"10.0..1\"")),
        ("not the machine's",               "",                          "in:10.0.0.1",                       "10.0.0.9",           Err("failed to get node address from cloud provider that matches ip: 10.0.0.9")),
        ("no address",                      "",                          "in:10.0.0.1",                       "host",               Err("failed to parse node IP \"host\": could not parse \"host\"")),
        ("empty",                           "",                          "in:10.0.0.1",                       "-",                  Err("failed to parse node IP \"\": could not parse \"\"")),
        ("a space",                         "",                          "in:10.0.0.1",                       "10.0.0.1, fd00::1",  Err("failed to parse node IP \"10.0.0.1, fd00::1\": could not parse \" fd00::1\"")),
        ("two of a family",                 "",                          "in:10.0.0.1",                       "10.0.0.1,10.0.0.2",  Err("failed to parse node IP \"10.0.0.1,10.0.0.2\": must contain either a single IP or a dual-stack pair of IPs")),
        ("any address",                     "",                          "in:10.0.0.1",                       "10.0.0.1,::",        Err("failed to parse node IP \"10.0.0.1,::\": dual-stack node IP cannot include '0.0.0.0' or '::'")),
    ];
    for (case, has, provided, wish, want) in table {
        let annotations = match wish {
            "" => json!({}),
            "-" => json!({PROVIDED_IP: ""}),
            wish => json!({PROVIDED_IP: wish}),
        };
        let mut node = node("", "", json!({"metadata": {"annotations": annotations}}));
        node.status.addresses = parse(has).into();
        let got = wanted(&node, &parse(provided));
        let got = got.map(|addresses| show(&addresses.unwrap_or_default())).map_err(|e| e.to_string());
        assert_eq!(got, want.map(|text| show(&parse(text))).map_err(str::to_owned), "{case}");
    }
}

#[test]
fn the_patch_replaces_the_list() {
    let node = node("", "", json!({"metadata": {"resourceVersion": "7"}}));
    assert_eq!(
        patch(&node, &parse("in:10.0.0.1")),
        json!({
            "metadata": {"resourceVersion": "7"},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"$patch": "replace"}]},
        })
    );
}
