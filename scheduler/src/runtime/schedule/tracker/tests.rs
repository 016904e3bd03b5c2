use super::*;
use crate::runtime::job::report::JobState;
use ebb_test_support::seed::for_seeds;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

fn tracker(maps: u32, reduces: u32) -> Tracker {
    let job = Job::new(JobId(1), 0.0, None);
    Tracker::new(job, maps, reduces, &JobProfile::default())
}

/// An attempt that a worker runs.
#[derive(Clone, Debug)]
struct HeldAttempt {
    task: TaskId,
    attempt: u32,
    attempt_state: Arc<AttemptState>,
}

fn held(work: Option<Work>) -> HeldAttempt {
    match work {
        Some(Work::Task {
            task,
            attempt,
            attempt_state,
        }) => HeldAttempt {
            task,
            attempt,
            attempt_state,
        },
        other => panic!("a task expected, got {other:?}"),
    }
}

fn claim_task(tracker: &mut Tracker) -> HeldAttempt {
    held(tracker.claim(true, 0.0))
}

fn done(tracker: &mut Tracker, held: &HeldAttempt, now_s: f64) -> TaskDone {
    tracker.task_done(held.task, held.attempt, &Counters::default(), now_s)
}

fn fail(tracker: &mut Tracker, held: &HeldAttempt) -> bool {
    tracker.task_failed(held.task, held.attempt, &TaskError::failed("no"), 0.0)
}

#[test]
fn reduces_start_after_the_last_map_and_the_commit_after_the_last_reduce() {
    let mut tracker = tracker(2, 1);
    assert!(tracker.claim(false, 0.0).is_none());
    let (first, second) = (claim_task(&mut tracker), claim_task(&mut tracker));
    assert!(tracker.claim(true, 0.0).is_none());
    assert!(!done(&mut tracker, &first, 1.0).phase_ended);
    assert!(tracker.claim(true, 1.0).is_none(), "a map still runs");
    assert!(done(&mut tracker, &second, 1.0).phase_ended);
    let reduce = claim_task(&mut tracker);
    assert_eq!(reduce.task.kind, TaskKind::Reduce);
    assert!(done(&mut tracker, &reduce, 2.0).phase_ended);
    assert!(matches!(tracker.claim(false, 2.0), Some(Work::Commit)));
    assert!(tracker.claim(true, 2.0).is_none());
    assert!(!tracker.cancel(), "too late");
    tracker.commit_done(Ok(()));
    assert_eq!(tracker.ended(), Some(&Outcome::Succeeded));
}

#[test]
fn the_fourth_failure_stops_the_job_once_its_other_tasks_have_ended() {
    let mut tracker = tracker(2, 0);
    let other = claim_task(&mut tracker);
    for attempt in 1..=ATTEMPTS_MAX {
        let held = claim_task(&mut tracker);
        assert_eq!(held.task.index, 1);
        assert_eq!(fail(&mut tracker, &held), attempt == ATTEMPTS_MAX);
    }
    assert!(
        tracker.claim(true, 0.0).is_none(),
        "the other task still runs"
    );
    assert_eq!(tracker.state(), JobState::Stopping);
    tracker.task_failed(other.task, other.attempt, &TaskError::Cancelled, 9.0);
    assert!(matches!(tracker.claim(false, 0.0), Some(Work::Abort)));
    tracker.abort_done();
    assert_eq!(tracker.cause(), Some("job-1/map-1, attempt 4: no"));
    assert_eq!(tracker.counters().attempts_failed, 4);
    assert_eq!(tracker.counters().tasks_retried, 3);
}

#[test]
fn a_failed_commit_is_aborted() {
    let mut tracker = tracker(0, 0);
    assert!(matches!(tracker.claim(false, 0.0), Some(Work::Commit)));
    tracker.commit_done(Err(TaskError::failed("disk full")));
    assert!(matches!(tracker.claim(false, 0.0), Some(Work::Abort)));
    tracker.abort_done();
    assert_eq!(tracker.state(), JobState::Failed);
}

