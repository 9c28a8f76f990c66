use super::*;
use crate::{KUBE_CONTROLLER_MANAGER, flags::Invocation};

fn parsed(arguments: &[&str]) -> Parsed {
    match KUBE_CONTROLLER_MANAGER.parse(arguments).unwrap() {
        Invocation::Run(parsed) => *parsed,
        other => panic!("{other:?}"),
    }
}

fn problems(arguments: &[&str]) -> Vec<String> {
    prepare(parsed(arguments)).err().unwrap_or_default()
}

#[test]
fn a_command_line_as_kubeadm_writes_it_is_accepted() {
    let arguments = [
        "--allocate-node-cidrs=true",
        "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--leader-elect=true",
        "--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt",
        "--root-ca-file=/etc/kubernetes/pki/ca.crt",
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--use-service-account-credentials=true",
    ];
    let prepared = prepare(parsed(&arguments)).unwrap();
    let names: Vec<&str> = prepared.controllers.iter().map(|c| c.name).collect();
    assert!(
        names.contains(&"replicaset-controller") && names.contains(&"serviceaccount-controller"),
        "{names:?}"
    );
    assert_eq!(
        prepared.options.config.generic.controllers,
        ["*", "bootstrap-signer-controller", "token-cleaner-controller"]
    );
    assert_eq!(prepared.flagz["controllers"], "[*,bootstrapsigner,tokencleaner]");
}

