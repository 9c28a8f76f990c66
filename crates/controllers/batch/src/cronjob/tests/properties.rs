//! A CronJob is run against a small model of a cluster, with Jobs that end or are deleted and crashes between writes: no
//! start in the status is made again, and the limits hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::condition::{Condition, TRUE};
use flyball_api::cron::Zone;
use flyball_api::job::{COMPLETE, FAILED};
use flyball_api::time::SignedDuration;
use flyball_api::{CronJob, Job, ObjectMeta, Timestamp, Uid};
use flyball_runtime::plan::{Answer, Done};
use flyball_runtime::{Outcome, Plan};
use proptest::prelude::*;
use serde_json::json;

use super::world::{at, cron, jobs};
use crate::cronjob::active::{is_listed, review, with_times};
use crate::cronjob::history::{clean_up, cleaned_up, surplus};
use crate::cronjob::invariants::{check_plan, check_status, check_surplus, start_of};
use crate::cronjob::plan::{plan, schedule};
use crate::cronjob::status::{self, with_existing};
use crate::cronjob::template::job_name;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// Time passes, in seconds.
    Pass(i64),
    /// The n-th active Job succeeds or fails.
    Ends(usize, bool),
    /// A user deletes the n-th Job.
    Vanishes(usize),
    /// A user suspends or resumes the CronJob.
    Suspend(bool),
    /// A sync that crashes after this many writes.
    Sync(usize),
}

const ALL: usize = 1_000;

fn event(crashes: bool) -> impl Strategy<Value = Event> {
    let writes = if crashes { (0..6usize).boxed() } else { Just(ALL).boxed() };
    prop_oneof![
        2 => prop_oneof![0..200i64, 0..20_000i64, 0..4_000_000i64].prop_map(Event::Pass),
        2 => (0..8usize, any::<bool>()).prop_map(|(n, well)| Event::Ends(n, well)),
        1 => (0..8usize).prop_map(Event::Vanishes),
        1 => any::<bool>().prop_map(Event::Suspend),
        4 => writes.prop_map(Event::Sync),
    ]
}

fn events(crashes: bool) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(crashes), 0..60)
}

/// Any CronJob that a server accepts and that fires.
fn crons() -> impl Strategy<Value = CronJob> {
    let schedules = prop::sample::select(vec![
        ("* * * * *", None),
        ("*/10 * * * *", None),
        ("0 * * * *", Some("Asia/Kolkata")),
        ("30 6-16/4 * * 1-5", None),
        ("15 2 * * *", Some("Europe/Berlin")),
        ("0 0 29 * *", None),
        ("@every 7m", None),
        ("@every 20s", None),
    ]);
    let policies = prop::sample::select(vec!["Allow", "Forbid", "Replace"]);
    let deadlines = prop::sample::select(vec![None, Some(5), Some(100), Some(4_000)]);
    let limits = || prop::sample::select(vec![None, Some(0), Some(1), Some(3)]);
    (schedules, policies, deadlines, limits(), limits()).prop_map(
        |((schedule, zone), policy, deadline, successes, failures)| {
            // With a deadline shorter than the interval it never fires, as in upstream: the interval counts from the deadline.
            let deadline = deadline.filter(|_| !schedule.starts_with('@'));
            cron(json!({"schedule": schedule, "timeZone": zone, "concurrencyPolicy": policy,
                "startingDeadlineSeconds": deadline, "successfulJobsHistoryLimit": successes,
                "failedJobsHistoryLimit": failures}))
        },
    )
}

/// The cluster: one CronJob, its Jobs, and the time.
struct Model {
    cron: CronJob,
    jobs: Vec<Arc<Job>>,
    now: Timestamp,
    made: usize,
    /// The starts that the status has had.
    noted: BTreeSet<Timestamp>,
}

impl Model {
    fn new(cron: CronJob) -> Self {
        Self { cron, jobs: vec![], now: at("00:00:00"), made: 0, noted: BTreeSet::new() }
    }

    fn running(&self) -> Vec<usize> {
        (0..self.jobs.len()).filter(|n| !self.jobs[*n].is_finished()).collect()
    }