#[test]
fn an_estimate_gives_way_to_the_use_of_running_and_finished_tasks() {
    let mut tracker = tracker(3, 0);
    assert_eq!(tracker.live().unwrap().map_cpu_s, 1.0);
    let held = claim_task(&mut tracker);
    held.attempt_state.charge_s(5.0);
    assert_eq!(tracker.live().unwrap().map_cpu_s, 5.0);
    held.attempt_state.charge_s(1.0);
    done(&mut tracker, &held, 7.0);
    let live = tracker.live().unwrap();
    assert_eq!((live.map_cpu_s, live.pending_maps), (6.0, 2));
}

#[test]
fn an_attempt_without_a_step_is_given_up_and_its_late_result_has_no_effect() {
    let mut tracker = tracker(1, 0);
    let hanging = claim_task(&mut tracker);
    for now_s in [1.0, 2.0, 3.0] {
        hanging.attempt_state.step();
        assert!(tracker.watch(now_s, true, 2.0).is_empty(), "it makes steps");
    }
    assert!(tracker.watch(4.5, true, 2.0).is_empty(), "not long enough");
    assert!(tracker.watch(9.0, false, 2.0).is_empty(), "it had no share");
    assert!(
        tracker.watch(9.25, true, 2.0).is_empty(),
        "1.75 s with a share"
    );
    hanging.attempt_state.set_waiting(true);
    assert!(
        tracker.watch(19.0, true, 2.0).is_empty(),
        "it waits for CPU"
    );
    hanging.attempt_state.set_waiting(false);
    assert_eq!(tracker.watch(21.0, true, 2.0).len(), 1);

    assert!(!tracker.may_finish(hanging.task, hanging.attempt));
    let second = claim_task(&mut tracker);
    assert_eq!((second.task, second.attempt), (hanging.task, 2));
    assert!(!done(&mut tracker, &hanging, 22.0).won);
    assert!(!fail(&mut tracker, &hanging));
    assert!(tracker.may_finish(second.task, 2));
    assert!(done(&mut tracker, &second, 23.0).won);
    assert_eq!(tracker.counters().attempts_failed, 1);
    assert!(matches!(tracker.claim(false, 23.0), Some(Work::Commit)));
}

/// Regression: each pause of the job restarted the count of the seconds without progress. A server
/// may pause its jobs every ten seconds, so a hanging attempt was never given up.
#[test]
fn an_attempt_that_hangs_is_given_up_although_its_job_pauses_again_and_again() {
    let mut tracker = tracker(1, 0);
    claim_task(&mut tracker);
    for second in 1..8 {
        let has_share = second % 2 == 1;
        assert!(
            tracker.watch(f64::from(second), has_share, 5.0).is_empty(),
            "at most 4 of {second} s with a share"
        );
    }
    assert!(tracker.watch(8.0, false, 5.0).is_empty(), "a pause");
    assert_eq!(tracker.watch(9.0, true, 5.0).len(), 1);
}

#[test]
fn an_attempt_that_finishes_its_output_is_not_given_up() {
    let mut tracker = tracker(1, 0);
    let held = claim_task(&mut tracker);
    assert!(tracker.may_finish(held.task, held.attempt));
    assert!(tracker.watch(100.0, true, 2.0).is_empty());
    assert!(done(&mut tracker, &held, 101.0).won);
}

#[test]
fn a_job_whose_attempts_all_hang_fails_even_while_it_stops() {
    let mut tracker = tracker(1, 0);
    for attempt in 1..=ATTEMPTS_MAX {
        assert_eq!(claim_task(&mut tracker).attempt, attempt);
        assert_eq!(tracker.watch(f64::from(attempt) * 10.0, true, 5.0).len(), 1);
    }
    assert_eq!(tracker.state(), JobState::Stopping);
    let cause = tracker.cause().unwrap();
    assert!(
        cause.contains("attempt 4: the task made no progress (no record"),
        "{cause}"
    );
    assert!(matches!(tracker.claim(false, 40.0), Some(Work::Abort)));

    let mut cancelled = self::tracker(1, 0);
    claim_task(&mut cancelled);
    assert!(cancelled.cancel());
    assert!(cancelled.claim(false, 0.0).is_none(), "a task runs");
    assert_eq!(cancelled.watch(9.0, false, 5.0).len(), 1, "share or not");
    assert!(matches!(cancelled.claim(false, 9.0), Some(Work::Abort)));
}

