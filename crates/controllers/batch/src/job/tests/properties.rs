//! A Job is run against a small model of a cluster, with writes that fail and crashes between them: whatever
//! happens, every pod that ended is counted once, and the Job comes to its end.

use std::sync::Arc;

use flyball_api::job::JobStatus;
use flyball_api::pod::{Phase, Pod};
use flyball_api::{Job, Timestamp};
use proptest::prelude::*;
use rustc_hash::FxHashSet;
use serde_json::json;

use super::world::{indexed, job, now, pod, reported, view};
use crate::job::invariants;
use crate::job::plan::{Step, plan};
use crate::job::status::{conclude, settle, still_tracked};
use crate::job::tally::Tally;
use crate::job::verdict::verdict;
use crate::job::view::{View, has_finalizer, in_order};

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The n-th active pod ends well or badly.
    Ends(usize, bool),
    /// Somebody deletes the n-th active pod.
    Deleted(usize),
    /// A sync that gets this far: writes it makes before it crashes.
    Sync(usize),
    /// The parallelism changes.
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

/// The cluster: one Job, its pods, and what really became of them.
struct Model {
    job: Job,
    pods: Vec<Arc<Pod>>,
    made: usize,
    succeeded: FxHashSet<String>,
    failed: FxHashSet<String>,
}

impl Model {
    fn active(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|n| self.pods[*n].is_active()).collect()
    }

    fn change(&mut self, n: usize, change: impl Fn(&mut Pod)) {
        change(Arc::make_mut(&mut self.pods[n]));
        // Without finalizers, what is being deleted goes.
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
        let step = plan(&view, &tally, end.as_ref());
        invariants::check_step(&view, &tally, &step).unwrap();
        let mut spend = || {
            let may = *budget > 0;
            *budget = budget.saturating_sub(1);
            may
        };
        match &step {
            Step::Create(new) => {
                for pod_to_make in new {
                    if !spend() {
                        return;
                    }
                    self.made += 1;
                    let index = pod_to_make.index.map_or(String::new(), |n| format!(",index={n}"));
                    self.pods.push(pod(&format!("p{}:pending{index}", self.made)));
                }
            }
            Step::Stop(pods) | Step::Discard(pods) => {
                for gone in pods {
                    if !spend() {
                        return;
                    }
                    let keeps = matches!(step, Step::Stop(_));
                    self.delete(&gone.metadata.name, keeps);
                }
            }
            Step::Nothing | Step::Wait(_) => {}
        }
        self.tell(&view, &mut spend);
        self.pods = in_order(std::mem::take(&mut self.pods));
    }

    fn delete(&mut self, name: &str, keeps_finalizer: bool) {
        let Some(n) = self.pods.iter().position(|pod| pod.metadata.name == name) else { return };
        self.change(n, |pod| {
            // Long ago, so that replacements need not wait.
            pod.metadata.deletion_timestamp = Timestamp::from_second(now().as_second() - 3600).ok();
            if !keeps_finalizer {
                pod.metadata.finalizers = Box::new([]);
            }
        });
    }

    fn tell(&mut self, view: &View<'_>, spend: &mut impl FnMut() -> bool) {
        let (report, end) = reported(view);
        if report.status != self.job.status {
            if !spend() {
                return;
            }
            self.job.status = report.status.clone();
        }
        let mut tracked = still_tracked(view);
        let mut all = true;
        for freed in &report.release {
            if !spend() {
                all = false;
                break;
            }
            tracked.remove(&freed.metadata.uid);
            if let Some(n) = self.pods.iter().position(|pod| pod.metadata.name == freed.metadata.name) {
                self.change(n, |pod| pod.metadata.finalizers = Box::new([]));
            }
        }
        let mut status: JobStatus = report.status.clone();
        let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        settle(&mut status, &mut uncounted, |uid| tracked.contains(uid));
        status.uncounted_terminated_pods = Some(uncounted);
        if let Some(end) = end.filter(|_| all && !report.is_capped) {
            conclude(&mut status, &end, now());
        }
        if status != report.status && spend() {
            self.job.status = status;
        }
    }

    /// Pods that ended and whose finalizer somebody other than the Job's own deletion may not take: they count.
    fn check(&self) {
        let uncounted = self.job.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let failed = self.job.status.failed as usize;
        assert!(failed <= self.failed.len() + self.made, "more failures than pods");
        assert!(failed + uncounted.failed.len() <= self.made, "a failure counted twice");
        if !self.job.spec.is_indexed() {
            let succeeded = self.job.status.succeeded as usize;
            assert!(succeeded <= self.succeeded.len(), "a success counted twice");
        }
        let mut indexes = FxHashSet::default();
        for n in self.active() {
            if let Some(index) = crate::job::view::completion_index(&self.pods[n]) {
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
                let name = self.pods[n].metadata.name.to_string();
                if well {
                    self.succeeded.insert(name)
                } else {
                    self.failed.insert(name)
                };
                self.change(n, |pod| {
                    pod.status.phase = if well { Phase::Succeeded } else { Phase::Failed };
                    // Long ago, so that replacements need not wait.
                    pod.metadata.creation_timestamp = None;
                });
            }
            Event::Deleted(n) => {
                let Some(n) = pick(n) else { return };
                let name = self.pods[n].metadata.name.to_string();
                self.failed.insert(name.clone());
                self.delete(&name, true);
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
    let mut model =
        Model { job, pods: vec![], made: 0, succeeded: FxHashSet::default(), failed: FxHashSet::default() };
    for event in events {
        model.happens(event);
        model.check();
    }
    // Then nothing fails any more, and all pods succeed: the Job must come to its end, and all be told.
    model.happens(Event::Parallelism(3));
    for _ in 0..60 {
        model.sync(&mut 1_000);
        model.check();
        while let Some(n) = model.active().first().copied() {
            let name = model.pods[n].metadata.name.to_string();
            model.succeeded.insert(name);
            model.change(n, |pod| pod.status.phase = Phase::Succeeded);
        }
        // Nobody runs the pods that are being deleted: their node lets them go at once.
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
            let step = plan(&view, &tally, end.as_ref());
            prop_assert_eq!(invariants::check_step(&view, &tally, &step), Ok(()));
            prop_assert_eq!(&step, &plan(&view, &tally, end.as_ref()));
            let (report, _) = reported(&view);
            prop_assert_eq!(invariants::check_report(&view, &report), Ok(()));
        }
    }
}
