//! Which volume a claim gets.

use std::sync::Arc;

use super::world::{claim, volume};
use crate::binder::matching::{best, objection};

#[test]
fn the_volume_that_suits_best_is_taken() {
    #[rustfmt::skip]
    let table: &[(&str, &str, bool, &[&str], &str)] = &[
        // case                                 claim                 waits  volumes                                        chosen
        ("the smallest that is large enough",   "c 4Gi",              false, &["a 8Gi", "b 3Gi", "c 5Gi"],                  "c"),
        ("nothing is large enough",             "c 4Gi",              false, &["a 3Gi"],                                    ""),
        ("equal ones by name",                  "c",                  false, &["b", "a"],                                   "a"),
        ("another class",                       "c class=tin",        false, &["a"],                                        ""),
        ("no class",                            "c class=-",          false, &["a class="],                                 "a"),
        ("more ways of access will do",         "c",                  false, &["a RWO,ROX"],                                "a"),
        ("fewer of them beat size",             "c",                  false, &["a 1Gi RWO,ROX", "b 9Gi RWO"],               "b"),
        ("too few of them",                     "c RWO,RWX",          false, &["a RWO"],                                    ""),
        ("files are not blocks",                "c block",            false, &["a", "b block"],                             "b"),
        ("labels must match",                   "c label=fast",       false, &["a", "b label=fast 2Gi"],                    "b"),
        ("attributes must match",               "c attributes=x",     false, &["a", "b attributes=x"],                      "b"),
        ("not one with attributes either",      "c",                  false, &["a attributes=x"],                           ""),
        ("not while it is not available",       "c",                  false, &["a phase=Released", "b phase=Pending"],      ""),
        ("not one that goes",                   "c",                  false, &["a going"],                                  ""),
        ("not one of another claim",            "c",                  false, &["a for=d", "b of=d"],                        ""),
        ("a promised one beats size",           "c",                  false, &["a 1Gi", "b 9Gi for=c"],                     "b"),
        ("a promise outweighs class and label", "c class=tin label=x",false, &["a for=c"],                                  "a"),
        ("but not size",                        "c 2Gi",              false, &["a 1Gi for=c"],                              ""),
        ("nor fewer ways of access",            "c",                  false, &["a RWO,ROX for=c", "b RWO"],                 "b"),
        ("a promised one in any phase",         "c",                  false, &["a for=c phase=Bound"],                      "a"),
        ("bound to an earlier claim",           "c",                  false, &["a of=old", "b of=c"],                       "b"),
        ("who waits for a pod takes none",      "c",                  true,  &["a"],                                        ""),
        ("but the promised one",                "c",                  true,  &["a", "b for=c"],                             "b"),
    ];
    for (case, words, waits, volumes, want) in table {
        let volumes: Vec<_> = volumes.iter().map(|words| Arc::new(volume(words))).collect();
        let chosen = best(&claim(words), &volumes, *waits, true).unwrap();
        assert_eq!(chosen.map_or("", |volume| &volume.metadata.name), *want, "{case}");
    }
}

#[test]
fn a_named_volume_is_refused_with_a_reason() {
    #[rustfmt::skip]
    let table = [
        ("c",                "a",                  ""),
        ("c",                "a going",            "the volume is marked for deletion \"a\""),
        ("c 2Gi",            "a",                  "requested PV is too small"),
        ("c class=tin",      "a",                  "storageClassName does not match"),
        ("c attributes=x",   "a",                  "volumeAttributesClassName does not match"),
        ("c block",          "a",                  "incompatible volumeMode"),
        ("c RWX",            "a",                  "incompatible accessMode"),
        ("c label=x",        "a",                  ""),
        ("c",                "a phase=Released",   ""),
    ];
    for (words, of, want) in table {
        assert_eq!(objection(&volume(of), &claim(words), true).unwrap_or_default(), want, "{words} / {of}");
    }
    let off =
        "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled";
    for (words, of, want) in
        [("c", "a", ""), ("c attributes=x", "a attributes=x", off), ("c", "a attributes=x", off)]
    {
        assert_eq!(objection(&volume(of), &claim(words), false).unwrap_or_default(), want, "{words} / {of}");
    }
}
