use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels(text: &str) -> Labels {
    text.split(' ').filter_map(|pair| pair.split_once('=')).collect()
}

fn object(json: serde_json::Value) -> Result<Selector, InvalidSelector> {
    serde_json::from_value::<LabelSelector>(json).unwrap().compile()
}

/// The printed forms were recorded from apimachinery's `labels.Parse`.
#[test]
fn texts_are_read_and_printed_as_upstream_does() {
    #[rustfmt::skip]
    let table = [
        // text                     printed              matches            does not match
        ("",                        "",                  "a=1",             None),
        ("a",                       "a",                 "a=",              Some("b=1")),
        ("!a",                      "!a",                "b=1",             Some("a=1")),
        ("a=1",                     "a=1",               "a=1",             Some("a=2")),
        ("a = 1",                   "a=1",               "a=1",             Some("b=1")),
        ("a==1",                    "a==1",              "a=1",             Some("")),
        ("a!=1",                    "a!=1",              "b=1",             Some("a=1")),
        ("a=",                      "a=",                "a=",              Some("a=1")),
        ("a in (y,x, x)",           "a in (x,y)",        "a=x",             Some("a=z")),
        ("a in (,x)",               "a in (,x)",         "a=",              Some("b=1")),
        ("a in (x,)",               "a in (,x)",         "a=x",             Some("b=1")),
        ("a in ()",                 "a in ()",           "a=",              Some("a=1")),
        ("a in(x,,y)",              "a in (,x,y)",       "a=y",             Some("a=1")),
        ("a notin (x)",             "a notin (x)",       "b=x",             Some("a=x")),
        ("a>5",                     "a>5",               "a=6",             Some("a=5")),
        ("a<5",                     "a<5",               "a=4",             Some("a=x")),
        ("z=1,!b,example.com/a=x",  "!b,example.com/a=x,z=1", "example.com/a=x z=1", Some("b=1 z=1")),
        ("in in (in)",              "in in (in)",        "in=in",           Some("in=x")),
        ("notin,in",                "in,notin",          "in=1 notin=2",    Some("in=1")),
    ];
    for (text, printed, matching, other) in table {
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selector.to_string(), printed);
        assert!(selector.matches(&labels(matching)), "{text} should match {matching}");
        if let Some(other) = other {
            assert!(!selector.matches(&labels(other)), "{text} should not match {other}");
        }
    }
}

#[test]
fn errors_name_the_unexpected_token() {
    #[rustfmt::skip]
    let table = [
        ("a,",         "found '', expected: identifier after ','"),
        (",a",         "found ',', expected: !, identifier, or 'end of string'"),
        ("a b",        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b=c",      "found '=', expected: ',' or 'end of string'"),
        ("a in x",     "unable to parse requirement: found 'x' expected: '('"),
        ("a in (x",    "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ("a=!b",       "unable to parse requirement: found '!', expected: identifier"),
        ("!",          "unable to parse requirement: found '', expected: identifier"),
        ("!a=1",       "found '=', expected: ',' or 'end of string'"),
        ("a>x",        "\"x\", which label \"a\" is compared with, is not an integer that a label can hold"),
    ];
    for (text, want) in table {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), want);
    }
    assert!(matches!(Selector::parse("a>-1"), Err(InvalidSelector::NotAnInteger { .. })));
    assert!(matches!(Selector::parse("-a"), Err(InvalidSelector::Key { .. })));
    assert!(matches!(Selector::parse("a=-"), Err(InvalidSelector::Value { .. })));
}

