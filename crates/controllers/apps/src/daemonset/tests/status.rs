use std::sync::Arc;

use flyball_api::{ControllerRevision, DaemonSet};
use flyball_client::{Error, Verb};
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Effect, Outcome, Plan, Retry};

use super::world::{nodes, pods, set, view};
use crate::daemonset::plan::Step;
use crate::daemonset::status::{after, is_changed, status, time_to_available, write};

#[test]
fn nodes_are_counted_by_what_they_should_run_and_what_they_run() {
    #[rustfmt::skip]
    let table = [
        // set            nodes             pods                             desired current missched. ready available updated unavailable
        ("",              "n1 n2",          "",                              "2 0 0 0 0 0 2"),
        ("",              "n1 n2",          "a@n1 b@n2:unready",             "2 2 0 1 1 2 1"),
        ("min-ready=60",   "n1 n2",          "a@n1:ready=5 b@n2",             "2 2 0 2 1 2 1"),
        ("",              "n1 n2",          "a@n1:old b@n2",                 "2 2 0 2 2 1 0"),
        ("",              "n1:keep-off n2", "a@n1 b@n2",                     "1 1 1 1 1 1 0"),
        ("zone=x",        "n1",             "",                              "0 0 0 0 0 0 0"),
        ("surge=1",       "n1",             "a@n1:old,age=9 b@n1:age=1",     "1 1 0 1 1 0 0"),
        ("",              "n1",             "a@n1:failed,terminating",       "1 0 0 0 0 0 1"),
        ("",              "n1",             "a@n1:terminating",              "1 1 0 1 1 1 0"),
        ("",              "n1",             "a@n1 z@n9",                     "1 1 0 1 1 1 0"),
    ];
    for (set_words, node_words, pod_words, want) in table {
        let (set, nodes, pods) = (set(set_words), nodes(node_words), pods(pod_words));
        let said = status(&view(&set, &nodes, &pods), &[]);
        let counts = [
            said.desired_number_scheduled,
            said.current_number_scheduled,
            said.number_misscheduled,
            said.number_ready,
            said.number_available,
            said.updated_number_scheduled,
            said.number_unavailable,
        ];
        assert_eq!(counts.map(|count| count.to_string()).join(" "), want, "{node_words} {pod_words}");
        assert_eq!(said.observed_generation, 3);
    }
}

#[test]
fn the_history_is_trimmed_and_new_pods_count_if_all_writes_succeeded() {
    let (set, nodes, pods) = (set(""), nodes("n1 n2"), pods("a@n1"));
    let (view, mut old) = (view(&set, &nodes, &pods), ControllerRevision::default());
    (old.metadata.name, old.metadata.namespace) = ("agent-1".into(), "ns".into());
    let old = Arc::new(old);
    let planned = |failures: Vec<Failure<Step<'static>>>| {
        let created = Done { tag: Step::Create { node: "n2" }, answer: Answer::Written(None) };
        let effects = after(&view, &Outcome { done: vec![created], failures }, &[&old]);
        let plan = Plan::of([Effect::from(effects)]);
        let status = plan.writes().into_iter().find_map(|write| write.body()).unwrap();
        (plan.to_string(), status["status"]["currentNumberScheduled"].clone())
    };
    let trim = "\n    delete ControllerRevision ns/agent-1: nothing runs it and newer ones fill the history";
    let status = "\n  update DaemonSet/status ns/agent: 2 nodes should run a pod, 1 are ready";
    assert_eq!(planned(vec![]), (format!("each\n  in sequence{trim}{status}"), 2.into()));
    let failure = Failure {
        tag: None,
        verb: Some(Verb::Delete),
        doing: "deleting a pod".to_owned(),
        message: "no".to_owned(),
        error: Some(Error::Status(Box::default())),
        retry: Retry::Backoff,
        is_expected: false,
    };
    assert_eq!(planned(vec![failure]), (format!("each\n  in sequence{status}"), 1.into()));
}

#[test]
fn only_a_changed_status_is_written() {
    let (set, nodes, pods) = (set(""), nodes("n1"), pods("a@n1"));
    let fresh = status(&view(&set, &nodes, &pods), &[]);
    assert!(is_changed(&set.status, &fresh) && !is_changed(&fresh, &fresh));
    let words = write(&set, &fresh).unwrap().to_string();
    assert_eq!(words, "update DaemonSet/status ns/agent: 1 nodes should run a pod, 1 are ready");
    assert!(write(&DaemonSet { status: fresh.clone(), ..set }, &fresh).is_none());
    let later = flyball_api::daemon_set::DaemonSetStatus { observed_generation: 4, ..fresh.clone() };
    assert!(is_changed(&fresh, &later) && !is_changed(&later, &fresh), "an older generation is no change");
}

#[test]
fn the_next_sync_is_when_a_ready_pod_becomes_available() {
    #[rustfmt::skip]
    let table = [
        // case                              set                   pods                                     seconds
        ("without minReadySeconds",          "",                   "a@n1:ready=5",                          None),
        ("all are available",                "min-ready=60",        "a@n1",                                  None),
        ("one is on its way",                "min-ready=60",        "a@n1:ready=5",                          Some(55)),
        ("one surges beside one that serves", "min-ready=60 surge=1", "a@n1:old,age=900 b@n1:age=20,ready=10", Some(50)),
        ("one is not even ready",            "min-ready=60",        "a@n1:unready",                          None),
    ];
    for (case, set_words, pod_words, want) in table {
        let (set, nodes, pods) = (set(set_words), nodes("n1"), pods(pod_words));
        let view = view(&set, &nodes, &pods);
        let wait = time_to_available(&view);
        assert_eq!(wait.map(|wait| wait.as_secs()), want, "{case}");
    }
}

#[test]
fn pods_created_in_this_sync_count_where_there_was_none() {
    #[rustfmt::skip]
    let table = [
        // nodes            pods                           made      current updated ready
        ("n1 n2",           "a@n1",                        "n2",     (2, 2, 1)),
        ("n1 n2",           "a@n1",                        "",       (1, 1, 1)),
        ("n1",              "a@n1:old",                    "n1",     (1, 0, 1)),
        ("n1:keep-off n2",  "",                            "n1 n2",  (1, 1, 0)),
    ];
    for (node_words, pod_words, made, want) in table {
        let (set, nodes, pods) = (set(""), nodes(node_words), pods(pod_words));
        let made: Vec<&str> = made.split_whitespace().collect();
        let said = status(&view(&set, &nodes, &pods), &made);
        let counts = (said.current_number_scheduled, said.updated_number_scheduled, said.number_ready);
        assert_eq!(counts, want, "{node_words} {pod_words} {made:?}");
    }
}