/// Returns a job of three maps, and the attempt at the last map. Two maps took a second; the last
/// is at 10% after four seconds.
fn with_a_straggler() -> (Tracker, HeldAttempt) {
    let mut tracker = tracker(3, 0);
    let quick = [claim_task(&mut tracker), claim_task(&mut tracker)];
    let slow = claim_task(&mut tracker);
    for held in &quick {
        assert!(tracker.may_finish(held.task, held.attempt));
        done(&mut tracker, held, 1.0);
    }
    slow.attempt_state.set_input(100);
    slow.attempt_state.set_handled(10);
    assert!(
        tracker.claim_speculative(4.0).is_none(),
        "`watch` has not run yet"
    );
    tracker.watch(4.0, true, 60.0);
    assert_eq!(tracker.live().unwrap().speculative, 1);
    (tracker, slow)
}

#[test]
fn a_straggler_gets_one_second_attempt_and_the_first_of_the_two_counts() {
    for second_wins in [false, true] {
        let (mut tracker, slow) = with_a_straggler();
        let speculative = held(tracker.claim_speculative(4.0));
        assert_eq!((speculative.task, speculative.attempt), (slow.task, 2));
        tracker.watch(8.0, true, 60.0);
        assert!(tracker.claim_speculative(8.0).is_none(), "it has one");
        let live = tracker.live().unwrap();
        assert_eq!((live.running.len(), live.speculative), (1, 0), "one task");

        let (first, second) = if second_wins {
            (&speculative, &slow)
        } else {
            (&slow, &speculative)
        };
        assert!(tracker.may_finish(first.task, first.attempt));
        assert!(!tracker.may_finish(second.task, second.attempt));
        let ended = done(&mut tracker, first, 9.0);
        assert!(ended.won && ended.phase_ended && ended.stopped_others);
        assert!(second.attempt_state.is_stopped());
        assert!(!tracker.task_failed(second.task, second.attempt, &TaskError::Cancelled, 9.0));
        let counters = tracker.counters();
        assert_eq!((counters.tasks_done, counters.attempts_failed), (3, 0));
        assert_eq!(counters.speculative_attempts, 1);
    }
}

#[test]
fn while_one_of_two_attempts_runs_the_failure_of_the_other_starts_none() {
    let (mut tracker, slow) = with_a_straggler();
    let speculative = held(tracker.claim_speculative(4.0));
    assert!(!fail(&mut tracker, &slow));
    assert!(tracker.claim(true, 5.0).is_none());
    assert!(!fail(&mut tracker, &speculative));
    assert_eq!(claim_task(&mut tracker).attempt, 3);
    let counters = tracker.counters();
    assert_eq!((counters.attempts_failed, counters.tasks_retried), (2, 1));
}

#[test]
fn an_attempt_that_fails_to_finish_its_output_leaves_the_task_to_another() {
    let (mut tracker, slow) = with_a_straggler();
    let speculative = held(tracker.claim_speculative(4.0));
    assert!(tracker.may_finish(speculative.task, speculative.attempt));
    assert!(!tracker.may_finish(slow.task, slow.attempt), "too late");
    tracker.task_failed(slow.task, slow.attempt, &TaskError::Cancelled, 9.0);
    assert!(!fail(&mut tracker, &speculative), "its disk was full");
    let third = claim_task(&mut tracker);
    assert!(tracker.may_finish(third.task, third.attempt));
    assert!(done(&mut tracker, &third, 6.0).won);
    assert_eq!(tracker.counters().attempts_failed, 1);
}

