//! The memory of all tasks of a runtime together.

use super::*;
use crate::availability::Availability;
use crate::policy::Fair;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const TASK_MEMORY_BYTES: usize = 1 << 20;

/// A runtime's options with memory for so many tasks at a time.
fn memory_for(tasks: u32, spills: &Path) -> RuntimeOptions {
    RuntimeOptions {
        task_memory_bytes: TASK_MEMORY_BYTES,
        memory_bytes: Some(u64::from(tasks) * TASK_MEMORY_BYTES as u64),
        // One that has lost may still run when its job has ended.
        copies: false,
        ..options(spills)
    }
}

#[test]
fn all_tasks_of_all_jobs_together_keep_to_the_memory() {
    for management in [Management::Managed, Management::Unmanaged] {
        let spills = tempfile::tempdir().unwrap();
        let runtime = Runtime::start(RuntimeOptions {
            cores: 8,
            management,
            capacity: Arc::new(FixedCapacity::new(800)),
            ..memory_for(2, spills.path())
        });
        let runtime = runtime.unwrap();
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mapper = {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            move |key: &[u8], text: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                let mapped = WordCount.map(key, text, emit);
                running.fetch_sub(1, Ordering::SeqCst);
                mapped
            }
        };
        let mapper: Arc<dyn Mapper> = Arc::new(mapper);
        let text = generated_text(rand::random(), 200_000);
        let jobs: Vec<(JobHandle, VecOutput)> = (0..3)
            .map(|_| {
                let output = VecOutput::new();
                let mut spec = word_count(&text, 6, 2, &output);
                spec.mapper = Arc::clone(&mapper);
                (runtime.submit(spec).unwrap(), output)
            })
            .collect();
        let expected = count_independently(&text);
        for (job, output) in jobs {
            assert_eq!(job.wait().outcome, Outcome::Succeeded);
            assert_eq!(counts(&output), expected);
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
        assert_eq!(runtime.status().memory_bytes, 0);
        eventually("the last cycle is over", || {
            let history = runtime.history();
            history.last().is_some_and(|cycle| cycle.jobs.is_empty())
        });
        let history = runtime.history();
        let most_bytes = history.iter().map(|cycle| cycle.memory_bytes).max();
        let task_bytes = TASK_MEMORY_BYTES as u64;
        assert!((task_bytes..=2 * task_bytes).contains(&most_bytes.unwrap()));
    }
}

/// All the CPU, and as much memory as the test says. Notes what it is told.
#[derive(Default)]
pub(super) struct Memory {
    pub left_bytes: AtomicU64,
    /// What tasks held when it was asked last.
    pub held_bytes: AtomicU64,
}

impl CapacitySource for Memory {
    fn capacity_hundredths(&self, _now_s: f64) -> u32 {
        200
    }

    fn memory_bytes(&self, held_bytes: u64) -> Option<u64> {
        self.held_bytes.store(held_bytes, Ordering::SeqCst);
        Some(self.left_bytes.load(Ordering::SeqCst))
    }

    fn forecast(&self) -> Arc<Availability> {
        Arc::new(Availability::constant(200.0).unwrap())
    }
}

#[test]
fn without_memory_left_a_job_rests_and_with_it_goes_on() {
    let spills = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let runtime = Runtime::start(RuntimeOptions {
        capacity: memory.clone(),
        cycle_s: 0.01,
        ..memory_for(1, spills.path())
    });
    let runtime = runtime.unwrap();
    let output = VecOutput::new();
    let job = runtime.submit(word_count("a b a", 2, 1, &output)).unwrap();
    memory
        .left_bytes
        .store(TASK_MEMORY_BYTES as u64 - 1, Ordering::SeqCst);
    eventually("some cycles pass", || runtime.history().len() > 5);
    assert!(job.status().share_hundredths > 0);
    assert_eq!(job.status().tasks_running, 0);
    memory.left_bytes.store(1 << 40, Ordering::SeqCst);
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    assert_eq!(counts(&output), count_independently("a b a"));
}

#[test]
fn the_capacity_source_is_told_what_tasks_hold() {
    let spills = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    memory.left_bytes.store(1 << 40, Ordering::SeqCst);
    let runtime = Runtime::start(RuntimeOptions {
        capacity: memory.clone(),
        cycle_s: 0.01,
        ..memory_for(1, spills.path())
    });
    let runtime = runtime.unwrap();
    let (gate, output) = (Gate::default(), VecOutput::new());
    let mut spec = gate.word_count("a", &output);
    let waiting = Arc::clone(&spec.mapper);
    spec.mapper = Arc::new(move |key: &[u8], text: &[u8], emit: &mut dyn Emit| {
        emit.emit(&vec![b'x'; 50_000], b"1")?;
        waiting.map(key, text, emit)
    });
    let job = runtime.submit(spec).unwrap();
    let held_bytes = || memory.held_bytes.load(Ordering::SeqCst);
    eventually("it holds a record", || held_bytes() >= 50_000);
    assert!(held_bytes() <= TASK_MEMORY_BYTES as u64);
    gate.open();
    assert_eq!(job.wait().outcome, Outcome::Succeeded);
    eventually("it holds nothing", || held_bytes() == 0);
}

/// Lets tasks go on once it is open; they come to checkpoints meanwhile.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn pass(&self, emit: &mut dyn Emit) -> Result<(), TaskError> {
        while !self.0.load(Ordering::SeqCst) {
            emit.checkpoint()?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Counts the words of `text`, a line to a map, behind the gate.
    fn word_count(&self, text: &str, output: &VecOutput) -> JobSpec {
        let gate = self.clone();
        let mapper = move |key: &[u8], text: &[u8], emit: &mut dyn Emit| {
            gate.pass(emit)?;
            WordCount.map(key, text, emit)
        };
        let mut spec = word_count(text, text.lines().count(), 1, output);
        spec.mapper = Arc::new(mapper);
        spec
    }
}

#[test]
fn with_memory_for_one_task_jobs_that_have_a_share_take_turns() {
    let spills = tempfile::tempdir().unwrap();
    let options = RuntimeOptions {
        policy: Arc::new(Fair),
        ..memory_for(1, spills.path())
    };
    let runtime = Runtime::start(options).unwrap();
    let (gate, output) = (Gate::default(), VecOutput::new());
    let submit = || {
        let spec = gate.word_count("a\nb\nc\nd\ne\nf", &output);
        runtime.submit(spec).unwrap()
    };
    let first = submit();
    eventually("it holds the memory", || first.status().tasks_running == 1);
    let second = submit();
    eventually("both have a share", || {
        [&first, &second].map(|job| job.status().share_hundredths > 0) == [true; 2]
    });
    assert_eq!(second.status().tasks_running, 0);
    gate.open();
    let ended = [first, second].map(|job| {
        assert_eq!(job.wait().outcome, Outcome::Succeeded);
        let attempts = job.attempts().into_iter();
        attempts.map(|attempt| attempt.ended_s).collect::<Vec<_>>()
    });
    assert!(
        ended[1][0] < ended[0][5],
        "not one after the other: {ended:?}"
    );
}
