use serde_json::{Value, json};

use super::*;

#[test]
fn hashes_are_upstreams_for_random_templates() {
    // Printed by `go run ./podtemplate vectors 7 30`; `cargo xtask hashes` compares thousands of fresh ones.
    for (n, line) in include_str!("vectors.txt").lines().enumerate() {
        let [plain, collided, collisions, template] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let template: Value = serde_json::from_str(template).unwrap();
        assert_eq!(compute_hash(&template, None), plain, "template {n}");
        assert_eq!(
            compute_hash(&template, collisions.parse().ok()),
            collided,
            "template {n}, {collisions} collisions"
        );
    }
}

#[test]
fn a_dump_shows_go_types_and_absent_fields() {
    let template = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "100m"}}}]}});
    let mut dump = String::new();
    TYPES.dump(Some(&template), TypeId(0), Shown::WithType, &mut |text| dump.push_str(text));
    for part in [
        "(v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) ",
        " Labels:(map[string]string)<nil> ",
        " Containers:([]v1.Container)[{Name:(string)a Image:(string) ",
        "Limits:(v1.ResourceList)map[cpu:{i:(resource.int64Amount){value:(int64)100 scale:(resource.Scale)-3} ",
        " TerminationGracePeriodSeconds:(*int64)<nil> ",
    ] {
        assert!(dump.contains(part), "{part}\n{dump}");
    }
}

#[test]
fn quantities_are_dumped_as_go_reads_them() {
    #[rustfmt::skip]
    let table = [
        // text                  value               scale  large                           text kept  format
        ("0",                    "0",                 0,    "<nil>",                        "0",       "DecimalSI"),
        ("100m",                 "100",              -3,    "<nil>",                        "100m",    "DecimalSI"),
        ("-5",                   "-5",                0,    "<nil>",                        "-5",      "DecimalSI"),
        ("12e6",                 "12",                6,    "<nil>",                        "12e6",    "DecimalExponent"),
        ("108.702k",             "108702",            0,    "<nil>",                        "108.702k", "DecimalSI"),
        ("1.5",                  "15",               -1,    "<nil>",                        "",        "DecimalSI"),
        ("2Ki",                  "2048",              0,    "<nil>",                        "2Ki",     "BinarySI"),
        ("8Ki",                  "8192",              0,    "<nil>",                        "",        "BinarySI"),
        ("1000000000000000000000", "0",               0,
            "{unscaled:(big.Int){neg:(bool)false abs:(big.nat)[5076944270305263616 54210108624]} scale:(inf.Scale)9}", "", "DecimalSI"),
        ("9Ei",                  "0",                 0,
            "{unscaled:(big.Int){neg:(bool)false abs:(big.nat)[9223372036854775807]} scale:(inf.Scale)0}",              "", "BinarySI"),
    ];
    for (text, value, scale, large, kept, format) in table {
        let mut dump = String::new();
        quantity::dump(text, &mut |part| dump.push_str(part));
        let want = format!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec){large}}} s:(string){kept} Format:(resource.Format){format}}}"
        );
        assert_eq!(dump, want, "{text}");
    }
}

#[test]
fn texts_that_are_no_quantities_do_not_panic() {
    for text in ["", "-", "1é", "é", "1.2.3.4.5.6.7.8.9.0.1.2.3", ".", "e", "12345678901234567890.1.2Gi"] {
        quantity::dump(text, &mut |_| {});
    }
}