#[test]
fn a_preempted_attempt_is_no_failure_and_its_task_waits_again_once_it_has_ended() {
    let mut tracker = tracker(1, 0);
    for attempt in 1..=2 * ATTEMPTS_MAX {
        let held = claim_task(&mut tracker);
        assert_eq!(held.attempt, attempt);
        assert!(tracker.preempt(held.task, attempt));
        assert!(held.attempt_state.is_stopped());
        assert!(!tracker.preempt(held.task, attempt), "once is enough");
        assert_eq!(
            (tracker.active_attempts().count(), tracker.running()),
            (0, 1)
        );
        assert!(tracker.claim(true, 0.0).is_none(), "it still runs");
        assert!(!fail(&mut tracker, &held));
        assert!(!tracker.preempt(held.task, attempt), "it has ended");
    }
    let last = claim_task(&mut tracker);
    assert!(tracker.may_finish(last.task, last.attempt));
    assert!(
        !tracker.preempt(last.task, last.attempt),
        "it already finishes its output"
    );
    assert!(done(&mut tracker, &last, 1.0).won);
    let counters = tracker.counters();
    assert_eq!((counters.attempts_failed, counters.tasks_retried), (0, 0));
    let records = tracker.take_records().into_iter();
    let preempted = records.filter(|record| record.outcome == AttemptOutcome::Preempted);
    assert_eq!(preempted.count() as u32, 2 * ATTEMPTS_MAX);
}

#[test]
fn a_preempted_attempt_that_is_done_before_it_notices_counts() {
    let mut tracker = tracker(1, 0);
    let held = claim_task(&mut tracker);
    assert!(tracker.preempt(held.task, held.attempt));
    assert!(tracker.may_finish(held.task, held.attempt));
    assert!(done(&mut tracker, &held, 1.0).won);
    assert!(matches!(tracker.claim(false, 1.0), Some(Work::Commit)));
}

#[test]
fn a_preempted_attempt_that_never_notices_is_given_up_though_its_job_has_no_share() {
    let mut tracker = tracker(1, 0);
    let held = claim_task(&mut tracker);
    assert!(tracker.watch(9.0, false, 5.0).is_empty(), "it has no share");
    assert!(tracker.preempt(held.task, held.attempt));
    assert!(tracker.watch(13.0, false, 5.0).is_empty());
    assert_eq!(tracker.watch(14.0, false, 5.0).len(), 1);
    assert_eq!(claim_task(&mut tracker).attempt, 2);
    assert_eq!(tracker.counters().attempts_failed, 0);
}

#[test]
fn of_two_attempts_at_a_task_the_other_attempt_goes_on_when_one_is_preempted() {
    let (mut tracker, slow) = with_a_straggler();
    let speculative = held(tracker.claim_speculative(4.0));
    assert!(tracker.preempt(speculative.task, speculative.attempt));
    assert!(!fail(&mut tracker, &speculative));
    assert!(tracker.claim(true, 5.0).is_none());
    assert!(tracker.may_finish(slow.task, slow.attempt));
    assert!(done(&mut tracker, &slow, 6.0).won);
}

#[test]
fn on_the_floor_an_attempt_in_the_idle_class_is_overtaken_though_no_task_is_done() {
    let mut tracker = tracker(1, 0);
    let idle = claim_task(&mut tracker);
    tracker.watch(100.0, true, 1e9);
    assert!(
        tracker.claim_speculative(100.0).is_none(),
        "the length of such a task is unknown"
    );
    tracker.seek_starved(false);
    let second = held(tracker.claim_speculative(100.0));
    second.attempt_state.set_on_floor(true);
    assert_eq!((second.task, second.attempt), (idle.task, 2));
    assert_eq!((tracker.running(), tracker.running_on_floor()), (2, 1));
    tracker.seek_starved(false);
    assert!(tracker.claim_speculative(101.0).is_none(), "it advances");

    // The floor has ended and begins again.
    second.attempt_state.set_on_floor(false);
    second.attempt_state.set_input(100);
    second.attempt_state.set_handled(50);
    tracker.seek_starved(false);
    assert!(idle.attempt_state.is_stopped() && !second.attempt_state.is_stopped());
    assert!(
        tracker.claim_speculative(101.0).is_none(),
        "the first still runs"
    );
    assert!(!tracker.task_failed(idle.task, idle.attempt, &TaskError::Cancelled, 102.0));
    tracker.seek_starved(false);
    assert_eq!(held(tracker.claim_speculative(102.0)).attempt, 3);
    assert_eq!(tracker.counters().speculative_attempts, 2);
}

#[test]
fn a_slow_attempt_on_the_floor_gets_no_second_one() {
    for (is_on_floor, is_overtaken) in [(false, true), (true, false)] {
        let mut tracker = tracker(2, 0);
        let (quick, slow) = (claim_task(&mut tracker), claim_task(&mut tracker));
        done(&mut tracker, &quick, 1.0);
        slow.attempt_state.set_on_floor(is_on_floor);
        tracker.watch(100.0, true, 1e9);
        let second = tracker.claim_speculative(100.0);
        assert_eq!(second.is_some(), is_overtaken, "{is_on_floor}");
    }
}

