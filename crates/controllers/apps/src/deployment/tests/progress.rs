use super::world::World;
use crate::deployment::decision::decide;
use crate::deployment::progress::next_check;
use crate::deployment::status::{Outcome, statement};

/// The Progressing condition after a sync as `Status/Reason@seconds since the last update`, and when to sync again.
fn progressing(deployment: &str, sets: &str) -> (String, Option<u64>) {
    let world = World::new(deployment, sets);
    let view = world.view();
    let decision = decide(&view);
    let status = statement(&view, &decision, Outcome::Done(None)).status;
    let progress = status.conditions.iter().find(|condition| condition.type_ == "Progressing");
    let shown = progress.map_or_else(String::new, |condition| {
        let age = view.now.duration_since(condition.last_update_time.unwrap()).as_secs();
        format!("{}/{}@{age}", condition.status, condition.reason)
    });
    (shown, next_check(&view, &status).map(|wait| wait.as_secs()))
}

#[test]
fn a_rollout_progresses_completes_or_times_out() {
    #[rustfmt::skip]
    let table = [
        // case                               deployment                                                         sets                             condition                               wait
        ("found",                             "deadline=60 replicas=3",                                          "new=3,rev=1,pods=0",            "True/FoundNewReplicaSet@0",            Some(61)),
        ("pods come",                         "deadline=60 replicas=3 reason=NewReplicaSetCreated since=50",     "new=3,rev=1",                   "True/ReplicaSetUpdated@0",             Some(61)),
        ("nothing moves, still in time",      "deadline=60 replicas=3 reason=NewReplicaSetCreated since=50",     "new=3,rev=1,pods=0",            "True/NewReplicaSetCreated@50",         Some(11)),
        ("at the very second",                "deadline=60 replicas=3 reason=NewReplicaSetCreated since=60",     "new=3,rev=1,pods=0",            "True/NewReplicaSetCreated@60",         Some(1)),
        ("too late",                          "deadline=60 replicas=3 reason=ReplicaSetUpdated since=61",        "new=3,rev=1,pods=0",            "False/ProgressDeadlineExceeded@0",     None),
        ("it stays so",                       "deadline=60 reason=ProgressDeadlineExceeded since=99",            "new=3,rev=1,pods=0",            "False/ProgressDeadlineExceeded@99",    None),
        ("until something moves",             "deadline=60 reason=ProgressDeadlineExceeded since=99",            "new=3/1,rev=1",                 "True/ReplicaSetUpdated@0",             Some(61)),
        ("a failed creation counts, too",     "deadline=60 reason=ReplicaSetCreateError since=61",               "new=3,rev=1,pods=0",            "False/ProgressDeadlineExceeded@0",     None),
        ("complete",                          "deadline=60 replicas=3 reason=ReplicaSetUpdated since=5",         "new=3/3,rev=1",                 "True/NewReplicaSetAvailable@0",        None),
        ("complete even when it was late",    "deadline=60 replicas=3 reason=ProgressDeadlineExceeded since=99", "new=3/3,rev=1",                 "True/NewReplicaSetAvailable@0",        None),
        ("a pod is lost after completion",    "deadline=60 replicas=3 complete reason=NewReplicaSetAvailable since=999", "new=3/2,rev=1",         "True/NewReplicaSetAvailable@999",      None),
        ("a new rollout is not late at once", "deadline=60 replicas=3 complete reason=NewReplicaSetAvailable since=999", "a=3/3,rev=1 new=0,rev=2", "True/NewReplicaSetAvailable@999",    None),
        ("one that began unseen is timed",    "deadline=60 replicas=3 recreate revision=1 reason=NewReplicaSetAvailable since=999", "a=0,rev=1 new=3/1,rev=2", "True/FoundNewReplicaSet@0",  Some(61)),
        ("one that was seen is complete",     "deadline=60 replicas=3 recreate revision=2 reason=NewReplicaSetAvailable since=999", "a=0,rev=1 new=3/1,rev=2", "True/NewReplicaSetAvailable@999", None),
        ("so is one that is done already",    "deadline=60 replicas=3 recreate revision=1 reason=NewReplicaSetAvailable since=999", "a=0,rev=1 new=3/3,rev=2", "True/NewReplicaSetAvailable@999", None),
        ("its set was created, not reported", "deadline=60 complete about=a reason=NewReplicaSetAvailable since=999",   "a=3/3,rev=1 new=0,rev=2",       "True/NewReplicaSetCreated@0",          Some(61)),
        ("nor when all old pods were gone",   "deadline=60 complete revision=2 about=a reason=NewReplicaSetAvailable since=999", "a=0,rev=1 new=3/1,rev=2", "True/NewReplicaSetCreated@0",        Some(61)),
        ("nor after one that was late",       "deadline=60 about=a reason=ProgressDeadlineExceeded since=999",   "a=3,rev=1 new=0,rev=2",         "True/NewReplicaSetCreated@0",          Some(61)),
        ("an older set was not made for it",  "deadline=60 complete about=a reason=NewReplicaSetAvailable since=50", "a=3/3,rev=1 new=0,rev=2",   "True/NewReplicaSetAvailable@50",       None),
        ("no deadline, no condition",         "replicas=3 reason=ReplicaSetUpdated since=5",                     "new=3/3,rev=1",                 "",                                     None),
        ("a deadline that means none",        "deadline=2147483647 reason=ReplicaSetUpdated since=5",            "new=3/3,rev=1",                 "",                                     None),
        ("paused",                            "deadline=60 paused reason=ReplicaSetUpdated since=61",            "new=3,rev=1,desired=3,max=4",   "Unknown/DeploymentPaused@0",           Some(61)),
        ("still paused",                      "deadline=60 paused reason=DeploymentPaused since=999",            "new=3,rev=1,desired=3,max=4",   "Unknown/DeploymentPaused@999",         Some(1)),
        ("paused too late",                   "deadline=60 paused reason=ProgressDeadlineExceeded since=9",      "new=3,rev=1,desired=3,max=4",   "False/ProgressDeadlineExceeded@9",     None),
        ("the clock begins anew",             "deadline=60 replicas=3 reason=DeploymentPaused since=999",        "new=3,rev=1,pods=0",            "Unknown/DeploymentResumed@0",          Some(61)),
        ("being deleted, nothing is noted",   "deadline=60 deleting paused reason=ReplicaSetUpdated since=61",   "new=3,rev=1",                   "True/ReplicaSetUpdated@61",            Some(1)),
    ];
    for (case, deployment, sets, condition, wait) in table {
        assert_eq!(progressing(deployment, sets), (condition.to_owned(), wait), "{case}");
    }
}
