//! Jobs and a client's scan beside programs that keep all cores busy: how long an aggregate and the
//! scan of a whole table take beside two such programs and alone, whether aggregates meet a goal, and
//! the tail of reads with aggregates and without.
//!
//! The programs are shells that count, in the usual scheduling class, as children of this process.
//! The durations are measured beside them in two [places](Place):
//!
//! - *With the server*, in its session. The kernel compares the threads of the server with the programs
//!   one by one, as in a container, and on a machine without `sched_autogroup`. Next to nothing is left
//!   for a thread of the idle class, and nice values count. All bars are for this place.
//! - *Apart*, each program in a session of its own, like programs of other users and services. With
//!   `sched_autogroup` the kernel first divides a core among sessions. The session of the server then
//!   gets its part of the core, whatever the class and the nice value of its threads. Where the kernel
//!   has no such groups, or puts no process of this cgroup into them, both places are the same.
//!
//! The scan is that of one client in the usual class, page by page, as by `COPY TO` of `cqlsh`. It has
//! no bar. An operator had reported 52 s beside two programs, and 2 s alone.
//!
//! The tail is that of point reads at half of what a closed loop reaches beside the programs. The
//! programs run in all of its windows, with the server, so only the jobs differ.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use serde::Serialize;

use super::aggregates::Aggregates;
use super::bar::verdict;
use super::busy_programs::{BusyPrograms, PROGRAMS, Place};
use super::indexed::load_plain;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::steady::{MeasuredLoad, SteadyLoad};
use super::window::{ALONE, Window};
use crate::console::progress_bar;
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::statistics::{median, median_ratio};
use crate::number::fixed;
use crate::threads::pause;
use crate::ycsb::cql::{Sessions, pages};

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
/// The most rows in a page of the scan, as by `COPY TO` of `cqlsh`.
const PAGE_ROWS: u32 = 1000;

#[derive(Debug, Clone, Serialize)]
pub struct Neighbours {
    /// The number of rows of the aggregated table, and of the table of the scan.
    pub rows: u64,
    /// The number of busy programs.
    pub programs: usize,
    /// Whether the kernel schedules by session (`kernel.sched_autogroup_enabled`); `None` if the
    /// kernel has no such setting.
    pub sched_autogroup: Option<bool>,
    #[serde(flatten)]
    pub durations: Durations,
    /// The load and its reads. The peak rate and all windows are measured beside other programs
    /// that keep all cores busy. The load alone is the load without jobs.
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// The ratio of the p99 of reads with jobs to that without.
    pub with_jobs: Estimate,
    /// The number of aggregation jobs that completed in the windows with jobs.
    pub completed: u64,
}

/// Wall times in seconds, one value for each round. "Beside" means beside other programs that keep
/// all cores busy, in the session of the server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Durations {
    /// An aggregation job without other programs.
    pub alone_s: Vec<f64>,
    /// An aggregation job beside the programs.
    pub beside_s: Vec<f64>,
    /// An aggregation job with a goal, beside the programs.
    pub with_goal_s: Vec<f64>,
    /// The number of aggregation jobs that met their completion time goal.
    pub goals_met: usize,
    /// An aggregation job while the programs run in sessions of their own.
    pub apart_s: Vec<f64>,
    /// A client's scan of a whole table without other programs.
    pub scan_alone_s: Vec<f64>,
    /// The same scan beside the programs.
    pub scan_beside_s: Vec<f64>,
    /// The same scan while the programs run in sessions of their own.
    pub scan_apart_s: Vec<f64>,
}

impl PartResult for Neighbours {
    fn lines(&self) -> Vec<String> {
        let (load, durations) = (&self.load, &self.durations);
        let ratio = median_ratio(&durations.beside_s, &durations.alone_s);
        let mut lines = vec![
            format!(
                "an aggregate over {} rows beside {} busy programs: {:.2} s, alone {:.2} s",
                self.rows,
                self.programs,
                median(&durations.beside_s),
                median(&durations.alone_s)
            ),
            format!(
                "  beside them / alone {}, at most {WALL_MAX}: {}",
                fixed(ratio, 2),
                verdict(ratio.is_some_and(|ratio| ratio <= WALL_MAX))
            ),
            format!(
                "  with a goal of {GOAL_S} s: {:.2} s beside them; {} of {} goals met, all: {}",
                median(&durations.with_goal_s),
                durations.goals_met,
                durations.with_goal_s.len(),
                verdict(durations.goals_met == durations.with_goal_s.len())
            ),
        ];
        lines.extend(self.lines_without_bars());
        lines.extend([
            format!(
                "  reads of an open loop at {:.0} ops/s (peak {:.0}) beside the programs: p99 {:.0} us",
                load.rate_ops_per_s, load.peak_ops_per_s, load.p99_us
            ),
            format!(
                "  p99 with aggregates / without {}; without again {}; {} aggregates completed",
                self.with_jobs, load.alone_again, self.completed
            ),
            format!(
                "  upper end {:.2}, at most {P99_MAX}: {}; windows that count {:?}; {}",
                self.with_jobs.high,
                verdict(self.with_jobs.high <= P99_MAX),
                load.windows,
                load.unanswered()
            ),
        ]);
        lines
    }
}