#[test]
fn of_two_attempts_of_unknown_progress_the_one_that_used_less_cpu_is_stopped() {
    let mut tracker = tracker(1, 0);
    let first = claim_task(&mut tracker);
    tracker.seek_starved(false);
    let second = held(tracker.claim_speculative(1.0));
    second.attempt_state.charge_s(1.0);
    tracker.seek_starved(false);
    assert!(first.attempt_state.is_stopped() && !second.attempt_state.is_stopped());
}

/// Regression: in the idle class, a map went on to sample the keys of a global sort, and all attempts on
/// the floor (in the ordinary class with a high nice value) waited for the sample.
#[test]
fn on_the_floor_an_attempt_in_the_idle_class_that_samples_the_keys_is_stopped() {
    let mut tracker = tracker(2, 0);
    let (sampler, other) = (claim_task(&mut tracker), claim_task(&mut tracker));
    sampler.attempt_state.set_sampling(true);
    tracker.seek_starved(true);
    assert!(!sampler.attempt_state.is_stopped(), "its thread moves");
    tracker.seek_starved(false);
    assert!(sampler.attempt_state.is_stopped() && !other.attempt_state.is_stopped());
    assert_eq!(held(tracker.claim_speculative(1.0)).task, sampler.task);
    assert!(!fail(&mut tracker, &sampler));
    assert_eq!(tracker.counters().attempts_failed, 0);
}

/// Regression: an attempt in the idle class that sampled the keys was stopped only while it was the
/// only one at its task. A second one, on the floor, waited for its sample.
#[test]
fn on_the_floor_a_sampler_in_the_idle_class_is_stopped_beside_a_second_attempt_at_its_task() {
    let mut tracker = tracker(1, 0);
    let sampler = claim_task(&mut tracker);
    tracker.seek_starved(false);
    let second = held(tracker.claim_speculative(1.0));
    second.attempt_state.set_on_floor(true);
    sampler.attempt_state.set_sampling(true);
    tracker.seek_starved(false);
    assert!(sampler.attempt_state.is_stopped() && !second.attempt_state.is_stopped());
}

/// Regression: of two attempts at a task, the one that waited for the other's sample was stopped,
/// too, so the task had none left.
#[test]
fn of_two_attempts_in_the_idle_class_only_the_one_that_samples_is_stopped() {
    let mut tracker = tracker(1, 0);
    let sampler = claim_task(&mut tracker);
    tracker.seek_starved(false);
    let second = held(tracker.claim_speculative(1.0));
    sampler.attempt_state.charge_s(1.0);
    sampler.attempt_state.set_sampling(true);
    tracker.seek_starved(false);
    assert!(sampler.attempt_state.is_stopped() && !second.attempt_state.is_stopped());
}

/// Regression: an attempt in the idle class waited for its share while jobs were paused.
/// Afterwards a second attempt began, though the first thread could move by itself to the
/// floor, the ordinary class with a high nice value.
#[test]
fn a_thread_that_can_leave_the_idle_class_is_not_overtaken_and_a_process_is() {
    let mut tracker = tracker(1, 0);
    let idle = claim_task(&mut tracker);
    tracker.seek_starved(true);
    assert!(tracker.claim_speculative(1.0).is_none());
    idle.attempt_state.set_in_process();
    tracker.seek_starved(true);
    assert_eq!(held(tracker.claim_speculative(1.0)).task, idle.task);
}

/// Regression: while tasks ran on the floor (in the ordinary class with a high nice value),
/// the control thread began a second attempt at the task of a leased thread, and panicked
/// because a lease has no tasks for workers.
#[test]
fn a_thread_under_a_lease_is_not_overtaken() {
    let mut lease = Tracker::leased(Job::new(JobId(1), 0.0, None), 1.0, 1.0);
    lease.enter(0.0).expect("the lease was not cancelled");
    lease.seek_starved(false);
    assert!(lease.claim_speculative(1.0).is_none());
}

