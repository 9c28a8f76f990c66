use serde_json::json;

use super::world::World;
use crate::deployment::decision::{Action, Report, decide};
use crate::deployment::plan::plan;

#[test]
fn a_rollback_uses_an_old_template_or_states_why_not() {
    #[rustfmt::skip]
    let table = [
        // case                                   deployment                 sets                                        plan
        ("to a revision",                         "rollback=1 revision=3",   "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",        "back to a of revision 1"),
        ("to the last one",                       "rollback=0 revision=3",   "a=0,rev=1 b=0,rev=2 new=3/3,rev=3",        "back to b of revision 2"),
        ("there is no last one",                  "rollback=0 revision=1",   "new=3/3,rev=1",                            "NoLast"),
        ("there is no such revision",             "rollback=7 revision=2",   "a=0,rev=1 new=3/3,rev=2",                  "NotFound"),
        ("it is the present one",                 "rollback=2 revision=2",   "a=0,rev=1 new=3/3,rev=2",                  "Unchanged"),
        ("the present one gets its set first",    "rollback=1 revision=1",   "a=3/3,rev=1",                              "create 1"),
        ("and its revision",                      "rollback=1 revision=2",   "new=0,rev=1 b=3/3,rev=2",                  "revise new to 3"),
        ("and says so",                           "rollback=1 revision=1",   "a=0,rev=1 new=3/3,rev=2",                  ""),
        ("what is no number is no request",       "rollback=x revision=2",   "a=0,rev=1 new=3/3,rev=2",                  ""),
        ("a pause comes before it",               "rollback=1 paused",       "a=0,rev=1 new=3/3,rev=2",                  ""),
    ];
    for (case, deployment, sets, want) in table {
        assert_eq!(World::new(deployment, sets).planned(), want, "{case}");
    }
}

#[test]
fn a_rollback_restores_template_and_annotations_and_removes_the_request() {
    let deployment =
        "rollback=1 revision=2 note=cause:edit note=kubectl.kubernetes.io/last-applied-configuration:x";
    let world = World::new(deployment, "a=0,rev=1,note=cause:create,desired=3 new=3/3,rev=2,note=cause:edit");
    let view = world.view();
    let planned = decide(&view);
    assert_eq!(planned.report, Report::Nothing);
    let [Action::RollBack(rollback)] = planned.actions.as_slice() else { panic!("{:?}", planned.actions) };
    let body = rollback.manifest(&world.deployment).unwrap();
    assert_eq!(
        body["metadata"]["annotations"],
        json!({"cause": "create", "deployment.kubernetes.io/revision": "2",
            "kubectl.kubernetes.io/last-applied-configuration": "x"})
    );
    assert_eq!(
        body["spec"]["template"],
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}})
    );
    assert_eq!(body["spec"]["replicas"], json!(3));
    assert_eq!(body["metadata"]["resourceVersion"], json!("1"));
    assert_eq!(
        plan(&view, &planned).to_string(),
        "update Deployment ns/web: a rollback to revision 1 was requested\n  \
         then event Normal DeploymentRollback: Rolled back deployment \"web\" to revision 1"
    );
}
