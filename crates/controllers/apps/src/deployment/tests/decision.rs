use super::world::World;

#[test]
fn a_rolling_update_scales_up_within_max_surge_and_down_within_max_unavailable() {
    #[rustfmt::skip]
    let table = [
        // case                                   deployment                            sets                                    plan
        ("the first set is full from the start",  "replicas=3",                         "",                                     "create 3"),
        ("one beyond the surge starts empty",     "replicas=3 surge=1 unavailable=0",   "a=4/4,rev=1",                          "create 0, a 4>3"),
        ("surge and unavailability at once",      "replicas=10 surge=3 unavailable=2",  "a=10/10,rev=1",                        "create 3, a 10>8"),
        ("up first",                              "replicas=10 surge=3 unavailable=2",  "a=8/8,rev=1 new=3/0,rev=2",            "new 3>5"),
        ("then wait",                             "replicas=10 surge=3 unavailable=2",  "a=8/8,rev=1 new=5/0,rev=2",            ""),
        ("then down",                             "replicas=10 surge=3 unavailable=2",  "a=8/8,rev=1 new=5/3,rev=2",            "a 8>5"),
        ("no surge: down first",                  "replicas=3 surge=0 unavailable=1",   "a=3/3,rev=1 new=0,rev=2",              "a 3>2"),
        ("no surge: then up",                     "replicas=3 surge=0 unavailable=1",   "a=2/2,rev=1 new=0,rev=2",              "new 0>1"),
        ("both round to nothing",                 "replicas=2 surge=0% unavailable=1%", "a=2/2,rev=1 new=0,rev=2",              "a 2>1"),
        ("pods of no use go first",               "replicas=10 surge=0 unavailable=2",  "a=5/5,rev=1 b=5/2,rev=2 new=0,rev=3",  "b 5>3"),
        ("these first, then others",              "replicas=4 surge=4 unavailable=0",   "a=2/1,rev=1 b=2/2,rev=2 new=4/4,rev=3", "a 2>1, a 1>0, b 2>0"),
        ("the oldest set first",                  "replicas=4 surge=2 unavailable=2",   "a=2/2,rev=1 b=2/2,rev=2 new=2/2,rev=3", "a 2>0, b 2>0"),
        ("a new set that is not up protects old", "replicas=10 surge=3 unavailable=2",  "a=8/7,rev=1 new=5/0,rev=2",            ""),
        ("rolling over: room is made",            "replicas=10 surge=3 unavailable=2",  "a=8/8,rev=1 b=5/0,rev=2 new=0,rev=3",  "b 5>0"),
        ("a set just scaled is waited for",       "replicas=10 surge=3 unavailable=2",  "a=8/10,rev=1 new=5/3,rev=2",           ""),
        ("useless pods of others go meanwhile",   "replicas=10 surge=3 unavailable=2",  "a=4/2,rev=1 b=4/6,rev=2 new=5/5,rev=3", "a 4>2"),
        ("unless they are all that may go",       "replicas=10 surge=3 unavailable=2",  "a=6/1,rev=1 b=2/3,rev=2 new=5/5,rev=3", "a 6>1"),
        ("too large a new set shrinks",           "replicas=2 surge=1 unavailable=0",   "new=5/5,rev=1",                        "new 5>2"),
        ("down to nothing",                       "replicas=0 surge=1 unavailable=0",   "a=2/2,rev=1 new=0,rev=2",              "a 2>0"),
        ("a whole replacement in one go",         "replicas=3 surge=100% unavailable=100%", "a=3/3,rev=1",                      "create 3, a 3>0"),
        ("settled",                               "replicas=3",                         "a=0,rev=1 new=3/3,rev=2",              ""),
        ("of two with the template the oldest",   "replicas=3 surge=1 unavailable=0",   "a=3/3,rev=2,like=new b=1/1,rev=1,like=new", "b 1>0"),
    ];
    for (case, deployment, sets, want) in table {
        assert_eq!(World::new(deployment, sets).planned(), want, "{case}");
    }
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_stopped() {
    #[rustfmt::skip]
    let table = [
        // case                                  deployment              sets                               pods                           plan
        ("old sets go down",                     "recreate",             "a=3/3,rev=1 b=1/0,rev=2",         "a:Running",                   "a 3>0, b 1>0"),
        ("a set still has pods",                 "recreate",             "a=0,rev=1,pods=2",                "",                            ""),
        ("a pod is being deleted still",         "recreate",             "a=0,rev=1",                       "a:Running",                   ""),
        ("no pod exists",                        "recreate",             "a=0,rev=1",                       "a:Unknown",                   ""),
        ("old pods have ended",                  "recreate",             "a=0,rev=1",                       "a:Succeeded a:Failed",        "create 3"),
        ("nothing was there before",             "recreate",             "",                                "",                            "create 3"),
        ("new pods do not matter",               "recreate",             "a=0,rev=1 new=1/1,rev=2",         "new:Running",                 "new 1>3"),
        ("going back brings a set up to date",   "recreate",             "new=0,rev=1 b=3/3,rev=2",         "",                            "revise new to 3, b 3>0"),
        ("settled",                              "recreate",             "a=0,rev=1 new=3/3,rev=2",         "new:Running",                 ""),
        ("tidied up when complete",              "recreate limit=0 complete", "a=0,rev=1 new=3/3,rev=2",    "",                            "delete a"),
    ];
    for (case, deployment, sets, pods, want) in table {
        assert_eq!(World::new(deployment, sets).with_pods(pods).planned(), want, "{case}");
    }
}

#[test]
fn scaling_during_a_rollout_keeps_the_proportions() {
    #[rustfmt::skip]
    let table = [
        // case                                  deployment                            sets                                                                       plan
        ("the only active set takes it all",     "replicas=5",                         "a=0,rev=1 new=3/3,rev=2,desired=3,max=4",                                 "new 3>5"),
        ("even an old one",                      "replicas=5 paused",                  "a=3/3,rev=1,desired=3,max=4",                                             "a 3>5"),
        ("from nothing: the new set",            "replicas=5 paused",                  "a=0,rev=1 new=0,rev=2",                                                   "new 0>5"),
        ("from nothing: the latest",             "replicas=5 paused",                  "a=0,rev=1 b=0,rev=2",                                                     "b 0>5"),
        ("paused before it began",               "replicas=5 paused",                  "",                                                                        ""),
        ("up",                                   "replicas=15 surge=3 unavailable=2",  "a=8/8,rev=1,desired=10,max=13 new=5/0,rev=2,desired=10,max=13",           "a 8>11, new 5>7"),
        ("down",                                 "replicas=5 surge=3 unavailable=2",   "a=8/8,rev=1,desired=10,max=13 new=5/0,rev=2,desired=10,max=13",           "a 8>5, new 5>3"),
        ("what is over goes to the largest",     "replicas=6 surge=0 unavailable=1",   "a=2/2,rev=1,desired=4,max=5 new=3/3,rev=2,desired=4,max=5",               "new 3>4, note a"),
        ("to nothing",                           "replicas=0 surge=1 unavailable=0",   "a=2/2,rev=1,desired=3,max=4 new=2/2,rev=2,desired=3,max=4",               "a 2>0, new 2>0"),
        ("of equals the newest gains",           "replicas=4 surge=1 unavailable=0",   "a=2/2,rev=1,desired=3,max=4 new=2/2,rev=2,desired=3,max=4",               "new 2>3, note a"),
        ("of equals the oldest loses",           "replicas=2 surge=1 unavailable=0",   "a=2/2,rev=1,desired=3,max=4 new=2/2,rev=2,desired=3,max=4",               "a 2>1, note new"),
        ("only annotations are outdated",        "replicas=3 surge=2 unavailable=0",   "a=2/2,rev=1,desired=4,max=5 new=3/3,rev=2,desired=4,max=5",               "note new, note a"),
        ("a lost note: what there is now",       "replicas=6 surge=0 unavailable=1 complete", "a=3/3,rev=1,max=x new=3/3,rev=2,desired=3,max=6",                  "note a, note new"),
        ("a full new set needs no old ones",     "replicas=3 paused",                  "a=1/1,rev=1,desired=3,max=4 new=3/3,rev=2,desired=3,max=4",               "a 1>0"),
        ("Recreate goes on rolling out",         "replicas=9 recreate",                "a=2/2,rev=1,desired=3 new=3/3,rev=2,desired=3",                           "a 2>0"),
        ("unless it is paused",                  "replicas=9 recreate paused",         "a=2/2,rev=1,desired=3 new=3/3,rev=2,desired=3",                           ""),
        ("right size, outdated note",            "replicas=3",                         "new=3/3,rev=1,desired=2,max=3",                                           "note new"),
        ("invalid annotations are ignored",      "replicas=3",                         "new=3/3,rev=1,desired=-2,max=3",                                          ""),
    ];
    for (case, deployment, sets, want) in table {
        assert_eq!(World::new(deployment, sets).planned(), want, "{case}");
    }
}

#[test]
fn a_paused_deployment_only_scales_and_a_deleted_one_does_nothing() {
    #[rustfmt::skip]
    let table = [
        // case                                  deployment                      sets                                      plan
        ("paused: no new set",                   "paused",                       "a=3/3,rev=1,desired=3",                  ""),
        ("paused: old sets are tidied up",       "paused limit=1",               "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",      "delete a"),
        ("unless one is asked for",              "paused limit=0 rollback=1",    "a=0,rev=1 new=3/3,rev=2",                ""),
        ("paused: annotations are copied",       "paused note=cause:x",          "new=3/3,rev=1",                          "revise new to 1"),
        ("deleted: nothing is scaled",           "deleting replicas=9",          "a=3/3,rev=1,desired=3",                  ""),
        ("deleted: revisions are kept right",    "deleting",                     "new=0,rev=1 b=3/3,rev=2",                "revise new to 3"),
    ];
    for (case, deployment, sets, want) in table {
        assert_eq!(World::new(deployment, sets).planned(), want, "{case}");
    }
}
