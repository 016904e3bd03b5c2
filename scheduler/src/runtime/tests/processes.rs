//! Tasks in processes of their own. The processes run this test program, and only its test `door`
//! reads the parent's messages.

use super::memory::with_memory;
use super::*;
use crate::policy::ReverseAdaptive;
use ebb_test_support::seed::for_seeds;
use ebb_threads::{current_class, process_cpu};
use rustix::process::{Signal, getpid, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The environment variable that is set in a process that must run tasks.
const IS_CHILD: &str = "EBB_TEST_RUNS_TASKS";

/// The parameters of a test's job. The description that the processes get consists of them.
#[derive(Clone)]
struct TestJob {
    application: &'static str,
    /// A directory in which the processes create files, so that tests can follow the processes. In
    /// jobs that spin or hang, each process creates a file whose name is the id of the process.
    signs: PathBuf,
    maps: usize,
    reduces: u32,
    text: String,
}

impl TestJob {
    fn new(application: &'static str, signs: &Path, text: &str) -> Self {
        Self {
            application,
            signs: signs.to_path_buf(),
            maps: 4,
            reduces: 2,
            text: text.to_owned(),
        }
    }

    fn line(&self) -> String {
        let Self { maps, reduces, .. } = self;
        let signs = self.signs.display();
        format!("{} {maps} {reduces} {signs}\n", self.application) + &self.text
    }

    fn processes(&self) -> TaskProcesses {
        let command = || {
            let mut command = Command::new("/proc/self/exe");
            command
                .args(["--exact", "runtime::tests::processes::door", "--ignored"])
                .env(IS_CHILD, "1")
                .stderr(Stdio::null());
            command
        };
        TaskProcesses::new(command, self.line())
    }

    fn spec(&self, output: &VecOutput) -> JobSpec {
        spec_of(self.line().as_bytes(), output).unwrap()
    }

    fn spec_in_processes(&self, output: &VecOutput) -> JobSpec {
        self.spec(output).in_processes(Arc::new(self.processes()))
    }

    /// Submits the job, with its tasks in processes.
    fn submit(&self, runtime: &TestRuntime, output: &VecOutput) -> JobHandle {
        runtime.begin(self.spec_in_processes(output))
    }
}

#[test]
#[ignore = "the processes of the other tests run it"]
fn door() {
    if std::env::var_os(IS_CHILD).is_some() {
        let server = TaskServer::from_stdin().unwrap();
        let build = |description: &[u8]| spec_of(description, &VecOutput::new());
        server.serve(build).unwrap();
    }
}

/// The result of a mapper.
type MapResult = Result<(), TaskError>;

/// Builds the job that `description` describes, in parent and child.
fn spec_of(description: &[u8], output: &VecOutput) -> Result<JobSpec, String> {
    let description = String::from_utf8(description.to_vec()).map_err(|e| e.to_string())?;
    let (line, text) = description.split_once('\n').ok_or("no line")?;
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    let [application, maps, reduces, signs] = words[..] else {
        return Err(format!("what is {line:?}?"));
    };
    let signs = PathBuf::from(signs);
    let (maps, reduces) = (maps.parse().unwrap(), reduces.parse().unwrap());
    let mapper: Arc<dyn Mapper> = match application {
        "count" | "combine" => Arc::new(WordCount),
        // A sort by key then changes the order of the records.
        "sort" | "copy" => Arc::new(swap),
        "die-once" => Arc::new(
            move |key: &[u8], text: &[u8], emit: &mut dyn Emit| -> MapResult {
                // The first process that can create the file kills itself.
                if std::fs::File::create_new(signs.join("died")).is_ok() {
                    kill_process(getpid(), Signal::KILL).map_err(TaskError::failed)?;
                }
                WordCount.map(key, text, emit)
            },
        ),
        "allocate" => Arc::new(|_: &[u8], _: &[u8], emit: &mut dyn Emit| -> MapResult {
            let mut held = Vec::new();
            loop {
                held.push(vec![1_u8; 1 << 20]);
                emit.checkpoint()?;
            }
        }),
        "hang" => Arc::new(move |_: &[u8], _: &[u8], _: &mut dyn Emit| -> MapResult {
            leave_sign(&signs)?;
            loop {
                std::thread::park();
            }
        }),
        "spin" => Arc::new(
            move |_: &[u8], _: &[u8], emit: &mut dyn Emit| -> MapResult {
                leave_sign(&signs)?;
                loop {
                    std::hint::spin_loop();
                    emit.checkpoint()?;
                }
            },
        ),
        "fill" => Arc::new(|_: &[u8], _: &[u8], emit: &mut dyn Emit| -> MapResult {
            // A record may have at most a tenth of the task's memory, which is 1 MiB in this test.
            emit.emit(&[b'x'; 50_000], b"1")?;
            loop {
                emit.checkpoint()?;
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }),
        "panic" => {
            Arc::new(|_: &[u8], _: &[u8], _: &mut dyn Emit| -> MapResult { panic!("on purpose") })
        }
        "report" => Arc::new(report_this_process),
        other => return Err(format!("what is {other:?}?")),
    };
    let input = Arc::new(VecInput::lines(text, maps));
    let spec = JobSpec::new(application, input, mapper, Arc::new(output.clone()));
    Ok(match application {
        "copy" | "report" => spec,
        "sort" => spec.reducer(Arc::new(each), reduces).globally_sorted(),
        "combine" => (spec.reducer(Arc::new(Sum), reduces)).combiner(Arc::new(Sum)),
        _ => spec.reducer(Arc::new(Sum), reduces),
    })
}

/// Creates a file in `signs` whose name is the id of this process.
fn leave_sign(signs: &Path) -> MapResult {
    let sign = signs.join(std::process::id().to_string());
    std::fs::write(sign, "").map_err(TaskError::io("leaving a sign"))
}

/// Emits the id and class of this process, and its CPU time.
fn report_this_process(_: &[u8], _: &[u8], emit: &mut dyn Emit) -> MapResult {
    let id = std::process::id().to_string();
    emit.emit(id.as_bytes(), current_class().to_string().as_bytes())?;
    let cpu_ns = process_cpu().as_nanos();
    emit.emit(b"cpu_ns", cpu_ns.to_string().as_bytes())
}

fn runtime(task_memory_bytes: usize) -> TestRuntime {
    TestRuntime::start(RuntimeOptions {
        task_memory_bytes,
        ..options()
    })
}

fn rows_of(runtime: &TestRuntime, spec: JobSpec, output: &VecOutput) -> (Vec<Row>, Counters) {
    let report = runtime.succeed(spec);
    (output.rows().expect("it committed"), report.counters)
}

#[test]
fn processes_give_the_rows_that_threads_give() {
    let test = "processes_give_the_rows_that_threads_give";
    for_seeds(test, 1, |seed| {
        let dir = tempfile::tempdir().unwrap();
        let text = generated_text(seed, 300_000);
        for (application, task_memory_bytes) in [
            ("count", 16 << 20),
            ("count", TASK_MEMORY_BYTES_MIN),
            ("combine", TASK_MEMORY_BYTES_MIN),
            ("sort", 128 << 10),
            ("copy", 16 << 20),
        ] {
            let runtime = runtime(task_memory_bytes);
            let described = TestJob::new(application, dir.path(), &text);
            let output = VecOutput::new();
            let (rows, counted) = rows_of(&runtime, described.spec(&output), &output);
            let output = VecOutput::new();
            let spec = described.spec_in_processes(&output);
            let (rows_in_processes, counted_in_processes) = rows_of(&runtime, spec, &output);
            assert!(rows == rows_in_processes, "{application}");
            let alike = |counters: Counters| Counters {
                shuffle_cpu_ns: 0,
                ..counters
            };
            assert_eq!(alike(counted), alike(counted_in_processes), "{application}");
            assert!(runtime.has_no_spills(), "spill files are removed");
        }
    });
}

/// Regression: processes left the default reserve, whatever reserve the runtime had, so a database
/// with a higher low-water mark refused writes because of their spills.
#[test]
fn a_process_leaves_the_reserve_of_its_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(RuntimeOptions {
        spill_space: SpillSpace::default().leaving(u64::MAX),
        ..options()
    });
    let described = TestJob {
        maps: 1,
        ..TestJob::new("count", dir.path(), "b a b")
    };
    let spec = described.spec_in_processes(&VecOutput::new());
    let report = runtime.begin(spec).wait();
    let reserve = u64::MAX.to_string();
    assert_cause(&report, &["attempt 1: the disk is full", &reserve]);
    assert_eq!(report.counters.attempts_failed, 1);
    assert!(runtime.has_no_spills());
}

#[test]
fn a_process_has_the_class_of_a_task_thread_and_pays_for_all_its_use() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(RuntimeOptions {
        throttles: Throttles::default(),
        task_memory_bytes: 1 << 20,
        ..options()
    });
    let described = TestJob {
        maps: 1,
        ..TestJob::new("report", dir.path(), "one line")
    };
    let output = VecOutput::new();
    let before_s = processes_cpu_s();
    let report = runtime.succeed(described.spec_in_processes(&output));
    let rows = output.rows().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_ne!(text(&rows[0].0), std::process::id().to_string());
    assert_eq!(text(&rows[0].1), runtime.scheduling_class().to_string());
    assert!(processes_cpu_s() > before_s);
    let used_s = text(&rows[1].1).parse::<f64>().unwrap() / 1e9;
    assert!(report.cpu_s >= used_s, "{} of {used_s}", report.cpu_s);
}

