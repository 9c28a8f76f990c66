use crate::resourcequota::names::{OfDeviceClaims, OfPods, OfServices, OfVolumeClaims, counts_of};

#[test]
fn every_name_measures_its_objects() {
    #[rustfmt::skip]
    let table = [
        // word                                             measures
        ("pods",                                            "pods Living"),
        ("count/pods",                                      "pods Objects"),
        ("cpu",                                             "pods Requests(\"cpu\")"),
        ("requests.cpu",                                    "pods Requests(\"cpu\")"),
        ("limits.cpu",                                      "pods Limits(\"cpu\")"),
        ("limits.memory",                                   "pods Limits(\"memory\")"),
        ("ephemeral-storage",                               "pods Requests(\"ephemeral-storage\")"),
        ("limits.ephemeral-storage",                        "pods Limits(\"ephemeral-storage\")"),
        ("hugepages-2Mi",                                   "pods Requests(\"hugepages-2Mi\")"),
        ("requests.hugepages-2Mi",                          "pods Requests(\"hugepages-2Mi\")"),
        ("limits.hugepages-2Mi",                            ""),
        ("requests.example.com/gpu",                        "pods Requests(\"example.com/gpu\"), devices Extended(\"example.com/gpu\")"),
        ("example.com/gpu",                                 ""),
        ("limits.example.com/gpu",                          ""),
        ("requests.kubernetes.io/batteries",                ""),
        ("services",                                        "services Objects"),
        ("count/services",                                  "services Objects"),
        ("services.nodeports",                              "services NodePorts"),
        ("services.loadbalancers",                          "services LoadBalancers"),
        ("persistentvolumeclaims",                          "claims of None"),
        ("count/persistentvolumeclaims",                    "claims of None"),
        ("requests.storage",                                "bytes of None"),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", "claims of Some(\"gold\")"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "bytes of Some(\"gold\")"),
        ("gold.storageclass.storage.k8s.io/requests.cpu",   ""),
        ("gold.storageclass.storage.k8s.io/count/persistentvolumeclaims", ""),
        ("count/resourceclaims.resource.k8s.io",            "devices Objects"),
        ("gpu.deviceclass.resource.k8s.io/devices",         "devices Devices(\"gpu\")"),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "pods Requests(\"deviceclass.resource.kubernetes.io/gpu\"), devices Implied(\"gpu\")"),
        ("count/deployments.apps",                          ""),
    ];
    for (word, want) in table {
        let found = [
            OfPods::parse(word).map(|of| format!("pods {of:?}")),
            OfServices::parse(word).map(|of| format!("services {of:?}")),
            OfVolumeClaims::parse(word)
                .map(|of| format!("{} of {:?}", if of.bytes { "bytes" } else { "claims" }, of.class)),
            OfDeviceClaims::parse(word).map(|of| format!("devices {of:?}")),
        ];
        assert_eq!(found.into_iter().flatten().collect::<Vec<_>>().join(", "), want, "{word}");
    }
}

#[test]
fn all_objects_can_be_counted_some_under_two_names() {
    assert_eq!(counts_of("", "secrets"), ["secrets", "count/secrets"]);
    assert_eq!(counts_of("", "endpoints"), ["count/endpoints"]);
    assert_eq!(counts_of("apps", "deployments"), ["count/deployments.apps"]);
    assert_eq!(counts_of("example.com", "secrets"), ["count/secrets.example.com"]);
}
