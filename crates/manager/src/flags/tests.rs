use proptest::prelude::*;

use super::*;
use crate::KUBE_CONTROLLER_MANAGER as KUBE;
use crate::table;

const UPSTREAM: &str = include_str!("../../../../docs/parity/flags.tsv");

fn run(arguments: &[&str]) -> Parsed {
    match KUBE.parse(arguments).unwrap() {
        Invocation::Run(parsed) => *parsed,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn every_flag_of_upstream_is_here_with_its_section_type_and_default() {
    let values = KUBE.flagz(&Options::default());
    let mut rows = 0;
    for line in UPSTREAM.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, short, section, kind, default, deprecated, hidden, ..] = columns[..] else {
            panic!("{line}")
        };
        let flag = KUBE.flag(name).unwrap_or_else(|| panic!("--{name} is missing"));
        assert_eq!(flag.short.map(String::from).unwrap_or_default(), short, "--{name}");
        assert_eq!(
            KUBE.sections().find(|s| s.flags.iter().any(|f| f.name == name)).unwrap().name,
            section,
            "--{name}"
        );
        assert_eq!(flag.field.type_name(), kind, "--{name}");
        assert_eq!(values[name], default.trim_matches('"'), "--{name}");
        assert_eq!(flag.deprecated.is_some(), deprecated == "yes", "--{name}");
        assert_eq!(
            KUBE.help().contains(&format!("--{name} ")) || KUBE.help().contains(&format!("--{name}\n")),
            hidden == "no",
            "--{name}"
        );
        rows += 1;
    }
    assert_eq!(rows, 150);
    let own = KUBE.all_flags().filter(|flag| flag.name.starts_with("flyball-")).count();
    assert_eq!(KUBE.all_flags().count() - own, rows, "flags of our own say so in their name");
}

#[test]
fn every_flag_takes_both_spellings_and_shows_its_value() {
    for flag in KUBE.all_flags() {
        let given = match flag.field {
            Field::Bool(_) => "true",
            Field::Int(_) | Field::Int32(_) | Field::Level(_) | Field::Quantity(_) => "7",
            Field::Float32(_) | Field::Float64(_) => "0.25",
            Field::Duration(_) => "1m1s",
            Field::Ip(_) => "127.0.0.1",
            Field::Text(_) | Field::List(_) => "thing",
            Field::Modules(_) | Field::Map(_) => "thing=7",
            Field::Int32List(_) => "7",
            Field::CertKeys(_) => "a,b",
            Field::Gates(_) => ":AllAlpha=true",
            Field::PlainGates(_) => "AllAlpha=true",
            Field::Help | Field::Version | Field::Vendor(_) => continue,
        };
        let name = flag.name;
        let joined = run(&[&format!("--{name}={given}")]);
        let shown = KUBE.flagz(&joined.options)[name].clone();
        assert!(shown == given || shown == format!("[{given}]"), "--{name}={given} shows as {shown:?}");
        assert!(joined.given.contains(name));
        if !matches!(flag.field, Field::Bool(_)) {
            assert_eq!(
                run(&[&format!("--{}", name.replace('-', "_")), given]).options,
                joined.options,
                "--{name}"
            );
        }
    }
}

#[test]
fn arguments_are_read_as_pflag_reads_them() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str, &str)] = &[
        // arguments                                       flag                 value
        (&["--leader-elect=false"],                        "leader-elect",      "false"),
        (&["--leader-elect"],                              "leader-elect",      "true"),
        (&["--leader_elect=F"],                            "leader-elect",      "false"),
        (&["--v", "3"],                                    "v",                 "3"),
        (&["-v3"],                                         "v",                 "3"),
        (&["-v=3"],                                        "v",                 "3"),
        (&["-v", "3"],                                     "v",                 "3"),
        (&["--kubeconfig=a", "--kubeconfig", "b"],         "kubeconfig",        "b"),
        (&["--kubeconfig", "--v"],                         "kubeconfig",        "--v"),
        (&["--kubeconfig="],                               "kubeconfig",        ""),
        (&["--kubeconfig=a=b"],                            "kubeconfig",        "a=b"),
        (&["--controllers=a,b", "--controllers=c"],        "controllers",       "[a,b,c]"),
        (&["--controllers=*,-x"],                          "controllers",       "[*,-x]"),
        (&["--controllers="],                              "controllers",       "[]"),
        (&["--disabled-metrics=\"a,b\",c"],                "disabled-metrics",  "[\"a,b\",c]"),
        (&["--authorization-always-allow-paths=/x"],       "authorization-always-allow-paths", "[/x]"),
        (&["--concurrent_rc_syncs=0x10"],                  "concurrent-rc-syncs", "16"),
        (&["--concurrent-rc-syncs=-3"],                    "concurrent-rc-syncs", "-3"),
        (&["--concurrent-rc-syncs=1_000"],                 "concurrent-rc-syncs", "1000"),
        (&["--kube-api-qps=50"],                           "kube-api-qps",      "50"),
        (&["--node-eviction-rate=0.1"],                    "node-eviction-rate", "0.1"),
        (&["--allow-metric-labels=m,l=v1,v2"],             "allow-metric-labels", "[\"m,l=v1,v2\"]"),
        (&["--feature-gates=kube:B=true,kube:A=true"],     "feature-gates",     "kube:B=true,kube:A=true"),
        (&["--feature-gates=B=true", "--feature-gates=A=true"], "feature-gates", ":B=true,:A=true"),
        (&["--bind-address=::1"],                          "bind-address",      "::1"),
        (&["--min-resync-period=1.5h"],                    "min-resync-period", "1h30m0s"),
        (&["--v=1", "--"],                                 "v",                 "1"),
        (&["", "--v=1"],                                   "v",                 "1"),
        (&["--tls-sni-cert-key=a,b:x,y", "--tls-sni-cert-key=c,d"], "tls-sni-cert-key", "[a,b:x,y;c,d]"),
        (&["--tls-curve-preferences=23,24", "--tls-curve-preferences=25"], "tls-curve-preferences", "[23,24,25]"),
    ];
    for (arguments, flag, value) in table {
        assert_eq!(KUBE.flagz(&run(arguments).options)[*flag], *value, "{arguments:?}");
    }
}

