//! Attempts that hang, and attempts that are merely slow.

use super::global_sort::Partitions;
use super::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A door at which attempts hang until the test opens it. The runtime cannot end such an attempt.
#[derive(Default)]
struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
    arrivals: AtomicU32,
}

impl Door {
    fn pass(&self) {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        let opened = self.opened.wait_while(is_open, |is_open| !*is_open);
        drop(opened.unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn arrivals(&self) -> u32 {
        self.arrivals.load(Ordering::SeqCst)
    }
}

/// A runtime on a clock that the test moves.
struct Fixture {
    clock: Arc<ManualClock>,
    runtime: TestRuntime,
    door: Arc<Door>,
    output: VecOutput,
}

/// Opens the door, so that a failed assertion does not leave attempts hanging: the runtime waits
/// for them on its drop.
impl Drop for Fixture {
    fn drop(&mut self) {
        self.door.open();
    }
}

/// Returns a fixture in which attempts are given up after they have hung for `stall_s` seconds.
fn fixture(management: Management, stall_s: f64) -> Fixture {
    fixture_with(RuntimeOptions {
        management,
        stall_s,
        ..options()
    })
}

fn fixture_with(options: RuntimeOptions) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let options = RuntimeOptions {
        cycle_s: 0.01,
        ..options
    };
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    Fixture {
        clock,
        runtime,
        door: Arc::default(),
        output: VecOutput::new(),
    }
}

impl Fixture {
    /// Submits a job that counts the words of `text`. Its first `hanging` attempts hang.
    fn submit(&self, text: &str, hanging: u32) -> JobHandle {
        let spec = word_count(text, 1, 1, &self.output);
        self.submit_hanging(spec, hanging)
    }

    /// Submits `spec` with the mapper of a word count. The first `hanging` attempts hang when they
    /// map a record.
    fn submit_hanging(&self, spec: JobSpec, hanging: u32) -> JobHandle {
        let door = Arc::clone(&self.door);
        let mapper = move |key: &[u8], text: &[u8], emit: &mut dyn Emit| {
            if door.arrivals() < hanging {
                door.pass();
            }
            WordCount.map(key, text, emit)
        };
        let mapper = Arc::new(mapper);
        self.runtime.begin(JobSpec { mapper, ..spec })
    }

    /// Returns the number of attempts of `job` that wait for CPU, or for another attempt.
    fn waiting(&self, job: &JobHandle) -> usize {
        let state = self.runtime.shared.lock();
        let Some(job) = state.jobs.get(&job.id()) else {
            return 0;
        };
        let attempts = job.tracker.attempt_states();
        attempts.filter(|attempt| attempt.is_waiting()).count()
    }

    /// Waits until each attempt has hung and was given up, and checks that the job failed for that
    /// reason at the task called `task`.
    fn assert_all_hang(&self, job: &JobHandle, task: &str) {
        for attempt in 1..=ATTEMPTS_MAX {
            self.wait_until_hanging(attempt);
            self.until_given_up(job, u64::from(attempt));
        }
        let no_progress = "the task made no progress (no record, no checkpoint) for 5 s";
        let expected = format!("{task}, attempt 4: {no_progress}");
        assert_cause(&job.wait(), &[&expected]);
    }

    /// Advances the clock until `done` returns true, in steps far below `stall_s`, so that only
    /// hanging attempts are given up.
    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        wait::until(what, || {
            self.clock.advance_s(0.5);
            done()
        });
    }

    /// Advances the clock until `attempts` attempts of the job were given up.
    fn until_given_up(&self, job: &JobHandle, attempts: u64) {
        let are_given_up = || job.status().attempts_failed == attempts;
        self.until("attempts to be given up", are_given_up);
    }

    /// Waits until `attempts` attempts hang or have hung.
    fn wait_until_hanging(&self, attempts: u32) {
        wait::until("an attempt to hang", || self.door.arrivals() == attempts);
    }

    /// Waits for a job whose attempts do not hang. Advances the clock only while an attempt waits
    /// for CPU: otherwise an attempt that starves on a busy machine would count as hanging.
    fn wait_for(&self, job: &JobHandle) -> JobReport {
        wait::until("the job to end", || {
            if self.waiting(job) > 0 {
                self.clock.advance_s(0.001);
            }
            job.status().finished_s.is_some()
        });
        job.wait()
    }

