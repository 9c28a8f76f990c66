use ipnet::IpNet;

use crate::ipam::blocks::Blocks;

fn blocks(cluster: &str, length: u8) -> Blocks {
    Blocks::new(cluster.parse().unwrap(), length).unwrap()
}

fn range(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[test]
fn blocks_are_numbered_through_the_range() {
    #[rustfmt::skip]
    let table = [
        // cluster             length  block     network
        ("10.244.0.0/16",          24,     0, "10.244.0.0/24"),
        ("10.244.0.0/16",          24,   255, "10.244.255.0/24"),
        ("10.0.0.0/8",             22,     5, "10.0.20.0/22"),
        ("10.244.7.9/16",          24,     1, "10.244.1.0/24"), // bits beyond the prefix are dropped
        ("192.168.1.0/24",         24,     0, "192.168.1.0/24"),
        ("0.0.0.0/0",              32, u64::from(u32::MAX), "255.255.255.255/32"),
        ("fd00::/48",              64,     1, "fd00:0:0:1::/64"),
        ("fd00::/56",              72,   256, "fd00:0:0:1::/72"),
        ("2001:db8:1234::/112",   120,    3, "2001:db8:1234::300/120"),
    ];
    for (cluster, length, block, want) in table {
        assert_eq!(blocks(cluster, length).network(block), range(want), "{cluster} {length} {block}");
    }
}

#[test]
fn ranges_overlap_blocks() {
    #[rustfmt::skip]
    let table = [
        // range             blocks of 10.244.0.0/16 by /24
        ("10.244.3.0/24",    Some(3..=3)),
        ("10.244.3.64/26",   Some(3..=3)), // part of a block
        ("10.244.4.0/22",    Some(4..=7)),
        ("10.244.0.0/16",    Some(0..=255)),
        ("10.0.0.0/8",       Some(0..=255)),
        ("10.245.0.0/24",    None),
        ("fd00::/64",        None),
    ];
    for (text, want) in table {
        assert_eq!(blocks("10.244.0.0/16", 24).overlapping(&range(text)), want, "{text}");
    }
    assert_eq!(blocks("fd00::/48", 64).overlapping(&range("fd00:0:0:5::/64")), Some(5..=5));
    assert_eq!(blocks("fd00::/48", 64).overlapping(&range("::/0")), Some(0..=65535));
    assert_eq!(blocks("fd00::/48", 64).overlapping(&range("10.0.0.0/8")), None);
}

#[test]
fn impossible_divisions_are_rejected() {
    for (cluster, length) in [("10.0.0.0/16", 15), ("10.0.0.0/16", 33), ("::/0", 64), ("0.0.0.0/0", 0)] {
        assert!(Blocks::new(cluster.parse().unwrap(), length).is_none(), "{cluster} {length}");
    }
}

#[test]
fn blocks_are_allocated_in_order_and_reused_late() {
    let mut four = blocks("10.0.0.0/22", 24);
    let taken = |four: &mut Blocks| four.take().map(|block| (block, four.take_searches()[0]));
    assert_eq!([taken(&mut four), taken(&mut four)], [Some((0, 0)), Some((1, 0))]);
    four.vacate(&(0..=0));
    four.occupy(&(2..=2));
    assert_eq!(taken(&mut four), Some((3, 1)), "not the one just released");
    assert_eq!(taken(&mut four), Some((0, 0)));
    assert_eq!((taken(&mut four), four.used(), four.turnover()), (None, 4, (5, 1)));
}

#[test]
fn a_block_is_free_when_its_last_holder_is_gone() {
    let mut blocks = blocks("10.0.0.0/21", 24); // eight
    let mut seen = vec![];
    let mut step = |blocks: &mut Blocks, change: &str| {
        let (sign, span) = change.split_at(1);
        let (start, end) = span.split_once('-').unwrap_or((span, span));
        let span = start.parse().unwrap()..=end.parse().unwrap();
        if sign == "+" {
            blocks.occupy(&span)
        } else {
            blocks.vacate(&span)
        }
        seen.push(blocks.used());
    };
    for change in
        ["+1", "+1", "+0-3", "+2-5", "-0-3", "-1", "-1", "-1", "-2-5", "-2-5", "+0-7", "+3", "-0-7", "-3"]
    {
        step(&mut blocks, change);
    }
    assert_eq!(seen, [1, 1, 4, 6, 5, 5, 4, 4, 0, 0, 8, 8, 1, 0]);
    assert_eq!(blocks.turnover().0, blocks.turnover().1);
}