#[test]
fn texts_are_converted_to_objects_where_possible() {
    #[rustfmt::skip]
    let table = [
        ("b==1,a=2,c in (y, x)", "a=2,b=1,c in (x,y)"),
        ("!a,b,c notin (x)",     "!a,b,c notin (x)"),
        ("",                     ""),
        ("a!=1",                 "\"!=\" is not a valid label selector operator"),
        ("a>1",                  "\"gt\" isn't supported in label selectors"),
        ("a<1",                  "\"lt\" isn't supported in label selectors"),
    ];
    for (text, want) in table {
        let object = Selector::parse(text).unwrap().to_object();
        let got = object.map(|object| object.compile().unwrap().to_string());
        assert_eq!(got.unwrap_or_else(|error| error.to_string()), want, "{text}");
    }
}

#[test]
fn the_object_form_compiles() {
    let selector = object(json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "env", "operator": "NotIn", "values": ["dev"]},
            {"key": "new", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert_eq!(selector.to_string(), "app=web,env notin (dev),new,!old,tier in (a,b)");
    assert!(selector.matches(&labels("app=web tier=a new=1")));
    assert!(!selector.matches(&labels("app=web tier=a new=1 old=1")));
}

/// As apimachinery's `LabelSelectorAsSelector` says it.
#[test]
fn errors_of_objects_have_the_words_of_upstream() {
    #[rustfmt::skip]
    let table = [
        (json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),                    "\"Near\" is not a valid label selector operator"),
        (json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),                      "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}), "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"),
        (json!({"matchLabels": {"-a": "x"}}),                                                "key: Invalid value: \"-a\": name part must consist of *"),
        (json!({"matchLabels": {"a": "-x"}}),                                                "values[0][a]: Invalid value: \"-x\": a valid label must be *"),
    ];
    for (selector, want) in table {
        let error = object(selector).unwrap_err().to_string();
        match want.strip_suffix('*') {
            Some(start) => assert!(error.starts_with(start), "{error}"),
            None => assert_eq!(error, want),
        }
    }
}

#[test]
fn bad_objects_are_errors_not_selectors_of_nothing() {
    for bad in [
        json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}),
        json!({"matchLabels": {"a b": "c"}}),
        json!({"matchLabels": {"a": "not a value"}}),
    ] {
        assert!(object(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn absent_matches_nothing_and_empty_everything() {
    let empty = LabelSelector::default();
    assert!(!Selector::from_object(None).unwrap().matches(&Labels::EMPTY));
    assert!(Selector::from_object(Some(&empty)).unwrap().matches(&labels("a=1")));
    assert!(Selector::everything().is_empty() && !Selector::nothing().is_empty());
}

#[test]
fn field_selectors_escape_and_match() {
    let selector =
        FieldSelector::equals("metadata.name", r"a,b=c\d").and_not_equals("status.phase", "Failed");
    assert_eq!(selector.to_string(), r"metadata.name=a\,b\=c\\d,status.phase!=Failed");
    assert_eq!(selector.to_string().parse(), Ok(selector.clone()));
    assert_eq!(selector.required("metadata.name"), Some(r"a,b=c\d"));
    let name = |phase| move |field: &str| if field == "metadata.name" { r"a,b=c\d" } else { phase };
    assert!(selector.matches(name("Running")) && !selector.matches(name("Failed")));
    assert_eq!("a==b".parse::<FieldSelector>().unwrap().to_string(), "a=b");
    assert!("".parse::<FieldSelector>().unwrap().is_empty());
    for bad in ["a", "=b", "a=b=c", r"a=\x", r"a=b\"] {
        assert!(bad.parse::<FieldSelector>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = Selector::parse(&text).map(|s| s.to_string());
        let _ = text.parse::<FieldSelector>().map(|s| s.to_string());
    }

    #[test]
    fn no_likely_text_panics_and_printed_ones_read_back(text in "[ab!=<>(), ]{0,20}|[a-c]( in | notin |=|==|!=|>|<)\\(?[a-c0-9,]{0,6}\\)?") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn field_selectors_survive_any_value(field in "[a-z.]{1,10}", value in ".{0,20}") {
        let selector = FieldSelector::equals(&field, &value);
        prop_assert_eq!(selector.to_string().parse(), Ok(selector));
    }
}
