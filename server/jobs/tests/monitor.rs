//! The CPU time that the load monitor counts for a job in processes. The processes run this very
//! test program, and the test `door` in it runs their tasks.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ebb_colocate::LoadMonitor;
use ebb_jobs::pi::{self, Variant};
use ebb_scheduler::runtime::{
    JobSpec, Outcome, Runtime, RuntimeOptions, TaskProcesses, TaskServer, Throttles, VecOutput,
    processes_cpu_s,
};
use procfs::{CurrentSI, KernelStats};
use rustix::thread::{CpuSet, sched_getaffinity};

/// The environment variable that is set for a child process of this test program that runs tasks.
const IS_CHILD: &str = "EBB_TEST_RUNS_TASKS";

/// A number of points that takes some seconds to draw.
const MANY_POINTS: u64 = 600 << 20;

fn job(points: u64, output: VecOutput) -> JobSpec {
    pi::spec("pi", Arc::new(output), points, 8, 1, Variant::Plain)
}

/// Returns a job that draws `points` random points, and whose tasks run in child processes. The
/// processes get the number of points as the description of the job.
fn job_in_processes(points: u64, output: VecOutput) -> JobSpec {
    let processes = TaskProcesses::new(command, points.to_string());
    job(points, output).in_processes(Arc::new(processes))
}

#[test]
#[ignore = "it is what the processes of the other tests here run"]
fn door() {
    if std::env::var_os(IS_CHILD).is_some() {
        let server = TaskServer::from_stdin().unwrap();
        let build = |description: &[u8]| {
            let points = std::str::from_utf8(description).map_err(|e| e.to_string())?;
            let points = points
                .parse::<u64>()
                .map_err(|_| format!("{points} points"))?;
            Ok::<_, String>(job(points, VecOutput::new()))
        };
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

/// Returns the cores that this process may run on.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect()
}

/// Returns how long these cores were idle or waited for I/O since the start of the machine: the
/// sum, in seconds.
fn idle_s(cores: &[usize]) -> f64 {
    let times = KernelStats::current().unwrap().cpu_time;
    let ticks = |core: &usize| times[*core].idle + times[*core].iowait.unwrap_or(0);
    cores.iter().map(ticks).sum::<u64>() as f64 / procfs::ticks_per_second() as f64
}

#[test]
fn what_processes_of_a_job_use_counts_as_analytics() {
    let runtime = Runtime::start(RuntimeOptions {
        throttles: Throttles {
            idle_class: false,
            ..Throttles::default()
        },
        speculation: false,
        ..RuntimeOptions::new(2)
    });
    let runtime = runtime.unwrap();
    let mut monitor = LoadMonitor::start().unwrap();
    let before_s = processes_cpu_s();
    let job = job_in_processes(1 << 20, VecOutput::new());
    let report = runtime.submit(job).unwrap().wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let used_s = processes_cpu_s() - before_s;
    let load = monitor.sample().unwrap();
    let analytics_s = load.analytics_cores * load.length_s;
    assert!(
        used_s > 0.0 && analytics_s >= used_s - 1e-6,
        "{analytics_s} s of analytics, {used_s} s by the processes"
    );
}

#[test]
#[ignore = "nightly: compares the CPU time of processes with that of the whole machine"]
fn what_processes_of_a_job_use_counts_as_analytics_and_as_nothing_else() {
    let output = VecOutput::new();
    let spec = job_in_processes(MANY_POINTS, output.clone());
    let runtime = Runtime::start(RuntimeOptions::new(2)).unwrap();
    let cores = cores();
    let (idle_before_s, begun_s) = (idle_s(&cores), runtime.now_s());
    let mut monitor = LoadMonitor::start().unwrap();
    let handle = runtime.submit(spec).unwrap();

    let (mut transactional_s, mut analytics_s, mut others_s) = (0.0, 0.0, 0.0);
    let mut ended = None;
    loop {
        // Sampled once more after the job has ended, for the rest.
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
    let all_s = cores.len() as f64 * (runtime.now_s() - begun_s);
    let idle_s = idle_s(&cores) - idle_before_s;
    let report = ended.unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(output.rows().is_some());

    // The job's own account: the processes, and the work of its threads in this process.
    let cpu_s = report.cpu_s;
    let text = format!(
        "of {all_s} s: {cpu_s} by the job, {analytics_s} analytics, {transactional_s} \
         transactional, {others_s} others, {idle_s} idle"
    );
    println!("{text}");
    assert!(cpu_s > 0.5, "{text}");
    assert!((0.7 * cpu_s..1.3 * cpu_s).contains(&analytics_s), "{text}");
    assert!(transactional_s < 0.3 * cpu_s, "{text}");
    // If the time counted as that of others as well, it would be there twice. The kernel's
    // count of idle time is off by some ticks.
    let counted_s = analytics_s + transactional_s + others_s + idle_s;
    assert!((counted_s - all_s).abs() < 0.3 * cpu_s + 0.2, "{text}");
}
