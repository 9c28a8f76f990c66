use flyball_common::discovery::Mark;

use super::examination::graph;
use super::graph::identity;
use crate::gc::orphaning::{Awaiting, Orphaning, obstacle};
use crate::gc::server::Problem;

#[test]
fn the_dependents_of_an_owner_are_released_once_all_of_them_are_known() {
    let release = |names: &[&str]| Orphaning::Release {
        owner: identity("o"),
        dependents: names.iter().map(|name| identity(name)).collect(),
    };
    #[rustfmt::skip]
    let table = [
        // case                                   steps                    discovery is current   what is done
        ("not known",                             "",                      true,                  Orphaning::Nothing),
        ("it exists",                             "o a<o",                 true,                  Orphaning::Nothing),
        ("it is deleted in the foreground",       "o:foreground a<o",      true,                  Orphaning::Nothing),
        ("some dependents may be unknown",        "o:orphan a<o",          false,                 Orphaning::AwaitDiscovery),
        ("it has dependents",                     "o:orphan a<o b<p c<o",  true,                  release(&["a", "c"])),
        ("it has none",                           "o:orphan a<p",          true,                  release(&[])),
    ];
    for (case, steps, is_followed, want) in table {
        assert_eq!(Orphaning::of(&graph(steps), &"o".into(), is_followed), want, "{case}");
    }
}

#[test]
fn the_finalizer_stays_while_a_dependent_refers_to_the_owner() {
    assert!(obstacle(vec![]).is_none() && obstacle(vec![Ok(()), Ok(())]).is_none());
    let found = obstacle(vec![Ok(()), Err(Problem::KeepsChanging), Err(Problem::NamespacedOwner)]);
    assert!(matches!(found, Some(Problem::KeepsChanging)));
}

#[test]
fn an_owner_waits_for_what_had_changed_when_it_began_to_wait() {
    let owner = |name: &str| identity(name).item();
    let mut awaiting = Awaiting::default();
    assert_eq!(awaiting.since(&owner("o"), Mark(3)), Mark(3));
    assert_eq!(awaiting.since(&owner("o"), Mark(5)), Mark(3), "later changes do not matter");
    assert_eq!(awaiting.since(&owner("a"), Mark(5)), Mark(5));
    assert_eq!(awaiting.owners(), [owner("a"), owner("o")]);
    awaiting.end(&owner("o"));
    assert_eq!(awaiting.since(&owner("o"), Mark(6)), Mark(6));
}