    /// Lets the hanging attempts go on (they wait at a door), and checks that those that were given
    /// up end, and leave no files.
    fn let_go(&self) {
        self.door.open();
        wait::until("the spills to be removed", || self.runtime.has_no_spills());
    }
}

#[test]
fn a_hanging_attempt_is_left_behind_and_its_task_tried_again() {
    for management in [Management::Managed, Management::Unmanaged] {
        let fixture = fixture(management, 5.0);
        let job = fixture.submit("a b a", 1);
        fixture.wait_until_hanging(1);
        fixture.until_given_up(&job, 1);
        let report = fixture.wait_for(&job);
        assert_eq!(report.outcome, Outcome::Succeeded);
        let counters = report.counters;
        assert_eq!((counters.attempts_failed, counters.tasks_retried), (1, 1));
        assert_eq!(counters.map_input_records, 1);
        fixture.runtime.shutdown();
        fixture.let_go();
        assert_eq!(counts(&fixture.output), count_independently("a b a"));
    }
}

/// Regression: the maps that waited for the sample counted as hanging, too, so the job failed.
#[test]
fn a_map_that_hangs_while_it_samples_the_keys_is_replaced_by_one_that_waits() {
    let maps = 4;
    let fixture = fixture_with(RuntimeOptions {
        cores: maps,
        management: Management::Unmanaged,
        stall_s: 5.0,
        ..options()
    });
    let spec = word_count("a\nb\nc\nd", maps as usize, 2, &fixture.output);
    let job = fixture.submit_hanging(spec.globally_sorted(), 1);
    fixture.wait_until_hanging(1);
    wait::until("the other maps to wait for the sample", || {
        fixture.waiting(&job) == maps as usize - 1
    });
    fixture.until_given_up(&job, 1);
    let report = fixture.wait_for(&job);
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(report.counters.attempts_failed, 1);
    fixture.let_go();
}

#[test]
fn a_job_whose_attempts_all_hang_fails_and_shutdown_does_not_wait_for_them() {
    let fixture = fixture(Management::Unmanaged, 5.0);
    let job = fixture.submit("a", ATTEMPTS_MAX);
    fixture.assert_all_hang(&job, "map-0");
    let next = fixture.submit("b", 0);
    assert_eq!(next.wait().outcome, Outcome::Succeeded);
    fixture.runtime.shutdown();
    fixture.let_go();
}

#[test]
fn the_memory_of_hanging_attempts_is_missing_until_they_end() {
    for management in [Management::Managed, Management::Unmanaged] {
        let task_memory_bytes = 1 << 20;
        let fixture = fixture_with(RuntimeOptions {
            management,
            stall_s: 5.0,
            task_memory_bytes,
            memory_bytes: Some(task_memory_bytes as u64),
            ..options()
        });
        let job = fixture.submit("a", 1);
        fixture.wait_until_hanging(1);
        fixture.until("the job to fail", || job.status().finished_s.is_some());
        let expected = "threads of tasks that made no progress hold all memory, 1 of them";
        assert_cause(&job.wait(), &[expected]);
        assert_eq!(fixture.runtime.status().memory_bytes, 1 << 20);
        let refused = fixture
            .runtime
            .submit(word_count("b", 1, 1, &fixture.output));
        assert!(matches!(
            refused,
            Err(SubmitError::LeftBehind { threads: 1 })
        ));
        assert!(refused.is_err_and(|refused| refused.is_transient()));
        fixture.door.open();
        wait::until("the memory to be given back", || {
            fixture.runtime.status().memory_bytes == 0
        });
        let next = fixture.submit("b", 0);
        assert_eq!(fixture.wait_for(&next).outcome, Outcome::Succeeded);
    }
}

