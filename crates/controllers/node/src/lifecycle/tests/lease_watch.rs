use std::time::Duration;

use tokio::time::Instant;

use super::super::lease_watch::{LeaseWatch, Trust};

#[test]
fn a_watch_that_was_quiet_for_too_long_is_not_trusted() {
    #[rustfmt::skip]
    let table = [
        // case                                    messages@time                healthy  grace  now  trust
        ("nothing received yet",                   "",                          true,    50,    0,   Trust::None),
        ("just now",                               "1@0",                       true,    50,    5,   Trust::Full),
        ("the watch has failed",                   "1@0",                       false,   50,    5,   Trust::None),
        ("quiet for a quarter of the grace",       "1@0",                       true,    50,    13,  Trust::Doubtful),
        ("quiet for half of it",                   "1@0",                       true,    50,    26,  Trust::None),
        ("checks alone are no messages",           "1@0 1@10 1@20",             true,    50,    26,  Trust::None),
        ("another message",                        "1@0 2@24",                  true,    50,    26,  Trust::Full),
        ("another message after a long time",      "1@0 2@600",                 true,    50,    601, Trust::Full),
        ("a short grace leaves time for a relist", "1@0",                       true,    4,     9,   Trust::Full),
        ("and for its answer",                     "1@0",                       true,    4,     19,  Trust::Doubtful),
        ("but not without limit",                  "1@0",                       true,    4,     21,  Trust::None),
    ];
    let start = Instant::now();
    let at = |second| start + Duration::from_secs(second);
    for (case, messages, is_healthy, grace, now, want) in table {
        let mut watch = LeaseWatch::default();
        for word in messages.split_whitespace() {
            let (count, second) = word.split_once('@').unwrap();
            watch.record(count.parse().unwrap(), at(second.parse().unwrap()));
        }
        let trust = watch.trust(is_healthy, Duration::from_secs(grace), at(now));
        assert_eq!(trust, want, "{case}");
    }
}