#[test]
fn a_process_that_is_killed_fails_its_attempt_only() {
    let test = "a_process_that_is_killed_fails_its_attempt_only";
    for_seeds(test, 1, |seed| {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(1 << 20);
        let text = generated_text(seed, 50_000);
        let described = TestJob::new("die-once", dir.path(), &text);
        let output = VecOutput::new();
        let job = described.submit(&runtime, &output);
        assert_eq!(job.wait().outcome, Outcome::Succeeded);
        assert_eq!(counts(&output), count_independently(&text));
        let outcomes = job.attempts().into_iter().map(|attempt| attempt.outcome);
        let failed = outcomes.filter_map(|outcome| match outcome {
            AttemptOutcome::Failed { cause } => Some(cause),
            _ => None,
        });
        let failed: Vec<String> = failed.collect();
        assert!(
            matches!(&failed[..], [cause] if cause.contains("SIGKILL")),
            "{failed:?}"
        );
    });
}

#[test]
fn a_task_that_allocates_without_end_fails_its_own_job_with_the_cause() {
    let test = "a_task_that_allocates_without_end_fails_its_own_job_with_the_cause";
    for_seeds(test, 1, |seed| {
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(1 << 20);
        let described = TestJob::new("allocate", dir.path(), "a\nb\nc");
        let (bad_output, good_output) = (VecOutput::new(), VecOutput::new());
        let processes = described.processes().memory_bytes(128 << 20);
        let bad = described
            .spec(&bad_output)
            .in_processes(Arc::new(processes));
        let bad = runtime.begin(bad);
        let text = generated_text(seed, 50_000);
        let good = TestJob::new("count", dir.path(), &text).spec_in_processes(&good_output);
        let good = runtime.begin(good);
        assert_cause(&bad.wait(), &["SIGABRT", "134217728 bytes of memory"]);
        assert_eq!(good.wait().outcome, Outcome::Succeeded);
        assert_eq!(counts(&good_output), count_independently(&text));
        assert!(runtime.has_no_spills());
    });
}

