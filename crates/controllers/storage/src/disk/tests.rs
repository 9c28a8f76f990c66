use flyball_api::PersistentVolume;
use flyball_api::pod::Pod;
use serde_json::{Value, json};

use super::{Attacher, Disk, DriverVolume, Source, flex_name, is_attachment_name, is_name_of};

fn volume(spec: Value) -> PersistentVolume {
    serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap()
}

#[test]
fn a_driver_volume_has_names() {
    let volume = DriverVolume { driver: "csi.example.com".into(), handle: "handle-1".into() };
    assert_eq!(volume.name(), "kubernetes.io/csi/csi.example.com^handle-1");
    assert_eq!(DriverVolume::named(&volume.name()), Some(volume.clone()));
    // As recorded from upstream.
    let name = "csi-082d7726858bfc5c29bd81a1cab468c6e36e3038241364bd5648f760fb60e108";
    assert_eq!(volume.attachment("node-1"), name);
    let odd = DriverVolume { driver: "d".into(), handle: "a^b".into() };
    assert_eq!(DriverVolume::named(&odd.name()), Some(odd));
    for other in
        ["kubernetes.io/iscsi/x", "kubernetes.io/csi/d", "kubernetes.io/csi/d^", "kubernetes.io/csi/^a"]
    {
        assert_eq!(DriverVolume::named(other), None, "{other}");
    }
}

