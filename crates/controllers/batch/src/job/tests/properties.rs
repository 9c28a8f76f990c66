//! A Job is run against a small model of a cluster, with failing writes and crashes: every pod that ended is counted once,
//! and the Job ends.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Job, Timestamp};
use flyball_runtime::Plan;
use proptest::prelude::*;
use rustc_hash::FxHashSet;
use serde_json::json;

use super::world::{all_done, indexed, job, now, pod, reported, view};
use crate::job::conclusion::conclude;
use crate::job::indexes::Indexes;
use crate::job::invariants;
use crate::job::plan::{PodWrite, plan};
use crate::job::tally::Tally;
use crate::job::verdict::verdict;
use crate::job::view::{View, completion_index, has_finalizer, in_order};

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The n-th active pod succeeds or fails.
    Ends(usize, bool),
    /// A user deletes the n-th active pod.
    Deleted(usize),
    /// A sync that crashes after this many writes.
    Sync(usize),
    Parallelism(i32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..8usize, any::<bool>()).prop_map(|(n, well)| Event::Ends(n, well)),
        (0..8usize).prop_map(Event::Deleted),
        (0..8usize).prop_map(Event::Sync),
        (0..6i32).prop_map(Event::Parallelism),
    ]
}

/// The cluster: one Job, its pods, and the real outcome of those that it has to count.
struct Model {
    job: Job,
    pods: Vec<Arc<Pod>>,
    made: usize,
    succeeded: FxHashSet<String>,
    failed: FxHashSet<String>,
    /// The indexes of succeeded pods.
    done: FxHashSet<u32>,
}

impl Model {
    fn active(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|n| self.pods[*n].is_active()).collect()
    }

    fn change(&mut self, n: usize, change: impl Fn(&mut Pod)) {
        change(Arc::make_mut(&mut self.pods[n]));
        // Terminating pods without finalizers are removed.
        self.pods.retain(|pod| !pod.metadata.is_deleting() || has_finalizer(pod));
    }

    /// One sync that may make `budget` writes.
    fn sync(&mut self, budget: &mut usize) {
        if self.job.is_finished() {
            return;
        }
        let (job, pods) = (self.job.clone(), self.pods.clone());
        let view = view(&job, &pods);
        let tally = Tally::of(&view);
        let end = verdict(&view, &tally);
        let (_, plan) = plan(&view, &tally, end.as_ref());
        invariants::check_plan(&view, &tally, &plan).unwrap();
        let mut spend = || {
            let may = *budget > 0;
            *budget = budget.saturating_sub(1);
            may
        };
        // A crash is possible between any two writes, also between the two about a pod that does not count.
        for write in plan.writes() {
            if !spend() {
                return;
            }
            match write.tag {
                PodWrite::Create(new) => {
                    self.made += 1;
                    let index = new.index.map_or(String::new(), |n| format!(",index={n}"));
                    self.pods.push(pod(&format!("p{}:pending{index}", self.made)));
                }
                PodWrite::Release(gone) => self.free(&gone.metadata.name),
                PodWrite::Delete(gone) => self.delete(&gone.metadata.name),
            }
        }
        self.publish(&view, &mut spend);
        self.pods = in_order(std::mem::take(&mut self.pods));
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.pods.iter().position(|pod| pod.metadata.name == name)
    }

    /// Deletes a pod. A tracked pod is kept until it is counted, and counts as failed.
    fn delete(&mut self, name: &str) {
        let Some(n) = self.position(name) else { return };
        if has_finalizer(&self.pods[n]) {
            self.failed.insert(name.to_owned());
        }
        // Long ago, so that replacements need not wait.
        let when = Timestamp::from_second(now().as_second() - 3600).ok();
        self.change(n, |pod| pod.metadata.deletion_timestamp = when);
    }

    fn free(&mut self, name: &str) {
        let Some(n) = self.position(name) else { return };
        self.change(n, |pod| pod.metadata.finalizers = Box::new([]));
    }

    /// A pod ends. Without a finalizer it is not counted.
    fn end(&mut self, n: usize, phase: Phase) {
        let pod = &self.pods[n];
        if has_finalizer(pod) {
            let name = pod.metadata.name.to_string();
            if phase == Phase::Succeeded {
                self.succeeded.insert(name);
                self.done.extend(completion_index(pod));
            } else {
                self.failed.insert(name);
            }
        }
        self.change(n, |pod| {
            pod.status.phase = phase;
            // Long ago, so that replacements need not wait.
            pod.metadata.creation_timestamp = None;
        });
    }

    fn publish(&mut self, view: &View<'_>, spend: &mut impl FnMut() -> bool) {
        let report = reported(view);
        if report.write(view.job).is_some() {
            if !spend() {
                return;
            }
            self.job.status = report.status.clone();
        }
        let releases: Plan<&Pod> = Plan::of(report.releases());
        for write in releases.writes() {
            if !spend() {
                return;
            }
            self.free(&write.key.name);
        }
        let conclusion = conclude(view, &report, &all_done(&releases.writes()));
        if conclusion.write(view.job, &report).is_some() && spend() {
            self.job.status = conclusion.status;
        }
    }

    /// Counts never exceed the real outcomes, and no index has two pods.
    fn check(&self) {
        let status = &self.job.status;
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let failed = status.failed as usize + uncounted.failed.len();
        assert!(failed <= self.failed.len(), "a failure counted twice: {status:?}");
        if self.job.spec.is_indexed() {
            let completed = Indexes::parse(&status.completed_indexes, u32::MAX);
            assert_eq!(completed.total(), status.succeeded as usize, "{status:?}");
            assert!(completed.total() <= self.done.len(), "an index counted twice: {status:?}");
        } else {
            let succeeded = status.succeeded as usize + uncounted.succeeded.len();
            assert!(succeeded <= self.succeeded.len(), "a success counted twice: {status:?}");
        }
        let mut indexes = FxHashSet::default();
        for n in self.active() {
            if let Some(index) = completion_index(&self.pods[n]) {
                assert!(indexes.insert(index), "two active pods for index {index}");
            }
        }
    }

    fn happens(&mut self, event: Event) {
        let active = self.active();
        let pick = |n: usize| active.get(n % active.len().max(1)).copied();
        match event {
            Event::Ends(n, well) => {
                let Some(n) = pick(n) else { return };
                self.end(n, if well { Phase::Succeeded } else { Phase::Failed });
            }
            Event::Deleted(n) => {
                let Some(n) = pick(n) else { return };
                let name = self.pods[n].metadata.name.clone();
                self.delete(&name);
            }
            Event::Sync(mut budget) => self.sync(&mut budget),
            Event::Parallelism(parallelism) => {
                let mut spec = self.job.spec.raw().to_value();
                spec["parallelism"] = json!(parallelism);
                self.job.spec = serde_json::from_value(spec).unwrap();
            }
        }
    }
}