#[test]
fn a_reducer_that_never_ends_fails_its_job() {
    let fixture = fixture(Management::Unmanaged, 5.0);
    let door = Arc::clone(&fixture.door);
    let reducer = move |_: &[u8], _: &mut Values<'_>, _: &mut dyn Emit| -> Result<(), TaskError> {
        door.pass();
        Ok(())
    };
    let spec = word_count("a b", 1, 1, &fixture.output).reducer(Arc::new(reducer), 1);
    let job = fixture.runtime.begin(spec);
    fixture.assert_all_hang(&job, "reduce-0");
    fixture.runtime.shutdown();
    fixture.let_go();
    assert_eq!(fixture.output.rows(), None);
}

#[test]
fn a_reducer_that_emits_forever_runs_until_it_is_cancelled() {
    let fixture = fixture(Management::Unmanaged, 1e9);
    let emitted = Arc::new(AtomicU32::new(0));
    let reducer = {
        let emitted = Arc::clone(&emitted);
        move |_: &[u8], _: &mut Values<'_>, emit: &mut dyn Emit| -> Result<(), TaskError> {
            loop {
                emit.emit(b"for", b"ever")?;
                emitted.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let finished = Partitions::default();
    let mut spec = word_count("a b", 1, 1, &fixture.output).reducer(Arc::new(reducer), 1);
    spec.output = Arc::new(finished.clone());
    let job = fixture.runtime.begin(spec);
    wait::until("many records", || emitted.load(Ordering::SeqCst) > 100_000);
    assert_eq!(job.status().attempts_failed, 0);
    assert!(job.cancel());
    assert_eq!(job.wait().outcome, Outcome::Cancelled);
    assert!(finished.0.lock().unwrap().is_empty());
    fixture.runtime.shutdown();
    fixture.let_go();
}

#[test]
fn a_cancelled_job_that_hangs_still_ends() {
    let fixture = fixture(Management::Managed, 5.0);
    let job = fixture.submit("a", 1);
    fixture.wait_until_hanging(1);
    assert!(job.cancel());
    assert_eq!(job.status().state, JobState::Stopping);
    fixture.until("the job to end", || job.status().finished_s.is_some());
    assert_eq!(job.wait().outcome, Outcome::Cancelled);
    assert_eq!(job.wait().counters.attempts_failed, 0);
    fixture.runtime.shutdown();
    fixture.let_go();
}

#[test]
fn a_slow_task_gets_a_copy_and_one_of_the_two_finishes() {
    for slow_one_is_stopped in [true, false] {
        // The clock runs ahead of a machine that is busy with other things: a slow attempt must
        // not count as hanging.
        let fixture = fixture_with(RuntimeOptions {
            management: Management::Unmanaged,
            stall_s: 1e9,
            speculation: true,
            ..options()
        });
        let attempts = Arc::new(AtomicU32::new(0));
        let mapper = {
            let attempts = Arc::clone(&attempts);
            move |key: &[u8], _: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
                if key == b"1" && attempts.fetch_add(1, Ordering::SeqCst) == 0 {
                    // Forever, or until both attempts can race to the end.
                    while slow_one_is_stopped || attempts.load(Ordering::SeqCst) == 1 {
                        emit.checkpoint()?;
                        std::thread::park_timeout(Duration::from_millis(1));
                    }
                }
                emit.emit(key, b"row")
            }
        };
        let finished = Partitions::default();
        let input = Arc::new(VecInput::lines("quick\nslow", 2));
        let output = Arc::new(finished.clone());
        let spec = JobSpec::new("slow", input, Arc::new(mapper), output);
        let job = fixture.runtime.begin(spec);
        wait::until("the other map to be done", || {
            job.status().maps_done == 1 && attempts.load(Ordering::SeqCst) == 1
        });
        fixture.until("a second attempt to start", || {
            attempts.load(Ordering::SeqCst) == 2
        });
        let report = job.wait();
        assert_eq!(report.outcome, Outcome::Succeeded);
        let counters = report.counters;
        assert_eq!(
            (counters.speculative_attempts, counters.attempts_failed),
            (1, 0)
        );
        assert_eq!((counters.tasks_done, counters.output_records), (2, 2));
        let finished = finished.0.lock().unwrap();
        let finishes = finished
            .iter()
            .map(|(partition, rows)| (*partition, rows.len()));
        assert_eq!(finishes.collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    }
}
