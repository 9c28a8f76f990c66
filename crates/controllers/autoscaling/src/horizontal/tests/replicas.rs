use super::{TOLERANCES, pods, samples, shown, workload};
use crate::horizontal::pod_groups::{Workload, requests};
use crate::horizontal::replicas::{Tolerances, by_average, by_share, by_utilization, by_value};

#[test]
fn utilization_is_brought_to_the_target_and_unmeasured_pods_count_against_a_rescale() {
    #[rustfmt::skip]
    let table = [
        // case                                          replicas pods                 usage in milli CPU, of 1000 each    target   want
        ("up in proportion",                             3, "a b c",             "a=300 b=500 c=700",                 30,   "5 50% 500m"),
        ("down in proportion",                           5, "a b c d e",         "a=100 b=300 c=500 d=250 e=250",     50,   "3 28% 280m"),
        ("within tolerance",                             3, "a b c",             "a=1010 b=1030 c=1020",              100,  "3 tolerated 102% 1020m"),
        ("just outside it does",                         3, "a b c",             "a=1110 b=1110 c=1110",              100,  "4 111% 1110m"),
        ("unready pods count as idle before scaling up",  3, "a b:pending c:pending", "a=700 b=9 c=9",                 50,   "3 unmeasured 70% 700m"),
        ("which may still leave too few",                 3, "a b c:pending",     "a=1000 b=1000",                     30,   "7 100% 1000m"),
        ("they do not matter before scaling down",        3, "a b c:pending",     "a=100 b=100",                       50,   "1 10% 100m"),
        ("missing pods count as idle before scaling up",  3, "a b c",             "a=900 b=900",                       50,   "4 90% 900m"),
        ("which may keep the number as it is",            2, "a b",               "a=800",                             50,   "2 unmeasured 80% 800m"),
        ("and as busy before scaling down",               4, "a b c d",           "a=100 b=100 c=100",                 50,   "3 10% 100m"),
        ("busy enough to keep the number as it is",       2, "a b",               "a=10",                              50,   "2 1% 10m"),
        ("or as busy as the target, above 100%",          2, "a b",               "a=1000",                            200,  "2 100% 1000m"),
        ("unready and missing pods together",             4, "a b c:pending d",   "a=2000 b=2000",                     50,   "8 200% 2000m"),
        ("failed pods do not count",                      3, "a b c:failed",      "a=1000 b=1000 c=9999",              50,   "4 100% 1000m"),
        ("samples of other pods do not count",            2, "a b",               "a=1000 b=1000 z=9000",              50,   "4 100% 1000m"),
        ("no known pod has a sample",                     1, "a",                 "z=1",                               50,   "no metrics returned matched known pods"),
    ];
    for (case, replicas, words, values, target, want) in table {
        let pods = pods(words);
        let requests = || requests(&pods, "cpu", None, true);
        let got = match by_utilization(&workload(&pods, replicas, true), samples(values), requests, target) {
            Ok((count, used)) => format!("{} {}% {}m", shown(count), used.percent, used.average),
            Err(error) => error,
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn an_average_is_brought_to_the_target() {
    #[rustfmt::skip]
    let table = [
        // case                                        replicas pods                  measures                   aim     want
        ("up",                                         3, "a b c",              "a=20000 b=10000 c=30000", 15000,  "4 20000"),
        ("down",                                       5, "a b c d e",          "a=10000 b=10000 c=10000 d=10000 e=10000", 20000, "3 10000"),
        ("within tolerance",                           3, "a b c",              "a=20000 b=21000 c=21000", 20000,  "3 tolerated 20666"),
        ("missing pods are at the target before scaling down", 4, "a b c d",    "a=10000 b=10000 c=10000", 30000,  "2 10000"),
        ("and idle before scaling up",                 3, "a b c",              "a=90000 b=10000",         20000,  "5 50000"),
        ("pending pods are idle before scaling up",    2, "a b:pending",        "a=30000",                 20000,  "2 unmeasured 30000"),
        ("being unready does not matter",              2, "a b:never-ready",    "a=30000 b=30000",         20000,  "3 30000"),
        ("the direction is never turned",              10, "a b:pending",       "a=30000",                 20000,  "10 unmeasured 30000"),
        ("no sample that counts",                      1, "a:pending",          "a=1",                     1,      "did not receive metrics for targeted pods (pods might be unready)"),
    ];
    for (case, replicas, words, values, target, want) in table {
        let pods = pods(words);
        let got = match by_average(&workload(&pods, replicas, false), samples(values), target) {
            Ok((count, average)) => format!("{} {average}", shown(count)),
            Err(error) => error,
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn one_value_is_shared_by_the_ready_pods() {
    #[rustfmt::skip]
    let table = [
        // case                               replicas pods                      usage           aim     want
        ("up",                                3, "a b c",                  20_000,         15_000, "4"),
        ("only ready pods count",             4, "a b:unready c d:pending", 30_000,        10_000, "6"),
        ("down",                              5, "a b c d e",              5_000,          10_000, "3"),
        ("within tolerance",                  3, "a b c",                  10_900,         10_000, "3 tolerated"),
        ("to zero",                           2, "a b",                    0,              10_000, "0"),
        ("from zero",                         0, "",                       25_000,         10_000, "3"),
        ("beyond all bounds",                 2, "a b",                    i64::MAX,       1,      "2147483647"),
        ("no pods",                           2, "",                       20_000,         10_000, "unable to calculate ready pods: no pods returned by selector while calculating replica count"),
        ("no pods are needed at the target",  2, "",                       10_000,         10_000, "2"),
    ];
    for (case, replicas, words, usage, target, want) in table {
        let pods = pods(words);
        let got = match by_value(&workload(&pods, replicas, false), usage, target) {
            Ok((count, value)) => {
                assert_eq!(value, usage, "{case}");
                shown(count)
            }
            Err(error) => error,
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn one_value_is_divided_by_the_replicas() {
    #[rustfmt::skip]
    let table = [
        // case                                 present  usage      aim     replicas   share
        ("up",                                  3,       40_000,    10_000, "4",        13_334),
        ("down",                                5,       20_000,    10_000, "2",        4_000),
        ("within tolerance",                    4,       42_000,    10_000, "4 tolerated",        10_500),
        ("to zero",                             4,       0,         10_000, "0",        0),
        // Upstream takes it for an overflow, and scales up.
        ("below zero",                          4,       -8_000,    10_000, "0",        -2_000),
        // Upstream on amd64: an infinite share is the lowest integer.
        ("from zero",                           0,       30_000,    10_000, "3",        i64::MIN),
        ("beyond all bounds",                   2,       i64::MAX,  1,      "2147483647",  i64::MAX),
    ];
    for (case, present, usage, target, replicas, share) in table {
        let (count, each) = by_share(TOLERANCES, present, usage, target);
        assert_eq!((shown(count).as_str(), each), (replicas, share), "{case}");
    }
}

#[test]
fn tolerances_differ_by_direction() {
    let pods = pods("a b c d");
    let with = |down, up, usage| {
        let workload = Workload { tolerances: Tolerances { down, up }, ..workload(&pods, 4, false) };
        by_value(&workload, usage, 1000).unwrap().0.replicas
    };
    assert_eq!(with(0.0, 0.5, 1400), 4);
    assert_eq!(with(0.0, 0.0, 1400), 6);
    assert_eq!(with(0.5, 0.0, 600), 4);
    assert_eq!(with(0.0, 0.5, 600), 3);
}
