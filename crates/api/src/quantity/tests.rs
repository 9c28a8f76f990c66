use super::*;
use proptest::prelude::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// Recorded from apimachinery's `resource.Quantity`: text, canonical form, `Value()`, `MilliValue()`.
#[rustfmt::skip]
const RECORDED: &[(&str, &str, i64, i64)] = &[
    ("0", "0", 0, 0),
    ("1", "1", 1, 1000),
    ("-1", "-1", -1, -1000),
    ("100m", "100m", 1, 100),
    ("0.1", "100m", 1, 100),
    ("1500m", "1500m", 2, 1500),
    ("1.5", "1500m", 2, 1500),
    ("2048Ki", "2Mi", 2097152, 2097152000),
    ("1Ki", "1Ki", 1024, 1024000),
    ("1023", "1023", 1023, 1023000),
    ("1023Ki", "1023Ki", 1047552, 1047552000),
    ("1536Mi", "1536Mi", 1610612736, 1610612736000),
    ("1.5Gi", "1536Mi", 1610612736, 1610612736000),
    ("0.5Ki", "512", 512, 512000),
    ("0.1Ki", "102400m", 103, 102400),
    ("1000", "1k", 1000, 1000000),
    ("10000", "10k", 10000, 10000000),
    ("1000k", "1M", 1000000, 1000000000),
    ("1e3", "1e3", 1000, 1000000),
    ("1E3", "1e3", 1000, 1000000),
    ("12e6", "12e6", 12000000, 12000000000),
    ("1.5e3", "1500", 1500, 1500000),
    ("15e2", "1500", 1500, 1500000),
    ("100e-3", "100e-3", 1, 100),
    ("1e-9", "1e-9", 1, 1),
    ("1e-10", "1e-9", 1, 1),
    ("1e-20", "1e-9", 1, 1),
    ("0.0000000001", "1n", 1, 1),
    ("1n", "1n", 1, 1),
    ("999n", "999n", 1, 1),
    ("1000n", "1u", 1, 1),
    ("1u", "1u", 1, 1),
    ("1000u", "1m", 1, 1),
    ("1k", "1k", 1000, 1000000),
    ("1M", "1M", 1000000, 1000000000),
    ("1G", "1G", 1000000000, 1000000000000),
    ("1T", "1T", 1000000000000, 1000000000000000),
    ("1P", "1P", 1000000000000000, 1000000000000000000),
    ("1Mi", "1Mi", 1048576, 1048576000),
    ("1Gi", "1Gi", 1073741824, 1073741824000),
    ("1Ti", "1Ti", 1099511627776, 1099511627776000),
    ("1Pi", "1Pi", 1125899906842624, 1125899906842624000),
    ("0.000001Ki", "1024u", 1, 2),
    ("0.3333333333333333333333Gi", "357913941333333334n", 357913942, 357913941334),
    ("-1.5Gi", "-1536Mi", -1610612736, -1610612736000),
    ("-100m", "-100m", -1, -100),
    ("-1025", "-1025", -1025, -1025000),
    ("-1Ki", "-1Ki", -1024, -1024000),
    ("+5", "5", 5, 5000),
    ("1.", "1", 1, 1000),
    ("1.G", "1G", 1000000000, 1000000000000),
    (".5", "500m", 1, 500),
    ("00012", "12", 12, 12000),
    ("0Ki", "0", 0, 0),
    ("1.1Ki", "1126400m", 1127, 1126400),
    ("1.234567891Ki", "1264197520384n", 1265, 1264198),
    ("1025", "1025", 1025, 1025000),
    ("1024", "1024", 1024, 1024000),
    ("1e0", "1", 1, 1000),
    ("1500e0", "1500", 1500, 1500000),
    ("0.5e3", "500", 500, 500000),
    ("1e+3", "1e3", 1000, 1000000),
    ("5e-1", "500e-3", 1, 500),
    (".", "0", 0, 0),
    ("+", "0", 0, 0),
    ("-", "0", 0, 0),
    ("e3", "0", 0, 0),
    ("1E+2", "100", 100, 100000),
    ("3.14159265358979", "3141592654n", 4, 3142),
    ("1025Mi", "1025Mi", 1074790400, 1074790400000),
    ("0.9Ki", "921600m", 922, 921600),
    ("1.000000001Ki", "1024000001024n", 1025, 1024001),
];

