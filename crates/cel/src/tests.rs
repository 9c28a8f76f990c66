//! Types of expressions, limits of the parser, and that no input makes it panic. The texts of reports are tested in the controller
//! that shows them, with tables recorded from upstream.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::{Env, Fields, Program, Type, check, escaped};

fn env() -> Env {
    let mut env = Env::default();
    let thing = Fields::from([("size".into(), Type::Int), ("__namespace__".into(), Type::String)]);
    env.objects(Arc::new(BTreeMap::from([("Thing".into(), thing)])));
    env.variable("thing", Type::Object("Thing".into()));
    env.variable("things", Type::list(Type::Object("Thing".into())));
    env.variable("names", Type::map(Type::String, Type::String));
    env.variable("any", Type::Dyn);
    env
}

#[test]
fn expressions_have_types() {
    #[rustfmt::skip]
    let table = [
        // expression                                           type
        ("1 + 2",                                               "int"),
        ("-0x8000000000000000",                                 "int"),
        ("1u", "uint"), ("1.5e3", "double"), (".5", "double"), ("b'x'", "bytes"), ("null", "null"),
        ("thing.size < 2.5",                                    "bool"),
        ("thing.namespace",                                     "string"),
        ("any.whatever[0].there",                               "dyn"),
        ("any ? 1 : 2",                                         "int"),
        ("true ? 1 : any",                                      "dyn"),
        ("true ? [] : [1]",                                     "list(int)"),
        ("[]", "list(dyn)"), ("{}", "map(dyn, dyn)"),
        ("{'a': [1u]}",                                         "map(string, list(uint))"),
        ("things.map(t, t.size)",                               "list(int)"),
        ("things.filter(t, t.size > 1)",                        "list(Thing)"),
        ("things.exists_one(t, has(t.size))",                   "bool"),
        ("names.transformMap(k, v, v.size())",                  "map(string, int)"),
        ("names.transformList(k, v, k == v)",                   "list(bool)"),
        ("thing.?size",                                         "optional_type(int)"),
        ("thing.?size.optMap(s, string(s))",                    "optional_type(string)"),
        ("names[?'a'].orValue('')",                             "string"),
        ("things.sortBy(t, t.size)[0].size",                    "int"),
        ("timestamp('x') - timestamp('y')",                     "duration"),
        ("type(1)",                                             "type(int)"),
        ("quantity('1').add(1)",                                "kubernetes.Quantity"),
        ("url('x').getQuery()",                                 "map(string, list(string))"),
        ("cidr('x').ip()",                                      "net.IP"),
        ("format.named('x')",                                   "optional_type(kubernetes.NamedFormat)"),
        ("r'\\d' + \"\"\"a\nb\"\"\" // and that is it",         "string"),
    ];
    for (expression, want) in table {
        let found = check(expression, &env()).map(|of| of.to_string());
        assert_eq!(found.as_deref(), Ok(want), "{expression}");
    }
}

#[test]
fn expressions_that_are_too_deep_or_too_long_are_refused() {
    #[rustfmt::skip]
    let table = [
        ("(".repeat(249) + "1" + &")".repeat(249),              "fine"),
        ("(".repeat(100_000),                                   "expression code point size exceeds limit: size: 100001, limit 100000"),
        ("(".repeat(59) + "1" + &")".repeat(59),                "fine"),
        ("[".repeat(59) + "1" + &"]".repeat(59),                "fine"),
        ("(".repeat(99_999),                                    "expression recursion limit exceeded: 250"),
        ("[".repeat(99_999),                                    "expression recursion limit exceeded: 250"),
        ("1".to_owned() + &"+1".repeat(250),                    "fine"),
        ("1".to_owned() + &"+1".repeat(251),                    "max recursion depth exceeded"),
        ("any".to_owned() + &".x".repeat(20_000),               "max recursion depth exceeded"),
        ("-".repeat(99_998) + "1",                              "fine"),
        ("true".to_owned() + &"&&true".repeat(16_000),          "fine"),
        ("1==1".to_owned() + &"||1==1".repeat(10_000),          "fine"),
        ("things.all(t, ".repeat(240) + "true" + &")".repeat(240), "fine"),
        ("things.map(t, ".repeat(240) + "t" + &")".repeat(240), "fine"),
    ];
    for (expression, want) in table {
        let expression = if want.contains("100001") { expression + "(" } else { expression };
        let found = check(&expression, &env()).map_or_else(|report| report, |_| "fine".to_owned());
        let start: String = expression.chars().take(30).collect();
        assert!(found == want || found == format!("ERROR: <input>:-1:0: {want}"), "{start}…: {found}");
    }
}

/// They overflow the stack of a thread, if it handles them itself.
#[test]
fn short_expressions_that_only_open_are_refused() {
    for open in ["(", "[", "{1:", "1?", "[1][", "size("] {
        let expression = open.repeat(119 / open.len());
        assert!(check(&expression, &env()).is_err(), "{expression}");
        assert!(Program::compile(&expression, &env()).is_err(), "{expression}");
    }
}

#[test]
fn properties_are_known_by_names_that_can_be_written() {
    #[rustfmt::skip]
    let table = [
        ("plain",       Some("plain")),
        ("a-b.c/d",     Some("a__dash__b__dot__c__slash__d")),
        ("a__b",        Some("a__underscores__b")),
        ("a___b",       Some("a__underscores___b")),
        ("namespace",   Some("__namespace__")),
        ("1st", None), ("", None), ("a b", None), ("é", None),
    ];
    for (property, want) in table {
        assert_eq!(escaped(property).as_deref(), want, "{property}");
    }
}

#[test]
fn only_so_many_problems_are_shown() {
    let expression = vec!["nope"; 150].join("||");
    let report = check(&expression, &env()).unwrap_err();
    assert_eq!(report.matches("ERROR: ").count(), 100);
    assert!(report.ends_with("\n50 more errors were truncated"), "{report}");
}

proptest! {
    /// No input panics, and every report begins with a position.
    #[test]
    fn no_input_panics(
        words in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "thing", "things", "names", "any", ".", "size", "(", ")", "[", "]", "{", "}", "?", ":", ",", "+",
                    "-", "==", "&&", "||", "!", "in", "1", "1u", "1.5", "'x'", "'", "\\", "\n", "null", "has", "all",
                    "map", "t", "optMap", ".?", "[?", "\u{e9}", "`", "r'", "b'", "//", "type", "dyn", "sortBy",
                ]).prop_map(str::to_owned),
                any::<char>().prop_map(String::from),
            ],
            0..40,
        ),
        glue in proptest::sample::select(vec!["", " "]),
    ) {
        if let Err(report) = check(&words.join(glue), &env()) {
            prop_assert!(report.starts_with("ERROR: <input>:"), "{}", report);
        }
    }
}
