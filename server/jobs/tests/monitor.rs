//! Who the load monitor says has used the CPU, beside a job in processes. These run this
//! very test program, in which only `door` looks at what they are told.

#![expect(
    clippy::disallowed_methods,
    reason = "tests and examples look at clocks and files themselves"
)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_colocate::LoadMonitor;
use ebb_jobs::pi::{self, Variant};
use ebb_scheduler::runtime::{
    JobSpec, Outcome, Runtime, RuntimeOptions, TaskProcesses, TaskServer, VecOutput,
};
use procfs::{CurrentSI, KernelStats};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Set in a process that is to run tasks.
const IS_CHILD: &str = "EBB_TEST_RUNS_TASKS";

/// Some seconds of work.
const POINTS: u64 = 600 << 20;

fn job(output: VecOutput) -> JobSpec {
    pi::spec("pi", Arc::new(output), POINTS, 8, 1, Variant::Plain)
}

#[test]
#[ignore = "it is what the processes of the other test here run"]
fn door() {
    if std::env::var_os(IS_CHILD).is_some() {
        let server = TaskServer::from_stdin().unwrap();
        let build = |_: &[u8]| Ok::<_, String>(job(VecOutput::new()));
        server.serve(build).unwrap();
    }
}

fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "door", "--ignored"])
        .env(IS_CHILD, "1")
        .stderr(Stdio::null());
    command
}

/// The cores that this process may run on.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect()
}

/// For how long they had nothing to run, in seconds.
fn idle_s(cores: &[usize]) -> f64 {
    let times = KernelStats::current().unwrap().cpu_time;
    let ticks = |core: &usize| times[*core].idle + times[*core].iowait.unwrap_or(0);
    cores.iter().map(ticks).sum::<u64>() as f64 / procfs::ticks_per_second() as f64
}

#[test]
fn what_processes_of_a_job_use_counts_as_analytics_and_as_nothing_else() {
    let output = VecOutput::new();
    let processes = TaskProcesses::new(command, Vec::new());
    let spec = job(output.clone()).in_processes(Arc::new(processes));
    let runtime = Runtime::start(RuntimeOptions::new(2)).unwrap();
    let cores = cores();
    let (idle_before_s, started) = (idle_s(&cores), Instant::now());
    let mut monitor = LoadMonitor::start().unwrap();
    let handle = runtime.submit(spec).unwrap();

    let (mut transactional_s, mut analytics_s, mut others_s) = (0.0, 0.0, 0.0);
    let mut ended = None;
    loop {
        // Looked at once more when it has ended, for the rest.
        let is_last = ended.is_some();
        let used = monitor.sample().unwrap();
        transactional_s += used.transactional_cores * used.length_s;
        analytics_s += used.analytics_cores * used.length_s;
        others_s += used.others_cores * used.length_s;
        if is_last {
            break;
        }
        ended = handle.wait_timeout(Duration::from_millis(100));
    }
    let all_s = cores.len() as f64 * started.elapsed().as_secs_f64();
    let idle_s = idle_s(&cores) - idle_before_s;
    let report = ended.unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(output.rows().is_some());

    // The job's own account: the processes, and what their threads here do for them.
    let cpu_s = report.cpu_s;
    let told = format!(
        "of {all_s} s: {cpu_s} by the job, {analytics_s} analytics, {transactional_s} \
         transactional, {others_s} others, {idle_s} idle"
    );
    println!("{told}");
    assert!(cpu_s > 0.5, "{told}");
    assert!((0.7 * cpu_s..1.3 * cpu_s).contains(&analytics_s), "{told}");
    assert!(transactional_s < 0.3 * cpu_s, "{told}");
    // Counted among others as well, it would be there twice. The kernel's count of idle
    // time is off by some ticks.
    let counted_s = analytics_s + transactional_s + others_s + idle_s;
    assert!((counted_s - all_s).abs() < 0.3 * cpu_s + 0.2, "{told}");
}