#[test]
fn errors_are_one_line_and_name_the_flag() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["--leader-elct"],              "unknown flag --leader-elct; did you mean --leader-elect?"),
        (&["--frobnicate=1"],             "unknown flag --frobnicate"),
        (&["--Leader-Elect"],             "unknown flag --Leader-Elect; did you mean --leader-elect?"),
        (&["-x"],                         "unknown shorthand 'x' in \"-x\""),
        (&["--kubeconfig"],               "flag --kubeconfig needs a value"),
        (&["-v"],                         "flag --v needs a value"),
        (&["--leader-elect=maybe"],       "--leader-elect: \"maybe\" is neither true nor false"),
        (&["--leader-elect", "false"],    "kube-controller-manager takes no arguments, only flags; got \"false\""),
        (&["--", "x"],                    "kube-controller-manager takes no arguments, only flags; got \"x\""),
        (&["-"],                          "kube-controller-manager takes no arguments, only flags; got \"-\""),
        (&["--=x"],                       "\"--=x\" is not a flag: a name must follow the dashes"),
        (&["---x"],                       "\"---x\" is not a flag: a name must follow the dashes"),
        (&["--secure-port=http"],         "--secure-port: \"http\" is not a whole number between -2147483648 and 2147483647"),
        (&["--secure-port=99999999999"],  "--secure-port: \"99999999999\" is not a whole number between -2147483648 and 2147483647"),
        (&["--kube-api-qps=many"],        "--kube-api-qps: \"many\" is not a number"),
        (&["--kube-api-qps=NaN"],         "--kube-api-qps: \"NaN\" is not a number"),
        (&["--min-resync-period=12"],     "--min-resync-period: \"12\" is not a duration: a unit is missing (ns, us, ms, s, m, h)"),
        (&["--bind-address=localhost"],   "--bind-address: \"localhost\" is not an IP address"),
        (&["--tls-sni-cert-key=a"],       "--tls-sni-cert-key: \"a\" is not of the form certificate,key or certificate,key:domain,domain"),
        (&["--vmodule=a"],                "--vmodule: \"a\" is not of the form pattern=N"),
        (&["--allow-metric-labels=a"],    "--allow-metric-labels: \"a\" is not of the form key=value"),
        (&["--controllers=\"a"],          "--controllers: a quote is not closed in \"\\\"a\""),
        (&["--version=next"],             "--version: \"next\" is neither true, false nor raw"),
    ];
    for (arguments, want) in table {
        let message = KUBE.parse(arguments).unwrap_err().to_string();
        assert_eq!(message, *want);
        assert!(!message.contains('\n'));
    }
}

#[test]
fn help_and_version_have_a_name_or_a_letter() {
    assert!(matches!(KUBE.parse(&["-h"]), Ok(Invocation::Help)));
    assert!(matches!(KUBE.parse(&["--v=3", "--help"]), Ok(Invocation::Help)));
    assert!(matches!(KUBE.parse(&["-hv3"]), Ok(Invocation::Help)));
    assert!(matches!(KUBE.parse(&["--help=false"]), Ok(Invocation::Run(_))));
    assert!(matches!(KUBE.parse(&["--version"]), Ok(Invocation::Version(VersionForm::Plain))));
    assert!(matches!(KUBE.parse(&["--version=raw"]), Ok(Invocation::Version(VersionForm::Raw))));
}

#[test]
fn help_fits_a_terminal_and_names_every_controller() {
    let page = KUBE.help();
    for line in page.lines() {
        assert!(line.chars().count() <= 105, "{line}");
    }
    for controller in table::CONTROLLERS {
        assert!(page.contains(controller.name), "{}", controller.name);
    }
}

#[test]
fn steered_controllers_exist() {
    for section in KUBE.sections() {
        for flag in section.flags {
            if let Effect::Controllers(names) = flag.effect {
                assert!(names.iter().all(|name| KUBE.controller(name).is_some()), "--{}", flag.name);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_command_line_panics(arguments in proptest::collection::vec("\\PC*", 0..5)) {
        let _ = KUBE.parse(&arguments);
    }

    #[test]
    fn no_value_panics(index in 0usize..150, value in "\\PC*", joined in any::<bool>()) {
        let name = KUBE.all_flags().nth(index).unwrap().name;
        let arguments = if joined { vec![format!("--{name}={value}")] } else { vec![format!("--{name}"), value] };
        if let Ok(Invocation::Run(parsed)) = KUBE.parse(&arguments) {
            KUBE.flagz(&parsed.options);
        }
    }
}
