use flyball_runtime::Outcome;
use flyball_runtime::plan::{Answer, Done};

use super::super::attempts::{
    Attempt, DriverAnswer, FlexChange, Measure, answered, attempts, forced, measure, nodes_to_sync,
};
use super::super::disk_on_node::{FlexAttachment, Force};
use super::super::plan::plan;
use super::By;
use super::plan::Scene;

#[test]
fn attempts_end_by_failure_or_by_a_detach() {
    let ended = |nodes: &str| {
        let scene = Scene::new(nodes, By::Csi, "ReadWriteOnce");
        let view = scene.view(true);
        let done = plan(&view).writes().iter().map(|write| write.tag).collect::<Vec<_>>();
        let done = done.into_iter().map(|tag| Done { tag, answer: Answer::Written(None) }).collect();
        let ended = attempts(&view, &Outcome { done, failures: vec![] });
        let words: Vec<_> =
            ended.iter().map(|of| format!("{} {} {:?}", of.node, of.is_detach, of.error)).collect();
        words.join("; ")
    };
    assert_eq!(ended("n1:desired"), "", "the driver has yet to attach it");
    assert_eq!(ended("n1:attached"), "n1 true None");
    assert_eq!(ended("n1:attached,blocked"), "n1 true Some(\"in use\")");
    assert_eq!(ended("n1:deleting,before-start"), "", "the driver has yet to detach it");
    assert_eq!(
        ended("n1:deleting,error,detach-failed"),
        "n1 true Some(\"no such disk\")",
        "the status still has the error"
    );
    assert_eq!(ended("n1:desired,requested,error"), "n1 false Some(\"no such disk\")");
}

#[test]
fn the_answer_of_a_flex_driver_changes_what_is_recorded_and_may_end_an_attempt() {
    let busy = || "busy".to_owned();
    let is = |attachment| Some(FlexChange::Is(attachment));
    let verified = |is_attached| Some(FlexChange::Verified { is_attached });
    #[rustfmt::skip]
    let table = [
        // answer                                        recorded                                         ended: is_detach, error
        (DriverAnswer::Attach(Ok("/dev/x".into())),      is(FlexAttachment::Attached("/dev/x".into())),   None),
        (DriverAnswer::Attach(Err(busy())),              None,                                            Some((false, Some(busy())))),
        (DriverAnswer::Detach(Ok(())),                   is(FlexAttachment::None),                        Some((true, None))),
        (DriverAnswer::Detach(Err(busy())),              None,                                            Some((true, Some(busy())))),
        (DriverAnswer::Verify(Ok(Some(true))),           verified(true),                                  None),
        (DriverAnswer::Verify(Ok(Some(false))),          verified(false),                                 None),
        (DriverAnswer::Verify(Ok(None)),                 verified(true),                                  None),
        (DriverAnswer::Verify(Err(busy())),              verified(true),                                  None),
    ];
    for (answer, change, ended) in table {
        let case = format!("{answer:?}");
        let ended = ended.map(|(is_detach, error)| Attempt { node: "n1", is_detach, error });
        assert_eq!(answered("n1", answer), (change, ended), "{case}");
    }
}

#[test]
fn other_queues_and_metrics_follow_the_steps() {
    #[rustfmt::skip]
    let table = [
        // nodes                                    attached by  to sync       forced
        ("n1:desired",                              By::Csi,     vec![],       vec![]),
        ("n1:desired,attached",                     By::Csi,     vec!["n1"],   vec![]),
        ("n1:desired",                              By::Node,    vec!["n1"],   vec![]),
        ("n1:attached",                             By::Csi,     vec![],       vec![]),
        ("n1:attached,mounted,out-of-service",      By::Csi,     vec![],       vec![("n1", Force::OutOfService)]),
        ("n1:attached,mounted,unhealthy,overdue",   By::Csi,     vec![],       vec![("n1", Force::Timeout)]),
    ];
    for (nodes, by, to_sync, want) in table {
        let scene = Scene::new(nodes, by, "ReadWriteOnce");
        let view = scene.view(true);
        assert_eq!((nodes_to_sync(&view), forced(&view)), (to_sync, want), "{nodes}");
    }
}

#[test]
fn an_attempt_is_measured_once() {
    let attempt =
        |is_detach, error: Option<&str>| Attempt { node: "n1", is_detach, error: error.map(str::to_owned) };
    let attached = |is_ok| format!("attach {is_ok}");
    #[rustfmt::skip]
    let table = [
        // nodes                    attempt                         measured
        ("n1:desired",              attempt(false, None),           attached(true)),
        ("n1:desired",              attempt(false, Some("busy")),   attached(false)),
        ("n1:desired,attached",     attempt(true, Some("busy")),    "failed detach".to_owned()),
        ("n1:attached",             attempt(true, Some("busy")),    "failed detach".to_owned()),
        ("n1:attached",             attempt(true, None),            String::new()), // when the VolumeAttachment is gone
        ("n2:attached",             attempt(true, Some("busy")),    "failed detach".to_owned()),
    ];
    for (nodes, attempt, want) in table {
        let scene = Scene::new(nodes, By::Csi, "ReadWriteOnce");
        let measured = match measure(&scene.view(true), &attempt) {
            Some(Measure::Attach { disk, is_ok }) => {
                assert_eq!(disk.name, scene.desired.disk.name);
                format!("attach {is_ok}")
            }
            Some(Measure::FailedDetach { is_inline }) => {
                assert!(!is_inline);
                "failed detach".to_owned()
            }
            None => String::new(),
        };
        assert_eq!(measured, want, "{nodes} {attempt:?}");
    }
}
