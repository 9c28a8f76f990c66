use flyball_client::{ApiStatus, Error, Verb};
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Metrics, Outcome, Retry};

use super::super::metrics::count;
use super::super::plan::{Reason, Step, Tag};

fn tag(step: Step) -> Tag {
    Tag { namespace: "n".into(), reason: Reason::Orphaned, step }
}

fn error(code: u16) -> Error {
    Error::Status(Box::new(ApiStatus { code, ..ApiStatus::default() }))
}

fn done(step: Step, answer: Answer) -> Outcome<Tag> {
    Outcome { done: vec![Done { tag: tag(step), answer }], failures: vec![] }
}

/// A write that failed.
fn failed(step: Step, error: Error) -> Outcome<Tag> {
    let (tag, verb, retry) = (Some(tag(step)), Some(Verb::Delete), Retry::Backoff);
    let (doing, message) = ("deleting Pod n/p".to_owned(), "no".to_owned());
    Outcome {
        done: vec![],
        failures: vec![Failure { tag, verb, doing, message, error: Some(error), retry, is_expected: false }],
    }
}

#[test]
fn each_pod_is_counted_once_and_only_if_a_request_was_made() {
    let outdated = Error::Outdated { what: "delete Pod n/p".into() };
    let gone = || Answer::Ignored(error(404));
    #[rustfmt::skip]
    let table = [
        // case                                        outcome                              attempts  failures
        ("marked, and to be deleted next",             done(Step::Mark, Answer::Written(None)),    0, 0),
        ("deleted",                                    done(Step::Delete, Answer::Written(None)),  1, 0),
        ("gone before it was marked",                  done(Step::Mark, gone()),                   1, 0),
        ("gone before it was deleted",                 done(Step::Delete, gone()),                 1, 0),
        ("could not be marked",                        failed(Step::Mark, error(500)),             1, 1),
        ("could not be deleted",                       failed(Step::Delete, error(500)),           1, 1),
        ("left out, since etcd may have been restored", failed(Step::Delete, outdated),            0, 0),
    ];
    for (case, outcome, attempts, failures) in table {
        let metrics = Metrics::default();
        count(&metrics, &outcome);
        let text = metrics.text();
        let value = |name: &str| {
            let labels = r#"{namespace="n",reason="orphaned"} "#;
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(labels));
            line.map_or(0, |number| number.parse().unwrap())
        };
        let counted = (
            value("pod_gc_collector_force_delete_pods_total"),
            value("pod_gc_collector_force_delete_pod_errors_total"),
        );
        assert_eq!(counted, (attempts, failures), "{case}");
    }
}
