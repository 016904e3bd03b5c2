//! A job beside programs that keep all cores busy: how long an aggregate takes beside two such
//! programs and alone, whether it meets a goal, and the tail of reads with such jobs and without.
//!
//! The programs are shells that count, as children of this process: they are in its session, and in
//! the usual scheduling class. The tail is that of point reads at half of what a closed loop reaches
//! beside the programs. They run in all of its windows, so only the jobs differ.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ebb_jobs::history::RecordState;
use ebb_jobs::request::{
    AggregateRequest, ApplicationRequest, InputRequest, JobRequest, OutputPlace, TableInput,
};
use ebb_server::http::JobsClient;
use ebb_server::jobs::{Jobs, ReadJobs};
use serde::Serialize;
use serde_json::Value;

use super::bar::verdict;
use super::indexed::{PLAIN, load_plain};
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::steady::{MeasuredLoad, SteadyLoad};
use super::window::{ALONE, Window};
use crate::console::progress_bar;
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::statistics::{median, median_ratio};
use crate::number::fixed;
use crate::threads::{beside, pause};

/// The number of busy programs: two, because the results in the book were measured on a machine
/// with two cores. The limits below are for such a machine, too.
const PROGRAMS: usize = 2;
/// The completion time goal of those aggregation jobs that have a goal, in seconds. On a machine with
/// two cores, a job without a goal takes some 3 s beside the busy programs.
const GOAL_S: f64 = 5.0;
/// The largest acceptable duration of an aggregation job beside busy programs, as a multiple of its
/// duration without them.
const WALL_MAX: f64 = 12.0;
/// The largest acceptable upper end of the confidence interval of the ratio of the p99 of reads with
/// jobs to that without.
const P99_MAX: f64 = 1.2;
/// The wait after busy programs have started or ended, before an aggregation job begins. The server
/// averages the CPU time of other processes over two seconds, so it has noticed the change by then.
const NOTICED: Duration = Duration::from_secs(3);
/// The longest time for which one request waits for the end of a job.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait for the end of a job.
const JOB_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Serialize)]
pub struct Neighbours {
    /// The number of rows of the aggregated table.
    pub rows: u64,
    /// The number of busy programs.
    pub programs: usize,
    /// Wall time of an aggregation job without other programs, in seconds, one value for each
    /// round.
    pub alone_s: Vec<f64>,
    /// Wall time of an aggregation job beside other programs that keep all cores busy, in seconds,
    /// one value for each round.
    pub beside_s: Vec<f64>,
    /// Wall time of an aggregation job with a goal, beside other programs that keep all cores busy,
    /// in seconds, one value for each round.
    pub with_goal_s: Vec<f64>,
    /// The number of aggregation jobs that met their completion time goal.
    pub goals_met: usize,
    /// The load and its reads. The peak rate and all windows are measured beside other programs
    /// that keep all cores busy. The load alone is the load without jobs.
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// The ratio of the p99 of reads with jobs to that without.
    pub with_jobs: Estimate,
    /// The number of aggregation jobs that completed in the windows with jobs.
    pub completed: u64,
}

impl PartResult for Neighbours {
    fn lines(&self) -> Vec<String> {
        let load = &self.load;
        let ratio = median_ratio(&self.beside_s, &self.alone_s);
        vec![
            format!(
                "an aggregate over {} rows beside {} busy programs: {:.2} s, alone {:.2} s",
                self.rows,
                self.programs,
                median(&self.beside_s),
                median(&self.alone_s)
            ),
            format!(
                "  beside them / alone {}, at most {WALL_MAX}: {}",
                fixed(ratio, 2),
                verdict(ratio.is_some_and(|ratio| ratio <= WALL_MAX))
            ),
            format!(
                "  with a goal of {GOAL_S} s: {:.2} s beside them; {} of {} goals met, all: {}",
                median(&self.with_goal_s),
                self.goals_met,
                self.with_goal_s.len(),
                verdict(self.goals_met == self.with_goal_s.len())
            ),
            format!(
                "  reads of an open loop at {:.0} ops/s (peak {:.0}) beside the programs: p99 {:.0} us",
                load.rate_ops_per_s, load.peak_ops_per_s, load.p99_us
            ),
            format!(
                "  p99 with aggregates / without {}; without again {}; {} aggregates completed",
                self.with_jobs, load.alone_again, self.completed
            ),
            format!(
                "  upper end {:.2}, at most {P99_MAX}: {}; windows that count {:?}; {} operations were \
                 due and never began",
                self.with_jobs.high,
                verdict(self.with_jobs.high <= P99_MAX),
                load.windows,
                load.unserved
            ),
        ]
    }
}