#[test]
fn a_panic_and_a_job_that_cannot_be_made_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(1 << 20);
    let output = VecOutput::new();
    let described = TestJob::new("panic", dir.path(), "a");
    let report = described.submit(&runtime, &output).wait();
    assert_cause(&report, &["the task panicked: on purpose"]);

    let unknown = TestJob {
        application: "unknown",
        ..described.clone()
    };
    let spec = described
        .spec(&output)
        .in_processes(Arc::new(unknown.processes()));
    let report = runtime.begin(spec).wait();
    assert_cause(&report, &["what is \"unknown\"?"]);

    let missing = TaskProcesses::new(|| Command::new("/nowhere/at/all"), "");
    let spec = described.spec(&output).in_processes(Arc::new(missing));
    let report = runtime.begin(spec).wait();
    assert_cause(&report, &["starting a process for a task"]);
}

#[test]
fn the_memory_of_a_process_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let memory = with_memory(1 << 40);
    let runtime = TestRuntime::start(RuntimeOptions {
        task_memory_bytes: 1 << 20,
        ..with_capacity(&memory, options())
    });
    let output = VecOutput::new();
    let described = TestJob::new("fill", dir.path(), "a");
    let job = described.submit(&runtime, &output);
    wait::until("a record to be held", || memory.held_bytes() >= 50_000);
    assert!(job.cancel());
    let _ = job.wait();
    wait::until("nothing to be held", || memory.held_bytes() == 0);
}

