//! The writes and events of decisions, as text.

use flyball_api::{Deployment, Selector};
use serde_json::json;

use super::world::World;
use crate::deployment::decision::decide;
use crate::deployment::plan::{plan, refusal, while_adopting};

fn planned(deployment: &str, sets: &str, pods: &str) -> String {
    let world = World::new(deployment, sets).with_pods(pods);
    let view = world.view();
    let decision = decide(&view);
    let created = decision.actions.iter().find_map(|action| match action {
        crate::deployment::decision::Action::Create(new) => Some(new.name.clone()),
        _ => None,
    });
    let text = plan(&view, &decision).to_string();
    created.map_or(text.clone(), |name| text.replace(&name, "HASHED"))
}

#[test]
fn every_write_has_its_reason_and_its_events() {
    #[rustfmt::skip]
    let table = [
        ("the first set", "replicas=3", "", "",
         "create ReplicaSet ns/HASHED: no ReplicaSet has the current template\n  \
            then event Normal ScalingReplicaSet: Scaled up replica set HASHED from 0 to 3\n  \
            else event Warning ReplicaSetCreateError: Failed to create new replica set \"HASHED\": <error>"),
        ("down, then wait for the new pods", "replicas=3 surge=0 unavailable=1", "a=3/3,rev=1 new=0,rev=2", "",
         "update ReplicaSet ns/a: 3 replicas to become 2; 3 wanted, 3 allowed, 2 must be available\n  \
            then event Normal ScalingReplicaSet: Scaled down replica set a from 3 to 2"),
        ("a rollout waits for its pods", "replicas=3", "new=3/1,rev=1", "",
         "waiting for ReplicaSet/ns/new to have 3 available pods"),
        ("Recreate waits for the last old pod", "replicas=3 recreate", "a=0,rev=1 new=0,rev=2", "a:Running",
         "waiting for Pod/ns/a-x to stop"),
        ("sets beyond the history limit", "replicas=3 limit=0 complete", "a=0,rev=1 new=3/3,rev=2", "",
         "delete ReplicaSet ns/a: it has no pods and is beyond the revision history limit"),
    ];
    for (case, deployment, sets, pods, want) in table {
        assert_eq!(planned(deployment, sets, pods), want, "{case}");
    }
}

#[test]
fn a_set_that_is_updated_twice_keeps_its_first_change() {
    let world = World::new("replicas=4 surge=4 unavailable=0 minready=5", "a=4/4,rev=1 new=1/1,rev=1");
    let view = world.view();
    let plan = plan(&view, &decide(&view));
    let bodies: Vec<_> = plan.writes().iter().map(|write| write.body().unwrap()).collect();
    let [revised, scaled] = bodies.as_slice() else { panic!("{plan}") };
    assert_eq!(
        (&revised["spec"]["minReadySeconds"], &scaled["spec"]["minReadySeconds"]),
        (&json!(5), &json!(5))
    );
    assert_eq!((&revised["spec"]["replicas"], &scaled["spec"]["replicas"]), (&json!(1), &json!(4)));
    let revision = |body: &serde_json::Value| {
        body["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone()
    };
    assert_eq!(revision(revised), revision(scaled));
    assert_eq!(scaled["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"], json!("4"));
}

/// The plan for a Deployment with this selector, if it is refused.
fn refused(deployment: &mut Deployment, selector: serde_json::Value) -> Option<String> {
    deployment.spec = deployment.spec.edited(|spec| spec["selector"] = selector).unwrap();
    let selector = Selector::from_object(deployment.spec.selector.as_ref()).unwrap();
    refusal(deployment, &selector).map(|plan| plan.to_string())
}

#[test]
fn a_deployment_of_all_pods_is_refused_once_per_generation() {
    let mut deployment = World::new("", "").deployment;
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    assert_eq!(
        refused(&mut deployment, json!({})).unwrap(),
        format!("event Warning SelectingAll: {message}\nupdate Deployment/status ns/web: {message}")
    );
    deployment.status.observed_generation = 3;
    let event = format!("event Warning SelectingAll: {message}");
    assert_eq!(refused(&mut deployment, json!({})).unwrap(), event);
}

#[test]
fn a_deployment_that_does_not_select_its_own_pods_is_invalid() {
    let mut deployment = World::new("", "").deployment;
    let selecting = |app: &str| json!({"matchLabels": {"app": app}});
    let problem = "invalid: the selector of ns/web does not match the labels of its template";
    assert_eq!(refused(&mut deployment, selecting("other")).as_deref(), Some(problem));
    let own = json!({"matchLabels": deployment.spec.template.metadata.labels.clone()});
    assert_eq!(refused(&mut deployment, own), None);
}

#[test]
fn only_the_status_is_written_while_the_cache_lacks_an_adoption() {
    let planned = |sets: &str| {
        let world = World::new("replicas=3", sets);
        let view = world.view();
        while_adopting(&view, &decide(&view)).map(|plan| plan.to_string())
    };
    assert_eq!(planned("new=3/3,rev=1"), None);
    let plan = planned("new=3/3,rev=1,orphan").unwrap();
    assert_eq!(plan, "update Deployment/status ns/web: it has adopted its ReplicaSet");
}