/// Measures the durations of aggregation jobs without and beside busy programs, and the tail
/// latency of reads without and with such jobs, on a new server.
///
/// # Errors
/// When the server fails or returns a wrong value, an aggregation job fails, or the user interrupts
/// the run.
pub fn measure(setting: &Setting<'_>) -> Result<Neighbours> {
    let args = setting.args;
    let server = setting.start("neighbours", &[])?;
    load_plain(&server, args)?;
    let mut client = setting.client(&server, None)?;
    server.settle()?;
    let mut aggregates = Aggregates::new(&server, setting)?;
    // The first aggregate has cold caches, so it is not measured.
    aggregates.run(None)?;
    let (mut alone_s, mut beside_s, mut with_goal_s) = (Vec::new(), Vec::new(), Vec::new());
    let mut goals_met = 0;
    let bar = progress_bar("serving: neighbours", u64::from(args.rounds));
    for _ in 0..args.rounds {
        setting.check_interrupt()?;
        // The server still counts the CPU time of the programs of the previous round.
        pause(NOTICED);
        alone_s.push(aggregates.run(None)?.wall_s);
        // The programs run until the end of this round.
        let _programs = BusyPrograms::start()?;
        pause(NOTICED);
        beside_s.push(aggregates.run(None)?.wall_s);
        let with_goal = aggregates.run(Some(GOAL_S))?;
        with_goal_s.push(with_goal.wall_s);
        goals_met += usize::from(with_goal.is_in_time);
        bar.inc(1);
    }
    bar.finish_and_clear();
    // The programs run until this function ends. The peak is measured beside them, too: half of an
    // idle machine's peak might be more than the server can serve beside them.
    let _programs = BusyPrograms::start()?;
    let load = SteadyLoad::find(args, &mut client)?;
    let mut completed = 0;
    let windows = setting.in_turns("neighbours", ALONE.len() + 1, |turn| {
        let mut run = || Window::of_reads(&mut client, &load.plan);
        if ALONE.contains(&turn) {
            return run();
        }
        let (window, jobs) = aggregates.beside(run)?;
        completed += jobs;
        Ok(window)
    })?;
    drop(client);
    server.stop()?;
    Ok(Neighbours {
        rows: args.records,
        programs: PROGRAMS,
        alone_s,
        beside_s,
        with_goal_s,
        goals_met,
        load: load.measured(&windows),
        with_jobs: windows.p99(2, &ALONE),
        completed,
    })
}

/// A shell program that counts without end, and checks at intervals that its parent is alive, so that
/// none is left if the parent is killed.
const COUNTS: &str =
    r#"while kill -0 "$PPID"; do n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; done"#;

/// Shells that count without end, to keep cores busy. They are killed when this value is dropped.
#[derive(Debug)]
struct BusyPrograms(Vec<Child>);

impl BusyPrograms {
    fn start() -> Result<Self> {
        let mut programs = Self(Vec::new());
        for _ in 0..PROGRAMS {
            let mut program = Command::new("sh");
            let program = program.args(["-c", COUNTS]).stderr(Stdio::null()).spawn();
            programs.0.push(program.context("cannot start a shell")?);
        }
        Ok(programs)
    }
}

impl Drop for BusyPrograms {
    fn drop(&mut self) {
        for program in &mut self.0 {
            // Errors are ignored: the program may have ended already.
            drop(program.kill());
            drop(program.wait());
        }
    }
}

/// Runs aggregation jobs over one table in the server.
#[derive(Debug)]
struct Aggregates {
    jobs: JobsClient,
    folder: PathBuf,
    rows: u64,
    /// The number of jobs so far. Each has an output of its own.
    started: u32,
}

/// An aggregation job that has succeeded.
#[derive(Debug, Clone, Copy)]
struct Aggregate {
    /// The time from the submission to the server's response that the job has ended.
    wall_s: f64,
    /// Whether the job had a completion time goal, and met it.
    is_in_time: bool,
}

impl Aggregates {
    fn new(server: &Server, setting: &Setting<'_>) -> Result<Self> {
        Ok(Self {
            jobs: server.jobs_client()?,
            folder: setting.folder.to_path_buf(),
            rows: setting.args.records,
            started: 0,
        })
    }