impl Neighbours {
    /// Returns the lines about the durations that have no bar.
    fn lines_without_bars(&self) -> [String; 2] {
        let durations = &self.durations;
        let ratio = |above: &[f64], below: &[f64]| fixed(median_ratio(above, below), 2);
        let autogroup = match self.sched_autogroup {
            Some(true) => "on",
            Some(false) => "off",
            None => "absent",
        };
        [
            format!(
                "  a client's scan of {} rows: {:.2} s beside them, alone {:.2} s; beside them / alone {}",
                self.rows,
                median(&durations.scan_beside_s),
                median(&durations.scan_alone_s),
                ratio(&durations.scan_beside_s, &durations.scan_alone_s)
            ),
            format!(
                "  beside programs in sessions of their own (sched_autogroup {autogroup}): an aggregate \
                 {:.2} s, / alone {}; a scan {:.2} s, / alone {}",
                median(&durations.apart_s),
                ratio(&durations.apart_s, &durations.alone_s),
                median(&durations.scan_apart_s),
                ratio(&durations.scan_apart_s, &durations.scan_alone_s)
            ),
        ]
    }
}

/// Measures the durations of aggregation jobs and of scans without and beside busy programs, and the
/// tail latency of reads without and with such jobs, on a new server.
///
/// # Errors
/// When the server fails or returns a wrong value, an aggregation job fails, a busy program cannot be
/// started, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Neighbours> {
    let args = setting.args;
    let server = setting.start("neighbours", &[])?;
    load_plain(&server, args)?;
    let mut client = setting.client(&server, None)?;
    server.settle()?;
    let mut aggregates = Aggregates::new(&server, setting)?;
    let durations = Durations::measure(setting, &server, &mut aggregates)?;
    // The programs run until this function ends. The peak is measured beside them, too: half of an
    // idle machine's peak might be more than the server can serve beside them.
    let _programs = BusyPrograms::start(Place::WithServer)?;
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
        sched_autogroup: Sessions::of(None).sched_autogroup,
        durations,
        load: load.measured(&windows),
        with_jobs: windows.p99(2, &ALONE),
        completed,
    })
}

impl Durations {
    fn measure(
        setting: &Setting<'_>,
        server: &Server,
        aggregates: &mut Aggregates,
    ) -> Result<Self> {
        let args = setting.args;
        let scan = || scan_s(server, args.records);
        // The first aggregate and the first scan have cold caches, so they are not measured.
        aggregates.run(None)?;
        scan()?;
        let mut found = Self::default();
        let bar = progress_bar("serving: neighbours", u64::from(args.rounds));
        for _ in 0..args.rounds {
            setting.check_interrupt()?;
            // The server still counts the CPU time of the programs of the previous round.
            pause(NOTICED);
            found.alone_s.push(aggregates.run(None)?.wall_s);
            found.scan_alone_s.push(scan()?);
            let programs = BusyPrograms::start(Place::Apart)?;
            pause(NOTICED);
            found.apart_s.push(aggregates.run(None)?.wall_s);
            found.scan_apart_s.push(scan()?);
            drop(programs);
            // These programs run until the end of the round.
            let _programs = BusyPrograms::start(Place::WithServer)?;
            pause(NOTICED);
            found.beside_s.push(aggregates.run(None)?.wall_s);
            found.scan_beside_s.push(scan()?);
            let with_goal = aggregates.run(Some(GOAL_S))?;
            found.with_goal_s.push(with_goal.wall_s);
            found.goals_met += usize::from(with_goal.is_in_time);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(found)
    }
}

/// Reads the load's table as a new client, page by page, in the calling thread. Returns the duration
/// in seconds.
///
/// # Errors
/// When the server fails, or returns another number of rows than `records`.
fn scan_s(server: &Server, records: u64) -> Result<f64> {
    let mut client = Client::connect(server.address, Compression::None)?;
    let began = Instant::now();
    let rows = pages(&mut client, PAGE_ROWS, || true)?;
    let took_s = began.elapsed().as_secs_f64();
    ensure!(
        rows == records,
        "a scan of {records} rows returned {rows} rows"
    );
    Ok(took_s)
}

#[cfg(test)]
mod tests {
    use super::super::steady::tests::measured_load;
    use super::*;

    fn result(beside_s: f64, goals_met: usize, high: f64) -> Neighbours {
        Neighbours {
            rows: 1000,
            programs: PROGRAMS,
            sched_autogroup: Some(true),
            durations: Durations {
                alone_s: vec![0.5],
                beside_s: vec![beside_s],
                with_goal_s: vec![4.0],
                goals_met,
                apart_s: vec![1.0],
                scan_alone_s: vec![2.0],
                scan_beside_s: vec![52.0],
                scan_apart_s: vec![4.0],
            },
            load: measured_load(),
            with_jobs: Estimate {
                value: 1.0,
                low: 0.9,
                high,
            },
            completed: 1,
        }
    }

    #[test]
    fn each_bar_is_met_or_missed_by_its_own_number() {
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
    fn a_scan_and_programs_apart_are_reported_with_their_ratios() {
        let [scan, apart] = result(6.0, 1, 1.2).lines_without_bars();
        let scan_ends = "52.00 s beside them, alone 2.00 s; beside them / alone 26.00";
        assert!(scan.ends_with(scan_ends), "{scan}");
        let apart_ends =
            "(sched_autogroup on): an aggregate 1.00 s, / alone 2.00; a scan 4.00 s, / alone 2.00";
        assert!(apart.ends_with(apart_ends), "{apart}");
    }
}
