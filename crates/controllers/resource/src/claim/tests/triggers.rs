use super::pod;
use crate::claim::triggers::of_pod;

#[test]
fn pods_are_looked_at_while_they_may_need_claims_and_claims_once_they_do_not() {
    #[rustfmt::skip]
    let table = [
        // case                                entries                  recorded    traits              gone    want
        ("nothing is asked for",               "",                      "",         "",                 false,  ""),
        ("a template",                         "g=tpl:gpu",             "",         "",                 false,  "pod:ns/app"),
        ("it runs",                            "g=tpl:gpu",             "g=c",      "running",          false,  "pod:ns/app"),
        ("it has ended",                       "g=tpl:gpu h=claim:one", "g=c",      "ended",            false,  "claim:ns/c claim:ns/one pod:ns/app"),
        ("it goes before it was placed",       "g=tpl:gpu",             "g=c",      "going",            false,  "claim:ns/c"),
        ("it goes, but still runs",            "g=tpl:gpu",             "g=c",      "running going",    false,  ""),
        ("it is gone",                         "g=tpl:gpu",             "g=c",      "running",          true,   "claim:ns/c"),
        ("extended resources",                 "",                      "",         "running extended:x", false, ""),
        ("are given back, too",                "",                      "",         "ended extended:x", false,  "claim:ns/x"),
    ];
    for (case, entries, made, traits, is_gone, want) in table {
        let work: Vec<String> =
            of_pod(&pod(entries, made, traits), is_gone).iter().map(ToString::to_string).collect();
        assert_eq!(work.join(" "), want, "{case}");
    }
}