#[test]
fn mistakes_are_named_one_line_each() {
    #[rustfmt::skip]
    let table: &[(&[&str], &[&str])] = &[
        (&["--cloud-provider=aws"],
            &["--cloud-provider must be empty or \"external\", not \"aws\": there are no built-in providers"]),
        (&["--cloud-provider=external"], &[]),
        (&["--cidr-allocator-type=CloudAllocator"],
            &["--cidr-allocator-type must be \"RangeAllocator\", not \"CloudAllocator\""]),
        (&["--feature-gates=Nope=true"], &["--feature-gates: there is no feature gate \"Nope\""]),
        (&["--controllers=nope"], &["--controllers: there is no controller \"nope\""]),
        (&["--leader-elect-lease-duration=10s", "--secure-port=70000"], &[
            "--leader-elect-lease-duration (10s) must be longer than --leader-elect-renew-deadline (10s)",
            "--secure-port must be between 0 and 65535, not 70000"]),
        (&["--leader-elect-lease-duration=10s", "--leader-elect=false"], &[]),
        (&["--concurrent-job-syncs=0"], &["--concurrent-job-syncs must be at least 1, not 0"]),
        (&["--concurrent-deployment-syncs=0"], &[]),
        (&["--concurrent-service-endpoint-syncs=51"], &["--concurrent-service-endpoint-syncs must be at most 50, not 51"]),
        (&["--attach-detach-reconcile-sync-period=900ms"], &["--attach-detach-reconcile-sync-period must be at least one second"]),
        (&["--cluster-signing-kubelet-client-cert-file=a"],
            &["--cluster-signing-kubelet-client-cert-file and --cluster-signing-kubelet-client-key-file must be given together"]),
        (&["--cluster-signing-cert-file=a", "--cluster-signing-legacy-unknown-cert-file=b", "--cluster-signing-legacy-unknown-key-file=c"],
            &["--cluster-signing-cert-file and --cluster-signing-key-file exclude the files of single signers"]),
        (&["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/99"], &["--cluster-cidr: \"10.0.0.0/99\" is not a range such as 10.244.0.0/16"]),
        (&["--cluster-cidr=nonsense"], &[]),
        (&["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16,10.1.0.0/16"], &["--cluster-cidr: of two ranges one must be IPv4 and the other IPv6"]),
        (&["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16,fd00::/48", "--node-cidr-mask-size=24"],
            &["--node-cidr-mask-size cannot be used in a dual-stack cluster"]),
        (&["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", "--node-cidr-mask-size-ipv6=64"],
            &["--node-cidr-mask-size-ipv6 cannot be used in an IPv4 cluster"]),
        (&["--allocate-node-cidrs"], &["--allocate-node-cidrs needs --cluster-cidr, such as 10.244.0.0/16"]),
        (&["--allocate-node-cidrs", "--controllers=*,-nodeipam"], &[]),
        (&["--allocate-node-cidrs", "--cluster-cidr=fd00::/40"],
            &["--cluster-cidr fd00::/40 is too large for nodes with a /64: --node-cidr-mask-size-ipv6 may exceed its prefix by at most 16 bits"]),
        (&["--service-cluster-ip-range=a,b,c"], &["--service-cluster-ip-range takes at most two ranges"]),
        (&["--requestheader-uid-headers=x-remote-uid", "--feature-gates=RemoteRequestHeaderUID=false"],
            &["--requestheader-uid-headers needs the feature gate RemoteRequestHeaderUID"]),
        (&["--requestheader-uid-headers=x-uid"], &["--requestheader-uid-headers must include X-Remote-Uid"]),
        (&["--requestheader-uid-headers=x-uid,x-remote-uid"], &[]),
        (&["--tls-curve-preferences=23,29,23"], &["--tls-curve-preferences: 23 is given twice"]),
        (&["--authorization-always-allow-paths=/a*b,/c*,*,/"],
            &["--authorization-always-allow-paths: \"/a*b\" has a * that is not its last character"]),
        (&["--requestheader-group-headers= "], &["--requestheader-group-headers has an empty entry"]),
        (&["--show-hidden-metrics-for-version=1.30"], &["--show-hidden-metrics-for-version must be the previous minor version, 1.35, not \"1.30\""]),
        (&["--allow-metric-labels=metric=a"], &["--allow-metric-labels: \"metric\" is not of the form metric,label"]),
        (&["--logging-format=xml"], &["--logging-format must be text or json, not \"xml\""]),
        (&["--logging-format=json", "--vmodule=a=1"], &["--vmodule works with --logging-format=text only"]),
        (&["--log-json-split-stream"], &["--log-json-split-stream needs the feature gate LoggingAlphaOptions"]),
        (&["--log-json-split-stream", "--feature-gates=LoggingAlphaOptions=true"], &[]),
        (&["--emulated-version=1.20"], &["--emulated-version must be [kube=]major.minor between 1.33 and 1.36, not \"1.20\""]),
        (&["--emulated-version=kube=1.35"], &[]),
        (&["--emulated-version=1.34", "--feature-gates=JobManagedBy=false"], &[]),
        (&["--feature-gates=JobManagedBy=false,WorkloadWithJob=true"],
            &["--feature-gates: feature gate JobManagedBy is locked to true in version 1.36"]),
        (&["--feature-gates=DRADeviceTaintRules=true,DRADeviceTaints=false,WorkloadWithJob=true"], &[
            "--feature-gates: feature gate DRADeviceTaintRules is on, but needs DRADeviceTaints, off",
            "--feature-gates: feature gate WorkloadWithJob is on, but needs GenericWorkload, off"]),
        (&["--emulated-version=1.34", "--feature-gates=WorkloadWithJob=true"],
            &["--feature-gates: version 1.34 has no feature gate WorkloadWithJob; it came with 1.36"]),
        (&["--emulated-version=1.35", "--feature-gates=StorageVersionMigrator=true,InOrderInformers=false"],
            &["storage-version-migrator-controller needs the feature gate InOrderInformers"]),
        (&["--emulated-version=1.34", "--feature-gates=StorageVersionMigrator=true,InOrderInformers=false"], &[]),
        (&["--feature-gates=StorageVersionMigrator=true", "--enable-garbage-collector=false"],
            &["storage-version-migrator-controller needs --enable-garbage-collector"]),
        (&["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
            &["--logging-format=json needs the feature gate LoggingBetaOptions"]),
        (&["--kube-api-burst=-1"], &["--kube-api-burst must not be negative"]),
        (&["--kube-api-burst=0"], &["--kube-api-burst must not be 0 with --kube-api-qps=20"]),
        (&["--kube-api-content-type=application/protobuf"],
            &["--kube-api-content-type must be \"application/vnd.kubernetes.protobuf\" or \"application/json\", not \"application/protobuf\""]),
        (&["--kube-api-content-type=application/json"], &[]),
        (&["--enable-leader-migration", "--leader-migration-config=none.yaml"],
            &["--leader-migration-config none.yaml: cannot be read: No such file or directory (os error 2)"]),
        (&["--allow-metric-labels-manifest=none.yaml"],
            &["--allow-metric-labels-manifest none.yaml: cannot be read: No such file or directory (os error 2)"]),
        (&["--tls-min-version=SSL3"], &["--tls-min-version must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13, not \"SSL3\""]),
    ];
    for (arguments, want) in table {
        assert_eq!(problems(arguments), *want, "{arguments:?}");
    }
}

#[test]
fn deprecated_metrics_are_shown_on_request() {
    let is_hidden = |flags: &[&str]| {
        let policy = metrics_policy(&parsed(flags).options).unwrap();
        policy.disabled.contains("volume_operation_total_errors")
    };
    assert!(is_hidden(&[]));
    assert!(!is_hidden(&["--show-hidden-metrics-for-version=1.35"]));
}

#[test]
fn flags_without_effect_are_reported_once() {
    let notices = |arguments: &[&str]| prepare(parsed(arguments)).unwrap().notices.join("\n");
    assert!(!notices(&["--tls-curve-preferences=23"]).contains("--tls-curve-preferences"));
    assert!(
        notices(&["--tls-curve-preferences=23,25"]).contains("names groups that are never used here: P-521")
    );
    assert!(notices(&["--contention-profiling"]).contains("--contention-profiling has no effect here"));
    assert!(notices(&["--node-sync-period=1s"]).contains("--node-sync-period is deprecated"));
    assert!(!notices(&["--cluster-name=x", "--leader-elect"]).contains("--cluster-name"));
    assert!(!notices(&["--concurrent-replicaset-syncs=7"]).contains("--concurrent-replicaset-syncs"));
}

#[test]
fn leader_migration_is_read_and_checked() {
    let read = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("migration.yaml");
        fs::write(&path, text).unwrap();
        let flag = format!("--leader-migration-config={}", path.display());
        prepare(parsed(&["--enable-leader-migration", &flag]))
            .map(|prepared| prepared.options.config.generic.leader_migration)
            .map_err(|problems| problems.join("\n").replace(&path.display().to_string(), "FILE"))
    };
    let header = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
    let good = format!(
        "{header}leaderName: move\ncontrollerLeaders:\n- {{name: node-ipam-controller, component: '*'}}\n"
    );
    let migration = read(&good).unwrap();
    assert_eq!((migration.leader_name.as_str(), migration.resource_lock.as_str()), ("move", "leases"));
    assert_eq!(migration.controller_leaders.unwrap()[0].name, "node-ipam-controller");
    #[rustfmt::skip]
    let table = [
        (format!("{header}leaderName: ''\n"),                       "leaderName must not be empty"),
        (format!("{header}leaderName: x\nresourceLock: maps\n"),    "resourceLock must be \"leases\""),
        (format!("{header}leaderName: x\nbogus: 1\n"),              "unknown field `bogus`"),
        ("kind: Pod\napiVersion: v1\nleaderName: x\n".to_owned(),   "kind and apiVersion must be"),
        ("[".to_owned(),                                            "--leader-migration-config FILE: "),
    ];
    for (text, want) in table {
        let problem = read(&text).unwrap_err();
        assert!(problem.contains(want), "{problem}");
    }
    let default = prepare(parsed(&["--enable-leader-migration"])).unwrap();
    assert_eq!(
        default.options.config.generic.leader_migration.leader_name,
        "cloud-provider-extraction-migration"
    );
}

