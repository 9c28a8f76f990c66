use std::time::Duration;

use tokio::time::Instant;

use super::super::sight::{Hearing, Sight};

#[test]
fn a_watch_that_is_quiet_for_long_is_not_believed() {
    use Sight::{Blind, Clear, Doubtful};
    #[rustfmt::skip]
    let table = [
        // case                                    sent so far@time             healthy  grace  now  sight
        ("never listened",                         "",                          true,    50,    0,   Blind),
        ("just now",                               "1@0",                       true,    50,    5,   Clear),
        ("the watch has failed",                   "1@0",                       false,   50,    5,   Blind),
        ("quiet for a quarter of the grace",       "1@0",                       true,    50,    13,  Doubtful),
        ("quiet for half of it",                   "1@0",                       true,    50,    26,  Blind),
        ("looking alone is not hearing",           "1@0 1@10 1@20",             true,    50,    26,  Blind),
        ("heard again",                            "1@0 2@24",                  true,    50,    26,  Clear),
        ("heard again after it was blind",         "1@0 2@600",                 true,    50,    601, Clear),
        ("a short grace leaves time to ask",       "1@0",                       true,    4,     9,   Clear),
        ("and to be answered",                     "1@0",                       true,    4,     19,  Doubtful),
        ("but not for ever",                       "1@0",                       true,    4,     21,  Blind),
    ];
    let start = Instant::now();
    let at = |second| start + Duration::from_secs(second);
    for (case, heard, is_healthy, grace, now, want) in table {
        let mut hearing = Hearing::default();
        for word in heard.split_whitespace() {
            let (sent, second) = word.split_once('@').unwrap();
            hearing.listen(sent.parse().unwrap(), at(second.parse().unwrap()));
        }
        let sight = hearing.sight(is_healthy, Duration::from_secs(grace), at(now));
        assert_eq!(sight, want, "{case}");
    }
}
