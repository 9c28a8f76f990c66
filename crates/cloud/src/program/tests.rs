use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_manager::flags::{Flag, Invocation, VendorFlag};
use flyball_manager::{Ending, prepare};
use flyball_runtime::Metrics;
use parking_lot::Mutex;

use super::*;
use crate::simulated;

/// Upstream's flags: section, name, type, default. Those of the sample's node-ipam-controller are at the end.
const UPSTREAM: &str = include_str!("../../../../docs/parity/cloud_flags.tsv");
/// What upstream's program serves when only `--cloud-provider=fake` is given.
const DEFAULT_CONFIGZ: &str = include_str!("default.configz.json");

fn prepared(arguments: &[&str]) -> Result<Prepared, Vec<String>> {
    match CLOUD_CONTROLLER_MANAGER.parse(arguments).map_err(|error| vec![error.to_string()])? {
        Invocation::Run(parsed) => prepare(*parsed),
        other => panic!("{other:?}"),
    }
}

async fn refused(arguments: &[&str]) -> String {
    let opened = match prepared(arguments) {
        Ok(prepared) => {
            let (_running, foundation) = Foundation::new(NAME, Metrics::default());
            equip(&[simulated::PROVIDER], &prepared, &foundation).await.map(drop)
        }
        Err(problems) => Err(problems),
    };
    opened.err().unwrap_or_default().join("; ")
}

#[test]
fn every_flag_of_upstream_is_here_with_its_section_type_and_default() {
    let values = CLOUD_CONTROLLER_MANAGER.flagz(&defaults());
    let mut ours: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for section in CLOUD_CONTROLLER_MANAGER.sections() {
        for flag in section.flags {
            assert!(
                ours.insert(flag.name, (section.name, flag.field.type_name())).is_none(),
                "{}",
                flag.name
            );
        }
    }
    let mut rows = 0;
    for line in UPSTREAM.lines().skip(1) {
        let [section, name, kind, default] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(ours.get(name), Some(&(section, kind)), "--{name}");
        assert_eq!(values[name], default, "--{name}");
        rows += 1;
    }
    assert_eq!(rows, 86 + 4);
    assert_eq!(ours.len(), rows, "no flag of our own");
}

#[test]
fn the_default_configuration_is_upstreams_byte_for_byte() {
    let prepared = prepared(&["--cloud-provider=fake"]).unwrap();
    assert_eq!((prepared.component.configz)(&prepared.options.config), DEFAULT_CONFIGZ.trim_end());
}

#[test]
fn controllers_are_found_under_both_names_and_all_are_on() {
    #[rustfmt::skip]
    let table = [
        ("*",                          "cloud-node-controller cloud-node-lifecycle-controller service-lb-controller node-route-controller node-ipam-controller"),
        ("service,route",              "service-lb-controller node-route-controller"),
        ("*,-cloud-node,-nodeipam",    "cloud-node-lifecycle-controller service-lb-controller node-route-controller"),
        ("cloud-node-lifecycle",       "cloud-node-lifecycle-controller"),
    ];
    for (list, want) in table {
        let prepared = prepared(&["--cloud-provider=simulated", &format!("--controllers={list}")]).unwrap();
        let names: Vec<&str> = prepared.controllers.iter().map(|controller| controller.name).collect();
        assert_eq!(names.join(" "), want);
    }
}

#[tokio::test]
async fn mistakes_are_named() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&[],                                                            "--cloud-provider must name a cloud provider"),
        (&["--cloud-provider=simulated"],                                ""),
        (&["--cloud-provider=aws"],                                      "--cloud-provider: there is no cloud provider \"aws\" here; this program has: simulated"),
        (&["--cloud-provider=external"],                                 "--cloud-provider: there is no cloud provider \"external\" here; this program has: simulated"),
        (&["--cloud-provider=simulated", "--cloud-config=no-such-file"], "--cloud-config: the cloud of provider \"simulated\" cannot be opened: cannot read no-such-file: No such file or directory (os error 2)"),
        (&["--cloud-provider=simulated", "--controllers=replicaset"],    "--controllers: there is no controller \"replicaset\""),
        (&["--cloud-provider=simulated", "--feature-gates=kube:AllAlpha=true"], "--feature-gates: \"kube:AllAlpha=true\" names a component; here gates are Name=true or Name=false"),
        (&["--cloud-provider=simulated", "--feature-gates=CloudControllerManagerWebhook=true", "--webhooks=*"], ""),
        (&["--cloud-provider=simulated", "--webhooks=*,-a"],             "--webhooks: there is no webhook \"a\"; this cloud has: none"),
        (&["--cloud-provider=simulated", "--webhook-tls-cert-file=a"],   ""),
        (&["--cloud-provider=simulated", "--webhooks=*", "--webhook-tls-cert-file=a"],
            "--webhook-tls-cert-file and --webhook-tls-private-key-file must be given together"),
        (&["--cloud-provider=simulated", "--webhook-secure-port=10258"], "--webhook-secure-port and --secure-port must differ; both are 10258"),
        (&["--cloud-provider=simulated", "--concurrent-service-syncs=0"], "--concurrent-service-syncs must be at least 1, not 0"),
        (&["--cloud-provider=simulated", "--cidr-allocator-type=CloudAllocator"], ""),
        (&["--cloud-provider=simulated", "--cidr-allocator-type=CloudAllocator", "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8"],
            "--cidr-allocator-type must be \"RangeAllocator\", not \"CloudAllocator\""),
        (&["--emulated-version=1.36"],                                   "unknown flag --emulated-version"),
        (&["fast"],                                                      "cloud-controller-manager takes no arguments, only flags; got \"fast\""),
    ];
    for (arguments, want) in table {
        assert_eq!(refused(arguments).await, *want, "{arguments:?}");
    }
}