#[test]
fn a_preempted_process_is_killed_and_the_job_that_needs_its_memory_runs() {
    let test = "a_preempted_process_is_killed_and_the_job_that_needs_its_memory_runs";
    for_seeds(test, 1, |seed| {
        let dir = tempfile::tempdir().unwrap();
        let runtime = TestRuntime::start(RuntimeOptions {
            // This policy serves first a job whose goal cannot be met.
            policy: Arc::new(ReverseAdaptive),
            capacity: Arc::new(FixedCapacity::new(100)),
            cycle_s: 0.02,
            task_memory_bytes: 1 << 20,
            memory_bytes: Some(1 << 20),
            ..options()
        });
        let outputs = [VecOutput::new(), VecOutput::new()];
        let described = TestJob::new("spin", dir.path(), "a");
        let patient = described.spec_in_processes(&outputs[0]).goal_s(1e6);
        let patient = runtime.begin(patient);
        wait::until("the patient job to spin", || alive(dir.path()).len() == 1);
        let text = generated_text(seed, 20_000);
        // All work of the urgent job has to start now.
        let urgent = TestJob::new("count", dir.path(), &text).spec_in_processes(&outputs[1]);
        let urgent = runtime.begin(urgent.goal_s(1e-3));
        assert_eq!(urgent.wait().outcome, Outcome::Succeeded);
        assert_eq!(counts(&outputs[1]), count_independently(&text));
        let attempts = patient.attempts();
        let is_preempted = |ended: &AttemptRecord| ended.outcome == AttemptOutcome::Preempted;
        assert!(!attempts.is_empty() && attempts.iter().all(is_preempted));
        assert_eq!(patient.status().attempts_failed, 0);
        assert!(patient.cancel());
        let _ = patient.wait();
        assert_eq!(alive(dir.path()), [""; 0]);
    });
}

/// Returns the ids of the processes that have created a file in `signs` and still exist.
fn alive(signs: &Path) -> Vec<String> {
    let names = std::fs::read_dir(signs).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|id| Path::new("/proc").join(id).exists())
        .collect()
}

#[test]
fn a_process_that_hangs_is_killed_and_so_is_that_of_a_cancelled_job() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let options = RuntimeOptions {
        management: Management::Unmanaged,
        stall_s: 5.0,
        cycle_s: 0.01,
        ..options()
    };
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let output = VecOutput::new();
    let described = TestJob::new("hang", dir.path(), "a");

    let job = described.submit(&runtime, &output);
    wait::until("the process to hang", || !alive(dir.path()).is_empty());
    assert!(job.cancel());
    assert_eq!(job.wait().outcome, Outcome::Cancelled);
    assert_eq!(alive(dir.path()), [""; 0]);

    let job = described.submit(&runtime, &output);
    wait::until("the job to fail", || {
        if !alive(dir.path()).is_empty() {
            clock.advance_s(0.5);
        }
        job.status().finished_s.is_some()
    });
    let progress = "attempt 4: the task made no progress (no record, no checkpoint) for 5 s";
    assert_cause(&job.wait(), &[progress]);
    wait::until("the process to be killed", || alive(dir.path()).is_empty());
    runtime.shutdown();
    assert!(runtime.has_no_spills());
}

/// Returns a job of two tasks that spin.
fn two_that_spin(signs: &Path) -> TestJob {
    TestJob {
        maps: 2,
        ..TestJob::new("spin", signs, "a\nb")
    }
}

/// Checks the CPU time that the kernel counts for the processes, not the time that they report.
#[test]
fn processes_of_a_paced_job_pay_for_their_use_and_pause_until_it_is_earned() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let options = RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(30)),
        cycle_s: 0.01,
        ..options()
    };
    let runtime = TestRuntime::start_with_clock(options, clock.clone());
    let job = two_that_spin(dir.path()).submit(&runtime, &VecOutput::new());
    let all_cpu_s = || cpu_s_of_all(dir.path());
    // The second process starts once the job has earned the CPU time of the first one's start.
    wait::until("both processes to spin", || {
        clock.advance_s(0.005);
        alive(dir.path()).len() == 2
    });
    for _ in 0..2 {
        let before_s = all_cpu_s();
        wait::until("the processes to use what they earn", || {
            clock.advance_s(0.005);
            all_cpu_s() >= before_s + 0.3
        });
        wait::until("both processes to rest", || {
            let before_s = all_cpu_s();
            pass_cycles(&runtime, 5);
            all_cpu_s() == before_s
        });
        let (used_s, paid_s) = (all_cpu_s(), job.status().cpu_s);
        assert!(used_s <= paid_s + 0.05, "{used_s} s used, {paid_s} s paid");
    }
    assert!(job.cancel());
    let _ = job.wait();
}