fn run(job: Job, events: Vec<Event>) {
    let (succeeded, failed, done) = Default::default();
    let mut model = Model { job, pods: vec![], made: 0, succeeded, failed, done };
    for event in events {
        model.happens(event);
        model.check();
    }
    // Then nothing fails any more, and all pods succeed: the Job must end, with all pods counted.
    model.happens(Event::Parallelism(3));
    for _ in 0..60 {
        model.sync(&mut 1_000);
        model.check();
        while let Some(n) = model.active().first().copied() {
            model.end(n, Phase::Succeeded);
        }
        // The nodes stop terminating pods at once.
        for pod in &mut model.pods {
            if pod.is_terminating() {
                Arc::make_mut(pod).status.phase = Phase::Failed;
            }
        }
    }
    let status = &model.job.status;
    assert!(model.job.is_finished(), "it never ended: {status:?}");
    assert!(model.pods.iter().all(|pod| !has_finalizer(pod)), "a finalizer is left");
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty(), "a pod is not counted");
    assert_eq!(status.failed as usize, model.failed.len(), "every failure is counted: {status:?}");
    if model.job.spec.is_indexed() {
        let done: Indexes = model.done.iter().copied().collect();
        assert_eq!(status.completed_indexes, done.to_string(), "every succeeded index is recorded");
    } else {
        assert_eq!(status.succeeded as usize, model.succeeded.len(), "every success is counted: {status:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pods_are_counted_once_whatever_happens(events in proptest::collection::vec(event(), 0..60)) {
        run(job(json!({"completions": 7, "backoffLimit": 8, "status": {"startTime": null}})), events);
    }

    #[test]
    fn indexes_have_one_pod_each_whatever_happens(events in proptest::collection::vec(event(), 0..60)) {
        run(indexed(json!({"completions": 5, "backoffLimit": 8, "status": {"startTime": null}})), events);
    }

    #[test]
    fn indexes_with_limits_end_whatever_happens(events in proptest::collection::vec(event(), 0..60)) {
        let spec = json!({"completions": 5, "backoffLimitPerIndex": 2, "backoffLimit": 2147483647, "status": {"startTime": null}});
        run(indexed(spec), events);
    }

    #[test]
    fn the_same_snapshot_gives_the_same_plan(
        words in proptest::collection::vec((0..6u8, 0..5u8), 0..20), parallelism in 0..10i32,
    ) {
        let states = ["pending", "ready", "failed", "succeeded", "terminating", "unscheduled"];
        let text: Vec<_> = words.iter().enumerate()
            .map(|(n, (state, index))| format!("p{n}:{},index={index}", states[usize::from(*state)])).collect();
        let own = super::world::pods(&text.join(" "));
        for job in [job(json!({"parallelism": parallelism})), indexed(json!({"parallelism": parallelism, "backoffLimitPerIndex": 1}))] {
            let view = view(&job, &own);
            let tally = Tally::of(&view);
            let end = verdict(&view, &tally);
            let (_, planned) = plan(&view, &tally, end.as_ref());
            prop_assert_eq!(invariants::check_plan(&view, &tally, &planned), Ok(()));
            prop_assert_eq!(planned.to_string(), plan(&view, &tally, end.as_ref()).1.to_string());
            let report = reported(&view);
            prop_assert_eq!(invariants::check_report(&view, &report), Ok(()));
        }
    }
}