#[tokio::test]
async fn a_cloud_with_routes_needs_a_range_and_an_untagged_one_a_word() {
    let open = async |text: &str, further: &[&str]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let config = format!("--cloud-config={}", file.path().display());
        let arguments: Vec<&str> =
            ["--cloud-provider=simulated", &config].into_iter().chain(further.iter().copied()).collect();
        refused(&arguments).await
    };
    let need = "--configure-cloud-routes needs --cluster-cidr, such as 10.244.0.0/16 \
                (--configure-cloud-routes=false does without routes)";
    assert_eq!(open("routes: []", &[]).await, need);
    assert_eq!(open("routes: []", &["--cluster-cidr=10.0.0.0/8"]).await, "");
    assert_eq!(open("routes: []", &["--configure-cloud-routes=false"]).await, "");
    assert_eq!(open("routes: []", &["--controllers=service"]).await, "");
    let untagged = "the cloud of provider \"simulated\" does not say which cluster its resources belong to; \
                    --allow-untagged-cloud goes on nevertheless";
    assert_eq!(open("untagged: true", &[]).await, untagged);
    assert_eq!(open("untagged: true", &["--allow-untagged-cloud"]).await, "");
}

const ENDPOINT: VendorFlag<String> =
    VendorFlag::text("acme-endpoint", "https://acme.example", "Where it is.");
const PATIENCE: VendorFlag<Duration> = VendorFlag::duration("acme-patience", "5s", "How long to wait.");
const DRY: VendorFlag<bool> = VendorFlag::switch("acme-dry-run", "Change nothing.");
const MANY: VendorFlag<i32> = VendorFlag::integer("acme-retries", "three", "How often.");
const KUBECONFIG: VendorFlag<String> = VendorFlag::text("kubeconfig", "", "Another one.");

const fn acme(flags: &'static [Flag]) -> Provider {
    Provider::new("acme", |_| Box::pin(async { Ok(Cloud::new("acme")) })).with_flags(flags)
}

#[test]
fn flags_of_a_provider_are_parsed_shown_and_read_with_their_types() {
    const ACME: &[Provider] = &[acme(&[ENDPOINT.flag(), PATIENCE.flag(), DRY.flag()])];
    let component = vendor::with_flags(&CLOUD_CONTROLLER_MANAGER, ACME).unwrap();
    let help = component.help();
    assert!(help.contains("Acme flags:"), "{help}");
    assert!(help.contains("--acme-endpoint string (default https://acme.example)"), "{help}");
    assert!(help.contains("--acme-dry-run\n"), "{help}");
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&[],                                            "https://acme.example 5s false"),
        (&["--acme_patience", "1m", "--acme-dry-run"],   "https://acme.example 60s true"),
        (&["--acme-endpoint=x", "--acme-endpoint=y"],    "y 5s false"),
        (&["--acme-patience=soon"],                      "--acme-patience: \"soon\" is not a duration"),
        (&["--acme-endpont=x"],                          "unknown flag --acme-endpont; did you mean --acme-endpoint?"),
    ];
    for (arguments, want) in table {
        let shown = match component.parse(arguments) {
            Ok(Invocation::Run(parsed)) => {
                let values = parsed.options.vendor;
                format!("{} {:?} {}", ENDPOINT.get(&values), PATIENCE.get(&values), DRY.get(&values))
            }
            Err(error) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(shown.starts_with(want), "{arguments:?}: {shown}");
    }
}

#[test]
fn mistakes_in_the_flags_of_a_provider_are_named() {
    const WRONG: &[(&[Provider], &str)] = &[
        (
            &[acme(&[KUBECONFIG.flag()])],
            "the cloud provider \"acme\" adds the flag --kubeconfig, which exists",
        ),
        (
            &[acme(&[MANY.flag()])],
            "the cloud provider \"acme\": the default of --acme-retries: \"three\" is not a whole number",
        ),
    ];
    for (providers, want) in WRONG {
        let problem = vendor::with_flags(&CLOUD_CONTROLLER_MANAGER, providers).unwrap_err();
        assert!(problem.starts_with(want), "{problem}");
    }
    assert!(std::ptr::eq(
        vendor::with_flags(&CLOUD_CONTROLLER_MANAGER, &[simulated::PROVIDER]).unwrap(),
        &CLOUD_CONTROLLER_MANAGER
    ));
}

#[tokio::test]
async fn the_hooks_run_and_hear_why() {
    let heard = Arc::new(Mutex::new(vec![]));
    let seen = heard.clone();
    let cloud = Cloud::new("acme").on_end(move |why| {
        seen.lock().push(why);
        std::future::ready(())
    });
    cloud.end(Ending::LeaseLost).await;
    cloud.clone().end(Ending::Shutdown).await;
    assert_eq!(*heard.lock(), [Ending::LeaseLost, Ending::Shutdown]);
}