#[test]
fn the_second_service_range_is_kept_apart() {
    let prepared = prepare(parsed(&["--service-cluster-ip-range=10.96.0.0/12,fd00::/108"])).unwrap();
    let ipam = &prepared.options.config.node_ipam_controller;
    assert_eq!(
        (ipam.service_cidr.as_str(), ipam.secondary_service_cidr.as_str()),
        ("10.96.0.0/12", "fd00::/108")
    );
}

#[test]
fn naming_a_cloud_controller_gives_a_hint_where_it_is() {
    #[rustfmt::skip]
    let table: &[(&str, &[&str])] = &[
        ("--controllers=*",            &[]),
        ("--controllers=*,-service",   &[]),
        ("--controllers=route,*",      &["controllers that live in a cloud-controller-manager and do not run here: node-route-controller"]),
    ];
    for (argument, want) in table {
        assert_eq!(prepare(parsed(&[argument])).unwrap().notices, *want, "{argument}");
    }
}

#[test]
fn gates_that_change_nothing_are_named() {
    #[rustfmt::skip]
    let table: &[(&[&str], &[&str])] = &[
        (&["--feature-gates=PodDeletionCost=false"], &[]),
        (&["--feature-gates=GangScheduling=true,GenericWorkload=true,NativeHistograms=true"], &[
            "--feature-gates has no effect here on NativeHistograms: histograms have the classic format",
            "--feature-gates has no effect here on GangScheduling: only other components read it"]),
        (&["--feature-gates=kube:CloudControllerManagerWebhook=true"],
            &["--feature-gates has no effect here on CloudControllerManagerWebhook: another controller manager reads it"]),
        (&["--feature-gates=JobSuccessPolicy=true"], &[
            "--feature-gates has no effect here on JobSuccessPolicy: its value is locked in every version",
            "--feature-gates names gates that a later release will not have: JobSuccessPolicy"]),
        (&["--emulated-version=1.34", "--feature-gates=HPAConfigurableTolerance=true"],
            &["--feature-gates enables alpha features of 1.34, which are not what that version had: HPAConfigurableTolerance"]),
        (&["--feature-gates=HPAScaleToZero=true"], &[]),
    ];
    for (arguments, want) in table {
        assert_eq!(prepare(parsed(arguments)).unwrap().notices, *want, "{arguments:?}");
    }
}