/// Where upstream's int64 results wrap around, ours stop at the limit; the printed forms are upstream's.
#[rustfmt::skip]
const LARGE: &[(&str, &str)] = &[
    ("1E", "1E"),
    ("1Ei", "1Ei"),
    ("8Ei", "9223372036854775807"),
    ("100Ei", "9223372036854775807"),
    ("9223372036854775807", "9223372036854775807"),
    ("9223372036854775808", "9223372036854775808"),
    ("123456789012345678901234567890m", "123456789012345678901234567890m"),
    ("1e18", "1e18"),
    ("1e21", "1e21"),
    // Upstream prints "1" here: it looks for a suffix beyond E and finds none.
    ("1000E", "1000E"),
];

#[test]
fn agrees_with_upstream() {
    for &(text, canonical, value, milli) in RECORDED {
        let quantity = quantity(text);
        assert_eq!(
            (quantity.to_string().as_str(), quantity.value(), quantity.milli_value()),
            (canonical, value, milli),
            "{text}"
        );
    }
    for &(text, canonical) in LARGE {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn refuses_what_upstream_refuses() {
    for text in [
        "", " ", "x", "1x", "1 ", "1.5.5", "1e", "1kk", "1KI", "1ki", "--1", "1e1.5", "1mi", "1i", "0x10",
        "1,5", "1e-", "1_000", "٣",
    ] {
        let error = text.parse::<Quantity>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{text:?} is not a quantity")), "{error}");
    }
}

#[test]
fn sums_are_exact_and_print_as_the_first_that_counts() {
    #[rustfmt::skip]
    let table = [
        ("0",    "1Gi",   "1Gi",    "-1Gi"),
        ("1Gi",  "1G",    "2073741824", "73741824"),
        ("1Gi",  "512Mi", "1536Mi", "512Mi"),
        ("100m", "0.2",   "300m",   "-100m"),
        ("1",    "1n",    "1000000001n", "999999999n"),
        ("1e3",  "1",     "1001",   "999"),
    ];
    for (a, b, sum, difference) in table {
        let (a, b) = (quantity(a), quantity(b));
        assert_eq!((a + b).to_string(), sum);
        assert_eq!((a - b).to_string(), difference);
    }
    assert_eq!(quantity("100m").scale(25).to_string(), "2500m");
}

#[test]
fn amounts_compare_whatever_their_form() {
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert!(quantity("999m") < quantity("1"));
    assert!(quantity("-1") < quantity("0"));
}

#[test]
fn json_takes_texts_and_numbers() {
    for (json, want) in [(r#""1Gi""#, "1Gi"), ("2", "2"), ("1.5", "1500m"), (r#"" 3 ""#, "3"), ("-1", "-1")] {
        assert_eq!(serde_json::from_str::<Quantity>(json).unwrap().to_string(), want);
    }
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

#[test]
fn nothing_overflows() {
    let most = quantity("1e99999999999999");
    assert_eq!((most + most).value(), i64::MAX);
    assert_eq!((-most - most).milli_value(), i64::MIN);
    assert_eq!(most.scale(-2).value(), i64::MIN);
    assert_eq!(quantity("1e-99999999999999").to_string(), "1e-9");
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = text.parse::<Quantity>().map(|q| (q.to_string(), q.value(), q.milli_value()));
    }

    #[test]
    fn no_likely_text_panics(text in "[+-]?[0-9]{0,45}\\.?[0-9]{0,45}(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{0,12})?") {
        let _ = text.parse::<Quantity>().map(|q| (q.to_string(), (q + q - q).value(), q.scale(i64::MIN)));
    }

    #[test]
    fn printed_amounts_read_back(nanos in any::<i128>(), format in 0..3) {
        let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][format as usize];
        // Binary amounts beyond the cap cannot be written down.
        let nanos = if format == Format::BinarySi { nanos % BINARY_CAP } else { nanos };
        let quantity = Quantity { nanos, format };
        let read: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(read, quantity);
        prop_assert_eq!(read.to_string(), quantity.to_string());
    }
}