/// Regression: a lease lost its share in the second control cycle without a thread, however soon that
/// cycle came: the submission of another job starts one at once.
#[test]
fn control_cycles_that_start_early_do_not_shorten_the_grace_period_of_a_lease() {
    let mut lease = Tracker::leased(Job::new(JobId(1), 0.0, None), 1.0, 0.25);
    let has_work_at = |lease: &mut Tracker, now_s| {
        lease.watch(now_s, true, 60.0);
        lease.live().is_some()
    };
    for now_s in [1.0, 1.125, 1.125] {
        assert!(has_work_at(&mut lease, now_s), "at {now_s}");
    }
    assert!(!has_work_at(&mut lease, 1.25));
    let (task, attempt, _) = lease.enter(1.5).expect("the lease was not cancelled");
    assert!(has_work_at(&mut lease, 3.0), "a thread is in");
    lease.leave(task, attempt);
    for now_s in [4.0, 4.125] {
        assert!(has_work_at(&mut lease, now_s), "at {now_s}");
    }
    assert!(!has_work_at(&mut lease, 4.25));
}

#[test]
fn only_an_attempt_in_the_idle_class_is_stopped_for_its_memory() {
    let mut tracker = tracker(2, 0);
    let (on_floor, idle) = (claim_task(&mut tracker), claim_task(&mut tracker));
    on_floor.attempt_state.set_on_floor(true);
    assert!(!tracker.preempt_straggler(), "no straggler was chosen yet");
    tracker.seek_starved(false);
    assert_eq!(tracker.stopped(), 0);
    assert!(tracker.preempt_straggler());
    assert!(!tracker.preempt_straggler(), "once is enough");
    assert_eq!(tracker.stopped(), 1);
    assert!(idle.attempt_state.is_stopped() && !on_floor.attempt_state.is_stopped());
    assert!(!fail(&mut tracker, &idle));
    assert_eq!(claim_task(&mut tracker).task, idle.task);
}

fn following(others: &[u64]) -> Tracker {
    let job = Job::new(JobId(9), 0.0, None);
    let mut tracker = Tracker::following(job, 1, &JobProfile::default());
    others.iter().for_each(|id| tracker.follow(JobId(*id)));
    tracker
}

#[test]
fn a_job_waits_for_all_that_it_follows_and_is_split_before_it_runs() {
    let mut tracker = following(&[1, 2]);
    assert!(!tracker.other_ended(JobId(3), None), "another one");
    assert!(!tracker.other_ended(JobId(1), None));
    assert!(tracker.claim(true, 0.0).is_none() && tracker.live().is_none());
    assert_eq!(tracker.follows().collect::<Vec<_>>(), [JobId(2)]);
    assert!(tracker.other_ended(JobId(2), None));
    assert!(matches!(tracker.claim(false, 0.0), Some(Work::Split)));
    assert!(tracker.claim(true, 0.0).is_none() && tracker.live().is_none());
    assert_eq!(tracker.state(), JobState::Waiting);
    tracker.split_done(Ok((2, JobProfile::default())));
    assert_eq!(tracker.live().unwrap().pending_maps, 2);
    assert_eq!(claim_task(&mut tracker).task.kind, TaskKind::Map);
}

#[test]
fn a_job_fails_once_with_the_first_failure_of_the_jobs_that_it_follows() {
    let mut tracker = following(&[1, 2]);
    assert!(tracker.other_ended(JobId(1), Some("was cancelled")));
    assert!(
        !tracker.other_ended(JobId(2), None),
        "it has failed already"
    );
    assert!(matches!(tracker.claim(false, 0.0), Some(Work::Abort)));
    tracker.abort_done();
    assert_eq!(
        tracker.cause(),
        Some("job-1, which this job follows, was cancelled")
    );
}

#[test]
fn a_failed_split_fails_the_job_and_a_cancellation_waits_for_the_split() {
    for cancelled in [false, true] {
        let mut tracker = following(&[1]);
        tracker.other_ended(JobId(1), None);
        assert!(matches!(tracker.claim(false, 0.0), Some(Work::Split)));
        if cancelled {
            assert!(tracker.cancel());
            assert!(tracker.claim(false, 0.0).is_none(), "it is being split");
            tracker.split_done(Ok((2, JobProfile::default())));
        } else {
            tracker.split_done(Err(&TaskError::failed("gone")));
        }
        assert!(matches!(tracker.claim(false, 0.0), Some(Work::Abort)));
        tracker.abort_done();
        let cause = (!cancelled).then_some("splitting the input: gone");
        assert_eq!(tracker.cause(), cause);
    }
}

