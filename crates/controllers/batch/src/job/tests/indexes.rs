use crate::job::indexes::Indexes;

#[test]
fn indexes_are_parsed_and_printed_in_their_short_form() {
    #[rustfmt::skip]
    let table = [
        // text                 below  written        total
        ("",                       10, "",                0),
        ("0",                      10, "0",               1),
        ("0,1",                    10, "0,1",             2),
        ("0,1,2",                  10, "0-2",             3),
        ("0-1,3-5,7",              10, "0,1,3-5,7",       6),
        ("3-20",                   10, "3-9",             7),
        ("3,12",                   10, "3",               1),
        ("1-3,2-5",                10, "1-5",             5),
        ("5-3,7",                  10, "7",               1),
        ("x,2,y-3,4-z,-1",         10, "2",               1),
        ("0-4294967295",            3, "0-2",             3),
        ("1",                       0, "",                0),
    ];
    for (text, below, written, total) in table {
        let indexes = Indexes::parse(text, below);
        assert_eq!((indexes.to_string().as_str(), indexes.total()), (written, total), "{text}");
    }
}

#[test]
fn sets_are_joined_searched_and_their_gaps_found() {
    let some = Indexes::parse("1-3,7", 10);
    assert!(!some.has(0) && some.has(1) && some.has(3) && !some.has(4) && some.has(7) && !some.has(8));
    assert_eq!(some.union(&Indexes::parse("4,6,9", 10)).to_string(), "1-4,6,7,9");
    assert_eq!(some.first_missing(4, 10), [0, 4, 5, 6]);
    assert_eq!(some.first_missing(9, 9), [0, 4, 5, 6, 8]);
    assert_eq!(some.first_missing(0, 9), [0u32; 0]);
    assert_eq!(some.in_common(&Indexes::parse("0-2,5-9", 10)), 3);
    assert_eq!(Indexes::from_iter([5, 3, 4, 3]).to_string(), "3-5");
}