#[test]
fn an_emulated_version_decides_which_controllers_run() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str, bool)] = &[
        (&[],                                                                               "taint-eviction-controller",           true),
        (&["--emulated-version=1.33", "--feature-gates=SeparateTaintEvictionController=false"], "taint-eviction-controller",       false),
        (&["--emulated-version=1.33"],                                                      "resourceclaim-controller",            false),
        (&["--emulated-version=1.34"],                                                      "resourceclaim-controller",            true),
        (&["--emulated-version=1.33"],                                                      "volumeattributesclass-protection-controller", false),
        (&["--emulated-version=1.35"],                                                      "device-taint-eviction-controller",    false),
        (&["--feature-gates=StorageVersionMigrator=true"],                                  "storage-version-migrator-controller", true),
        (&["--emulated-version=1.34", "--feature-gates=StorageVersionMigrator=true"],       "storage-version-migrator-controller", false),
        (&["--emulated-version=1.34", "--feature-gates=StorageVersionMigrator=true,InformerResourceVersion=true"],
            "storage-version-migrator-controller", true),
    ];
    for (arguments, name, want) in table {
        let prepared = prepare(parsed(arguments)).unwrap();
        assert_eq!(prepared.controllers.iter().any(|c| c.name == *name), *want, "{arguments:?} {name}");
    }
}
