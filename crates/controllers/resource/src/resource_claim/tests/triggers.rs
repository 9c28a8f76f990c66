use super::pod;
use crate::resource_claim::triggers::of_pod;

#[test]
fn pods_are_synced_while_they_may_need_resource_claims_and_resource_claims_after_that() {
    #[rustfmt::skip]
    let table = [
        // case                                entries                  recorded    traits              gone    want
        ("no entries",                         "",                      "",         "",                 false,  ""),
        ("a template",                         "g=tpl:gpu",             "",         "",                 false,  "pod:ns/app"),
        ("it runs",                            "g=tpl:gpu",             "g=c",      "running",          false,  "pod:ns/app"),
        ("it has ended",                       "g=tpl:gpu h=claim:one", "g=c",      "ended",            false,  "claim:ns/c claim:ns/one pod:ns/app"),
        ("deleted before it has a node",       "g=tpl:gpu",             "g=c",      "deleting",          false,  "claim:ns/c"),
        ("deleted, but still running",          "g=tpl:gpu",             "g=c",      "running deleting",    false,  ""),
        ("it is gone",                         "g=tpl:gpu",             "g=c",      "running",          true,   "claim:ns/c"),
        ("extended resources",                 "",                      "",         "running extended:x", false, ""),
        ("extended, ended",                    "",                      "",         "ended extended:x", false,  "claim:ns/x"),
    ];
    for (case, entries, made, traits, is_gone, want) in table {
        let work: Vec<String> =
            of_pod(&pod(entries, made, traits), is_gone).iter().map(ToString::to_string).collect();
        assert_eq!(work.join(" "), want, "{case}");
    }
}