/// A model around a tracker: attempts that end, fail, hang and come back in any order, and an
/// output that records which attempts finished it.
struct World {
    tracker: Tracker,
    rng: ChaCha8Rng,
    now_s: f64,
    held: Vec<HeldAttempt>,
    /// Attempts that may finish the output and are about to.
    finishing: Vec<HeldAttempt>,
    /// Attempts that were given up, but whose threads still run.
    zombies: Vec<HeldAttempt>,
    /// The number of attempts at each task that finished the output.
    finished: BTreeMap<TaskId, u32>,
    /// Attempts that were stopped so that others get their memory.
    preempted: BTreeSet<(TaskId, u32)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (maps, reduces) = (rng.random_range(0..6), rng.random_range(0..4));
        Self {
            tracker: tracker(maps, reduces),
            rng,
            now_s: 0.0,
            held: Vec::new(),
            finishing: Vec::new(),
            zombies: Vec::new(),
            finished: BTreeMap::new(),
            preempted: BTreeSet::new(),
        }
    }

    fn any_held(&mut self) -> Option<HeldAttempt> {
        let n = self.held.len();
        (n > 0).then(|| {
            let at = self.rng.random_range(0..n);
            self.held.swap_remove(at)
        })
    }

    /// Requests the permission to finish for an attempt that is done with its records. Ends the
    /// attempt if the tracker refuses.
    fn request_finish(&mut self, held: HeldAttempt) {
        if self.tracker.may_finish(held.task, held.attempt) {
            self.finishing.push(held);
        } else {
            let error = TaskError::Cancelled;
            let failed = self
                .tracker
                .task_failed(held.task, held.attempt, &error, self.now_s);
            assert!(!failed, "a refusal is no failure");
        }
    }

    /// Ends an attempt that has the tracker's permission to finish its output: mostly with success,
    /// at random with a failure.
    fn finish(&mut self) {
        let Some(held) = self.finishing.pop() else {
            return;
        };
        if self.rng.random_bool(0.1) {
            fail(&mut self.tracker, &held);
        } else {
            *self.finished.entry(held.task).or_default() += 1;
            let won = done(&mut self.tracker, &held, self.now_s).won;
            assert!(
                won || self.tracker.cause().is_some(),
                "or the job has failed"
            );
        }
    }

    /// Preempts a random attempt, as if another job needed its memory.
    fn preempt(&mut self) {
        for held in &self.finishing {
            assert!(!self.tracker.preempt(held.task, held.attempt));
        }
        if self.held.is_empty() {
            return;
        }
        let held = &self.held[self.rng.random_range(0..self.held.len())];
        if self.tracker.preempt(held.task, held.attempt) {
            assert!(self.preempted.insert((held.task, held.attempt)), "once");
        }
    }

    fn give_up(&mut self) {
        self.now_s += self.rng.random_range(0.0..4.0);
        for held in &self.held {
            if self.rng.random_bool(0.7) {
                held.attempt_state.step();
            }
        }
        let given_up = self.tracker.watch(self.now_s, true, 3.0);
        if self.rng.random_bool(0.3) {
            for held in &self.held {
                (held.attempt_state).set_on_floor(self.rng.random_bool(0.3));
            }
            self.tracker.seek_starved(self.rng.random_bool(0.5));
        }
        let is_given_up = |held: &mut HeldAttempt| {
            given_up
                .iter()
                .any(|attempt_state| Arc::ptr_eq(attempt_state, &held.attempt_state))
        };
        self.zombies.extend(self.held.extract_if(.., is_given_up));
    }

    /// Makes one event happen. Returns true while the job has not ended.
    fn step(&mut self) -> bool {
        match self.rng.random_range(0..16) {
            0..4 => {
                let may_start = self.rng.random_bool(0.8);
                match self.tracker.claim(may_start, self.now_s) {
                    Some(Work::Commit) => {
                        let total = |kind| self.tracker.progress(kind).1;
                        let tasks = total(TaskKind::Map) + total(TaskKind::Reduce);
                        assert_eq!(self.finished.len() as u32, tasks, "no task was left out");
                        self.tracker.commit_done(Ok(()));
                    }
                    Some(Work::Abort) => {
                        let users = self.held.len() + self.finishing.len();
                        assert_eq!(users, 0, "nothing uses the job's files");
                        self.tracker.abort_done();
                    }
                    Some(work) => self.held.push(held(Some(work))),
                    None => {}
                }
            }
            4..6 => {
                if let Some(work) = self.tracker.claim_speculative(self.now_s) {
                    self.held.push(held(Some(work)));
                }
            }
            6..9 => {
                if let Some(held) = self.any_held() {
                    self.request_finish(held);
                }
            }
            9 => {
                if let Some(held) = self.any_held() {
                    fail(&mut self.tracker, &held);
                }
            }
            10 => self.give_up(),
            11 | 12 => self.finish(),
            13 | 14 => self.preempt(),
            _ => {
                if let Some(zombie) = self.zombies.pop() {
                    assert!(!self.tracker.may_finish(zombie.task, zombie.attempt));
                    assert!(!done(&mut self.tracker, &zombie, self.now_s).won);
                }
                if self.rng.random_bool(0.01) {
                    self.tracker.cancel();
                }
            }
        }
        self.tracker.ended().is_none()
    }
}

