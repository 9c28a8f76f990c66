use flyball_api::Node;
use proptest::prelude::*;
use serde_json::json;

use super::plan::{ANNOTATION, ClusterSize, plan};

/// A cluster that went through these numbers of nodes.
fn through(sizes: &[usize]) -> ClusterSize {
    let mut size = ClusterSize::default();
    for nodes in sizes {
        size.update(*nodes);
    }
    size
}

#[test]
fn the_time_grows_with_the_cluster_and_shrinks_later() {
    #[rustfmt::skip]
    let table: [(&[usize], u32); 14] = [
        (&[0],                0),
        (&[100],              0),
        (&[101],             15),
        (&[101, 90],         15),
        (&[101, 89],          0),
        (&[500],             15),
        (&[501],             30),
        (&[501, 450],        30),
        (&[501, 449],        15),
        (&[1001],            60),
        (&[1001, 899],       30),
        (&[2001],           300),
        (&[2001, 1800],     300),
        (&[2001, 1799, 10],   0),
    ];
    for (sizes, want) in table {
        assert_eq!(through(sizes).seconds(), want, "{sizes:?}");
    }
}

#[test]
fn only_a_wrong_annotation_is_written() {
    #[rustfmt::skip]
    let table = [
        // case             annotation     nodes  plan
        ("missing",         None,              1, Some(0)),
        ("right",           Some("0"),         1, None),
        ("other notation",  Some("+0"),        1, None),
        ("wrong",           Some("77"),        1, Some(0)),
        ("no number",       Some("soon"),      1, Some(0)),
        ("empty",           Some(""),          1, Some(0)),
        ("for fewer nodes", Some("0"),       101, Some(15)),
    ];
    for (case, annotation, nodes, want) in table {
        let annotations = annotation.map_or(json!({}), |text| json!({ANNOTATION: text}));
        let node: Node = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        let plan = plan(&node, through(&[nodes]));
        let written = plan.writes().first().and_then(|write| write.body());
        let want =
            want.map(|seconds: u32| json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}}));
        assert_eq!(written, want, "{case}");
    }
}

proptest! {
    /// The ranges of sizes overlap by a tenth, so that a cluster whose size varies a little does not change the annotation of
    /// every node again and again. Within an overlap, the time depends on the earlier sizes.
    #[test]
    fn the_time_is_one_that_is_allowed_for_the_size(sizes in prop::collection::vec(0_usize..2500, 1..12)) {
        let nodes = *sizes.last().unwrap();
        let seconds = through(&sizes).seconds();
        let allowed: &[u32] = match nodes {
            0..90 => &[0],
            90..=100 => &[0, 15],
            101..450 => &[15],
            450..=500 => &[15, 30],
            501..900 => &[30],
            900..=1000 => &[30, 60],
            1001..1800 => &[60],
            1800..=2000 => &[60, 300],
            _ => &[300],
        };
        prop_assert!(allowed.contains(&seconds), "{nodes} nodes, {seconds} seconds");
    }
}