    fn remove(&mut self, uid: &Uid) {
        self.jobs.retain(|job| job.metadata.uid != *uid);
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    fn plan(&self, cron: &CronJob) -> Plan<Option<Timestamp>> {
        let plan = plan(cron, self.now, &Zone::UTC);
        check_plan(cron, self.now, &Zone::UTC, &plan).unwrap();
        plan
    }

    /// One sync with at most this many writes, in the order of the shell.
    fn sync(&mut self, mut budget: usize) {
        let mut spend = || {
            let may = budget > 0;
            budget = budget.saturating_sub(1);
            may
        };
        let (read, seen) = (self.cron.clone(), self.jobs.clone());
        let mut cron = read.clone();
        let has_deleted;
        let gone = surplus(&read, &seen);
        check_surplus(&read, &seen, &gone).unwrap();
        let mut outcome = Outcome::default();
        for write in Plan::of(clean_up(&read, &seen, &gone)).writes() {
            if !spend() {
                return;
            }
            match write.tag {
                None => self.note(CronJob { status: with_times(&read, &seen), ..read.clone() }),
                Some(job) => self.remove(&job.metadata.uid),
            }
            outcome.done.push(Done { tag: write.tag, answer: Answer::Written(None) });
        }
        let cleaned = cleaned_up(&read, &seen, &gone, &outcome).unwrap();
        (cron.status, has_deleted) = (cleaned.status, cleaned.has_deleted);
        let mut review = review(&cron, &seen);
        while !review.missing.is_empty() {
            review.record_job(false);
        }
        cron.status = review.status;
        for write in self.plan(&cron).writes() {
            if !spend() {
                return;
            }
            let (tag, answer) = match write.tag {
                Some(start) => (write.tag, self.create(&mut cron, start)),
                None => (None, self.delete(&write.key.name)),
            };
            let done = answer.map(|meta| Done { tag, answer: Answer::Written(Some(Box::new(meta))) });
            let outcome = Outcome { done: done.into_iter().collect(), failures: vec![] };
            cron.status = status::after(&cron, &outcome);
        }
        check_status(&read.status, &cron.status).unwrap();
        if status::write(&read, &cron.status, has_deleted).is_some() && spend() {
            self.note(cron);
        }
    }

    fn note(&mut self, cron: CronJob) {
        check_status(&self.cron.status, &cron.status).unwrap();
        self.noted.extend(cron.status.last_schedule_time);
        self.cron = cron;
    }

    /// Creates the Job of a start, and returns its metadata; or lists the one that a sync created before it crashed.
    fn create(&mut self, cron: &mut CronJob, start: Timestamp) -> Option<ObjectMeta> {
        assert!(!self.noted.contains(&start), "{start} was noted before");
        let name = job_name(cron, start);
        if let Some(held) = self.jobs.iter().find(|job| job.metadata.name == name) {
            if !is_listed(&cron.status, &held.metadata.uid) {
                cron.status = with_existing(cron, held, start).unwrap();
            }
            return None;
        }
        self.made += 1;
        let mut job = jobs(&name).remove(0);
        let new = Arc::make_mut(&mut job);
        new.metadata.uid = format!("uid-{}", self.made).as_str().into();
        new.status.start_time = Some(self.now);
        let annotation = ("batch.kubernetes.io/cronjob-scheduled-timestamp", start.to_string());
        new.metadata.annotations = [annotation].into_iter().collect();
        let meta = new.metadata.clone();
        self.jobs.push(job);
        self.jobs.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        Some(meta)
    }

    /// Deletes a Job, and returns its metadata.
    fn delete(&mut self, name: &str) -> Option<ObjectMeta> {
        let n = self.jobs.iter().position(|job| job.metadata.name == name)?;
        Some(self.jobs.remove(n).metadata.clone())
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Pass(seconds) => self.pass(seconds),
            Event::Suspend(suspend) => {
                let mut spec = self.cron.spec.raw().to_value();
                spec["suspend"] = json!(suspend);
                self.cron.spec = serde_json::from_value(spec).unwrap();
            }
            Event::Ends(n, well) => {
                let running = self.running();
                let Some(n) = running.get(n % running.len().max(1)) else { return };
                let job = Arc::make_mut(&mut self.jobs[*n]);
                let type_ = if well { COMPLETE } else { FAILED };
                job.status.completion_time = well.then_some(self.now);
                let condition =
                    Condition { type_: type_.into(), status: TRUE.into(), ..Condition::default() };
                job.status.conditions.push(condition);
            }
            Event::Vanishes(n) => {
                let n = n % self.jobs.len().max(1);
                if n < self.jobs.len() {
                    self.jobs.remove(n);
                }
            }
            Event::Sync(budget) => self.sync(budget),
        }
    }

    /// What holds after every complete sync.
    fn check(&self) {
        let kept = |end: &str| {
            let ended = |job: &&Arc<Job>| job.end().is_some_and(|condition| condition.type_ == end);
            i32::try_from(self.jobs.iter().filter(ended).count()).unwrap()
        };
        let spec = &self.cron.spec;
        assert!(spec.successful_jobs_history_limit.is_none_or(|limit| kept(COMPLETE) <= limit));
        assert!(spec.failed_jobs_history_limit.is_none_or(|limit| kept(FAILED) <= limit));
        for listed in &self.cron.status.active {
            let job = self.jobs.iter().find(|job| job.metadata.uid == listed.uid);
            assert!(job.is_some(), "{} is listed and gone", listed.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn policies_and_limits_hold_whatever_happens(cron in crons(), events in events(false)) {
        let policy = cron.spec.concurrency_policy.clone();
        let mut model = Model::new(cron);
        for event in events {
            model.happens(event);
            if let Event::Sync(_) = event {
                model.check();
                if policy != "Allow" {
                    assert!(model.running().len() <= 1, "{policy} leaves {}", model.running().len());
                }
            }
        }
    }

    #[test]
    fn a_crash_makes_no_start_twice_and_is_got_over(cron in crons(), events in events(true)) {
        let is_forbidden = cron.spec.concurrency_policy == "Forbid";
        let mut model = Model::new(cron);
        for event in events {
            model.happens(event);
            assert!(!is_forbidden || model.running().len() <= 1, "a crash let another in");
        }
        // Then nothing crashes any more: two syncs are enough, and a third finds nothing to do.
        model.sync(ALL);
        model.sync(ALL);
        model.check();
        let (status, made) = (model.cron.status.clone(), model.made);
        model.sync(ALL);
        prop_assert_eq!((&model.cron.status, model.made), (&status, made));
    }

    #[test]
    fn who_wakes_when_told_misses_no_start(cron in crons(), begin in 0..40_000_000i64) {
        let mut model = Model::new(cron);
        model.pass(begin);
        model.sync(ALL);
        for _ in 0..20 {
            // No finished or deleted Job is in the list.
            model.jobs.clear();
            model.sync(ALL);
            let wait = model.plan(&model.cron).requeue.expect("it waits");
            let next = schedule(&model.cron, &Zone::UTC).unwrap().next(model.now);
            model.now = model.now.checked_add(SignedDuration::try_from(wait).unwrap()).unwrap();
            let start = start_of(&model.plan(&model.cron)).expect("a start is due");
            prop_assert!(Some(start) <= next, "{start} is after {next:?}");
            model.sync(ALL);
        }
    }
}