#[test]
fn no_task_counts_twice_or_never_whatever_hangs_fails_or_races() {
    let (mut succeeded, mut speculative, mut preempted) = (0, 0, 0);
    let test = "no_task_counts_twice_or_never_whatever_hangs_fails_or_races";
    for_seeds(test, 500, |seed| {
        let mut world = World::new(seed);
        let mut steps = 0;
        while world.step() {
            assert!(
                world.finished.values().all(|n| *n == 1),
                "rows of one attempt"
            );
            let running: Vec<&HeldAttempt> = world.held.iter().chain(&world.finishing).collect();
            assert_eq!(world.tracker.running() as usize, running.len());
            let attempts = |task| running.iter().filter(|held| held.task == task).count();
            assert!(running.iter().all(|held| attempts(held.task) <= 2));
            steps += 1;
            assert!(steps < 100_000, "it does not end");
        }
        let counters = *world.tracker.counters();
        if world.tracker.ended() == Some(&Outcome::Succeeded) {
            succeeded += 1;
            assert_eq!(counters.tasks_done, world.finished.len() as u64);
        }
        speculative += counters.speculative_attempts;
        // Every attempt that was started ended once, in one way.
        let records = world.tracker.take_records();
        let of = |outcome| {
            records
                .iter()
                .filter(|record| record.outcome == outcome)
                .count()
        };
        assert_eq!(of(AttemptOutcome::Done) as u64, counters.tasks_done);
        let ids: BTreeSet<_> = (records.iter())
            .map(|record| (record.kind, record.index, record.attempt))
            .collect();
        assert_eq!(ids.len(), records.len());
        // A preemption is no failure, whatever the attempt reports.
        let failures = |record: &&AttemptRecord| match record.outcome {
            AttemptOutcome::Failed { .. } | AttemptOutcome::LeftBehind => true,
            AttemptOutcome::Done | AttemptOutcome::Stopped | AttemptOutcome::Preempted => false,
        };
        let failed = records.iter().filter(failures).count() as u64;
        // An attempt that was stopped and then left behind has a record, but does not count as failed.
        assert!(counters.attempts_failed <= failed);
        for record in &records {
            let (kind, index) = (record.kind, record.index);
            let task = TaskId {
                job: JobId(1),
                kind,
                index,
            };
            let was_preempted = world.preempted.contains(&(task, record.attempt));
            match record.outcome {
                AttemptOutcome::Failed { .. } => assert!(!was_preempted),
                AttemptOutcome::Preempted => {
                    assert!(was_preempted);
                    preempted += 1;
                }
                _ => {}
            }
        }
    });
    println!("{succeeded} succeeded, {speculative} speculative, {preempted} preempted");
}
