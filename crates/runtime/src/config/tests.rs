use super::Config;

/// What the v1.36.4 binary serves when no flag is given.
const UPSTREAM_DEFAULT: &str = include_str!("default.configz.json");

#[test]
fn the_default_is_upstreams_byte_for_byte() {
    assert_eq!(Config::default().configz(), UPSTREAM_DEFAULT.trim_end());
}

#[test]
fn whole_floats_lose_their_fraction_and_durations_are_gos() {
    let mut config = Config::default();
    config.generic.client_connection.qps = 12.5;
    config.generic.min_resync_period = std::time::Duration::from_millis(90_500);
    let configz = config.configz();
    assert!(configz.contains(r#""qps":12.5,"burst":30"#), "{configz}");
    assert!(configz.contains(r#""MinResyncPeriod":"1m30.5s""#), "{configz}");
}