    /// Runs an aggregation job to its end, with a completion time goal if `goal_s` is given.
    fn run(&mut self, goal_s: Option<f64>) -> Result<Aggregate> {
        let done = self.run_until(goal_s, &AtomicBool::new(false))?;
        done.context("nothing has ended it")
    }

    /// Runs `work` while aggregation jobs run, one after the other. Also returns how many of these
    /// jobs completed.
    fn beside<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        beside(work, |is_over| {
            let mut completed = 0;
            while !is_over.load(Ordering::Relaxed) {
                completed += u64::from(self.run_until(None, is_over)?.is_some());
            }
            Ok(completed)
        })
    }

    /// Runs an aggregation job to its end, or cancels it once `is_over`; `None` if it was
    /// cancelled.
    fn run_until(
        &mut self,
        goal_s: Option<f64>,
        is_over: &AtomicBool,
    ) -> Result<Option<Aggregate>> {
        self.started += 1;
        let output = self
            .folder
            .join(format!("aggregate-{}.jsonl", self.started));
        let request = JobRequest {
            goal_s,
            ..self.request(output.clone())?
        };
        let began = Instant::now();
        let id = self.jobs.submit(&request)?.record.id;
        let ended = loop {
            let job = self.jobs.show(&id, LOOK)?;
            if job.record.state != RecordState::Started {
                break job;
            }
            if is_over.load(Ordering::Relaxed) {
                // An error is ignored: the job may have ended meanwhile, which the next look shows.
                drop(self.jobs.cancel(&id));
            }
            let ran = began.elapsed();
            ensure!(
                ran < JOB_MAX,
                "an aggregate does not end in {} s",
                ran.as_secs()
            );
        };
        let wall_s = began.elapsed().as_secs_f64();
        let state = ended.record.state;
        if state == RecordState::Cancelled && is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ensure!(
            state == RecordState::Succeeded,
            "an aggregate ended as {state:?}"
        );
        let written = fs::read_to_string(&output).context("an aggregate has no output")?;
        let row: Value = serde_json::from_str(written.trim())?;
        let rows = row["rows"].to_string();
        ensure!(
            rows.trim_matches('"') == self.rows.to_string(),
            "{rows} rows"
        );
        let is_in_time = ended.end.and_then(|end| end.report.met) == Some(true);
        Ok(Some(Aggregate { wall_s, is_in_time }))
    }

    fn request(&self, output: PathBuf) -> Result<JobRequest> {
        let application = ApplicationRequest::Aggregate(AggregateRequest {
            reduces: 1,
            by: Vec::new(),
            of: vec!["g".to_owned()],
            quantiles: Vec::new(),
        });
        let table = PLAIN.parse();
        let table = table.map_err(|error: String| anyhow!(error))?;
        let input = InputRequest::Table(TableInput::new(table));
        let output = OutputPlace::File(output).into();
        Ok(JobRequest::new(
            application,
            vec![input],
            output,
            &self.folder,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::measured_load;
    use super::*;

    #[test]
    fn each_bar_is_met_or_missed_by_its_own_number() {
        let estimate = |high| Estimate {
            value: 1.0,
            low: 0.9,
            high,
        };
        let result = |beside_s, goals_met, high| Neighbours {
            rows: 1000,
            programs: PROGRAMS,
            alone_s: vec![0.5],
            beside_s: vec![beside_s],
            with_goal_s: vec![4.0],
            goals_met,
            load: measured_load(),
            with_jobs: estimate(high),
            completed: 1,
        };
        let missed = |result: Neighbours| {
            let lines = result.lines();
            lines
                .iter()
                .filter(|line| line.contains(": misses"))
                .count()
        };
        assert_eq!(missed(result(6.0, 1, 1.2)), 0);
        assert_eq!(missed(result(6.1, 1, 1.2)), 1);
        assert_eq!(missed(result(6.0, 0, 1.2)), 1);
        assert_eq!(missed(result(6.0, 1, 1.21)), 1);
    }

    #[test]
    fn busy_programs_end_with_their_owner() {
        let programs = BusyPrograms::start().unwrap();
        let path = |program: &Child| PathBuf::from(format!("/proc/{}", program.id()));
        let paths: Vec<PathBuf> = programs.0.iter().map(path).collect();
        assert!(paths.iter().all(|path| path.exists()));
        drop(programs);
        assert!(!paths.iter().any(|path| path.exists()));
    }
}