#[test]
fn volumes_of_in_tree_plugins_are_read_as_those_of_drivers() {
    let zoned = |zones: &str| {
        let mut volume =
            volume(json!({"gcePersistentDisk": {"pdName": "d"}, "accessModes": ["ReadOnlyMany"]}));
        volume.metadata.labels = [("topology.kubernetes.io/zone", zones)].into_iter().collect();
        volume
    };
    let plain = |source: Value| {
        let mut spec = source;
        spec["accessModes"] = json!(["ReadWriteOnce"]);
        spec["claimRef"] = json!({"namespace": "team", "name": "claim"});
        volume(spec)
    };
    #[rustfmt::skip]
    let table = [
        (plain(json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})),                   Some("csi/ebs.csi.aws.com^vol-1")),
        (plain(json!({"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/vol-2"}})),  Some("csi/ebs.csi.aws.com^vol-2")),
        (plain(json!({"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/disk"}})),   None),
        (plain(json!({"gcePersistentDisk": {"pdName": "d"}})),                            Some("csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d")),
        (zoned("europe-west1-b"),                                                         Some("csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/europe-west1-b/disks/d")),
        (zoned("europe-west1-b__europe-west1-c"),                                         Some("csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/regions/europe-west1/disks/d")),
        (zoned("europe-west1-b__us-east1-c"),                                             None),
        (zoned("here__there"),                                                            None),
        (plain(json!({"cinder": {"volumeID": "c"}})),                                     Some("csi/cinder.csi.openstack.org^c")),
        (plain(json!({"portworxVolume": {"volumeID": "p"}})),                             Some("csi/pxd.portworx.com^p")),
        (plain(json!({"azureDisk": {"diskName": "n", "diskURI": "/subscriptions/x"}})),   Some("csi/disk.csi.azure.com^/subscriptions/x")),
        (plain(json!({"azureDisk": {"diskURI": "/x", "kind": "Shared"}})),                None),
        (plain(json!({"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "s"}})), Some("csi/file.csi.azure.com^#acc#s#pv#team")),
        (plain(json!({"azureFile": {"secretName": "mine", "shareName": "s", "secretNamespace": "o"}})),     Some("csi/file.csi.azure.com^#mine#s#pv#o")),
        (plain(json!({"vsphereVolume": {"volumePath": "[ds] v.vmdk"}})),                  Some("csi/csi.vsphere.vmware.com^[ds] v.vmdk")),
        (plain(json!({"iscsi": {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.a:b", "lun": 2}})), Some("iscsi/1.2.3.4:3260:iqn.a:b:2")),
        (plain(json!({"fc": {"targetWWNs": ["5000", "5001"], "lun": 3}})),                Some("fc/[5000 5001]:3")),
        (plain(json!({"fc": {"wwids": ["3600"]}})),                                       Some("fc/[3600]")),
        (plain(json!({"fc": {"targetWWNs": ["5000"]}})),                                  None),
        (plain(json!({"hostPath": {"path": "/data"}})),                                   None),
        (plain(json!({"nfs": {"server": "s", "path": "/"}})),                             None),
    ];
    for (volume, want) in table {
        let disk = Disk::of_volume(&volume);
        let name = disk.as_ref().map(|disk| disk.name.as_str());
        assert_eq!(name, want.map(|name| format!("kubernetes.io/{name}")).as_deref());
        assert!(disk.is_none_or(|disk| disk.title == "pv"));
    }
}

#[test]
fn access_modes_decide_whether_a_disk_can_be_shared() {
    let csi = || json!({"csi": {"driver": "d", "volumeHandle": "h"}});
    let pd = || json!({"gcePersistentDisk": {"pdName": "d"}});
    #[rustfmt::skip]
    let table = [
        (csi(), json!([]),                                  false),
        (csi(), json!(["ReadWriteOnce"]),                   true),
        (csi(), json!(["ReadWriteOncePod"]),                true),
        (csi(), json!(["ReadWriteOnce", "ReadOnlyMany"]),   false),
        (csi(), json!(["ReadWriteMany"]),                   false),
        (pd(),  json!(["ReadOnlyMany"]),                    false),
        (pd(),  json!(["ReadWriteMany"]),                   true),
        (pd(),  json!(["ReadWriteOnce", "ReadOnlyMany"]),   true),
    ];
    for (mut spec, modes, want) in table {
        spec["accessModes"] = modes.clone();
        assert_eq!(Disk::of_volume(&volume(spec)).unwrap().is_exclusive, want, "{modes}");
    }
}

#[test]
fn an_inline_disk_becomes_the_spec_of_a_driver_volume() {
    let disk = |volume: Value| {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"namespace": "team"}, "spec": {"volumes": [volume]}}))
                .unwrap();
        Disk::of_inline("team", pod.spec.volumes.first()?)
    };
    let found = disk(
        json!({"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4", "partition": 2}}),
    );
    let found = found.unwrap();
    assert_eq!((found.title.as_str(), found.is_exclusive), ("ebs.csi.aws.com-vol-1", true));
    let Attacher::Driver { source: Source::Inline(spec), is_migrated: true, .. } = found.attacher else {
        panic!()
    };
    assert_eq!(
        spec,
        json!({
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4",
                    "volumeAttributes": {"partition": "2"}},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
        })
    );

    let found =
        disk(json!({"name": "v", "azureFile": {"secretName": "mine", "shareName": "s", "readOnly": true}}));
    let found = found.unwrap();
    assert_eq!((found.title.as_str(), found.is_exclusive), ("#mine#s#v#team", false));
    let found = disk(json!({"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": true}})).unwrap();
    assert_eq!((found.title.as_str(), found.is_exclusive), ("pd.csi.storage.gke.io-d", false));
    let found = disk(json!({"name": "v", "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}})).unwrap();
    assert_eq!((found.title.as_str(), &found.attacher), ("v", &Attacher::Node));
    assert_eq!(
        disk(json!({"name": "v", "csi": {"driver": "inline.example"}})),
        None,
        "not attached, only mounted"
    );
    assert_eq!(disk(json!({"name": "v", "cinder": {"volumeID": 7}})), None, "not readable");
}

#[test]
fn the_disk_of_a_volume_that_is_gone_is_known_by_its_attachment() {
    let disk = DriverVolume { driver: "d.example".into(), handle: "h".into() };
    let orphan = disk.attachment("n1");
    assert!(is_attachment_name(&orphan) && !is_attachment_name("csi-x") && !is_attachment_name(&disk.name()));
    #[rustfmt::skip]
    let table = [
        // case                      name                        disk            node   is it
        ("by its name",              disk.name(),                disk.name(),    "n1",  true),
        ("by its attachment",        disk.name(),                orphan.clone(), "n1",  true),
        ("attached to another node", disk.name(),                orphan.clone(), "n2",  false),
        ("another disk",             "kubernetes.io/csi/d.example^i".into(), orphan, "n1", false),
    ];
    for (case, name, disk, node, want) in table {
        assert_eq!(is_name_of(&name, &disk, node), want, "{case}");
    }
}

#[test]
fn a_flex_volume_has_the_name_of_its_driver_and_volume() {
    let source =
        json!({"driver": "example.com/lvm", "fsType": "ext4", "readOnly": true, "options": {"size": "1T"}});
    let disk =
        Disk::of_volume(&volume(json!({"flexVolume": source, "accessModes": ["ReadWriteOnce"]}))).unwrap();
    assert_eq!((disk.name.as_str(), disk.is_exclusive), ("example.com/lvm/pv", true));
    let options = |disk: &Disk| json!(disk.flex().unwrap().options()).to_string();
    let want = |access: &str| {
        format!(
            "{{\"kubernetes.io/fsType\":\"ext4\",\"kubernetes.io/pvOrVolumeName\":\"pv\",\
             \"kubernetes.io/readwrite\":\"{access}\",\"size\":\"1T\"}}"
        )
    };
    assert_eq!(options(&disk), want("rw"), "the pod's volume decides");
    assert_eq!(options(&disk.read_only(true)), want("ro"));

    let inline = json!({"name": "v", "flexVolume": {"driver": "lvm", "readOnly": true, "options": null}});
    let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"volumes": [inline]}})).unwrap();
    let disk = Disk::of_inline("team", &pod.spec.volumes[0]).unwrap();
    assert_eq!((disk.name.as_str(), disk.title.as_str(), disk.is_exclusive), ("lvm/v", "v", false));
    assert_eq!(disk.flex().unwrap().options()["kubernetes.io/readwrite"], "ro");
    assert_eq!(Disk::of_volume(&volume(json!({"flexVolume": {"driver": ""}}))), None);

    #[rustfmt::skip]
    let table = [
        ("example.com/lvm/pv",            Some(("example.com/lvm", "pv"))),
        ("lvm/v",                         Some(("lvm", "v"))),
        ("kubernetes.io/lvm/pv",          Some(("kubernetes.io/lvm", "pv"))),
        ("kubernetes.io/csi/d^h",         None),
        ("kubernetes.io/iscsi/p:iqn/x:1", None),
        ("kubernetes.io/fc/[a]:1",        None),
        ("pv",                            None),
    ];
    for (name, want) in table {
        assert_eq!(flex_name(name), want, "{name}");
    }
}