/// Uses the machine's clock, not one that the test advances.
#[test]
#[ignore = "nightly: compares CPU time with the time that passes meanwhile"]
fn processes_of_a_paced_job_use_no_more_than_its_share() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = TestRuntime::start(RuntimeOptions {
        capacity: Arc::new(FixedCapacity::new(30)),
        ..options()
    });
    let job = two_that_spin(dir.path()).submit(&runtime, &VecOutput::new());
    let all_cpu_s = || cpu_s_of_all(dir.path());
    wait::until("both processes to spin", || alive(dir.path()).len() == 2);
    let (begun_s, cpu_before_s) = (runtime.now_s(), all_cpu_s());
    wait::until("a second to pass", || runtime.now_s() - begun_s > 1.0);
    // CPU time is read first, so that a delay only adds to the elapsed time.
    let used_s = all_cpu_s() - cpu_before_s;
    let elapsed_s = runtime.now_s() - begun_s;
    assert!(job.cancel());
    let _ = job.wait();
    println!("{used_s:.3} s of CPU in {elapsed_s:.3} s");
    assert!(
        used_s > 0.0 && used_s <= 0.30 * elapsed_s + 0.10,
        "{used_s} s of CPU in {elapsed_s} s at 30 hundredths"
    );
}

/// Returns the CPU time of the processes that have created a file in `signs`, in seconds.
fn cpu_s_of_all(signs: &Path) -> f64 {
    alive(signs).iter().map(|id| cpu_s(id)).sum()
}

/// Returns the CPU time of the threads of a process, in seconds.
fn cpu_s(id: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let cpu_ns = threads.map(|thread| {
        let path = thread.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let cpu_ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        cpu_ns.unwrap_or(0.0)
    });
    cpu_ns.sum::<f64>() / 1e9
}

#[test]
fn a_job_ends_whatever_its_process_sends_and_the_next_job_succeeds() {
    let test = "a_job_ends_whatever_its_process_sends_and_the_next_job_succeeds";
    for_seeds(test, 1, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let runtime = runtime(1 << 20);
        let described = TestJob {
            maps: 1,
            ..TestJob::new("copy", dir.path(), "a")
        };
        // Frames: a report of use; rows, with a key and a value of one byte; half a report; an
        // unknown kind.
        let good: &[&[u8]] = &[
            &[6, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
            &[10, 0, 0, 0, 3, 1, 0, 0, 0, 1, 0, 0, 0, b'k', b'v'],
            &[7, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 9, 1, 1],
        ];
        for _ in 0..8 {
            let mut sent = Vec::new();
            for _ in 0..rng.random_range(1..5) {
                sent.extend_from_slice(good[rng.random_range(0..good.len())]);
            }
            if rng.random_bool(0.7) {
                let at = rng.random_range(0..sent.len());
                sent[at] = rng.random();
            }
            let path = dir.path().join("sent");
            std::fs::write(&path, sent).unwrap();
            let command = move || {
                let mut command = Command::new("sh");
                command.args(["-c", "cat \"$0\" >&0"]).arg(&path);
                command.stderr(Stdio::null());
                command
            };
            let output = VecOutput::new();
            let processes = Arc::new(TaskProcesses::new(command, ""));
            let job = runtime.submit(described.spec(&output).in_processes(processes));
            let report = job.unwrap().wait();
            assert!(!cause(&report).is_empty());
            assert_eq!((output.rows(), output.has_staged()), (None, false));
        }
        let output = VecOutput::new();
        let (rows, _) = rows_of(&runtime, described.spec_in_processes(&output), &output);
        assert_eq!(rows, [(b"a".to_vec(), b"0".to_vec())]);
    });
}
