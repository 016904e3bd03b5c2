//! Runs a study with a progress bar, and prints its result as a table or as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use ebb_bench::number::{NONE, fixed, percent};
use ebb_bench::sim::{self, PointResult, PolicyResult, StudyResult};
use ebb_scheduler::sim::Interval;
use ebb_scheduler::sim::scenario::Scenario;

use crate::print::{Printer, counted, table};
use crate::progress::run_bar;

/// Runs a scenario on all cores.
pub(super) fn simulate(scenario: &Scenario) -> Result<StudyResult> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let policies = scenario.policies.len() as u64 + u64::from(scenario.offline_bound);
    let runs = scenario.points.len() as u64 * policies * u64::from(scenario.replicas);
    let bar = run_bar(runs);
    let result = sim::run(scenario, threads, &bar);
    bar.finish_and_clear();
    result
}

pub(super) fn write_json(result: &StudyResult, path: &Path) -> Result<()> {
    let json = serde_json::to_string(result)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// Prints two tables for each point of a scenario, that is for each combination of swept values: one of the
/// policies, and one of the listed jobs.
pub(super) fn print(printer: &mut Printer, result: &StudyResult) -> Result<()> {
    let replicas = counted(result.replicas.into(), "replica");
    printer.line(format_args!(
        "{} ({replicas}, {} s of CPU)",
        result.title,
        fixed(result.cpu_s, 1)
    ))?;
    for point in &result.points {
        printer.line("")?;
        if !point.set.is_empty() {
            printer.line(point.label())?;
        }
        printer.lines(metrics(point))?;
        printer.lines(jobs(point))?;
    }
    Ok(())
}

/// Returns the table of the policies. If the offline bound was computed, the last row shows it.
/// This row has only the number of jobs and the missed goals; its other cells are dashes.
fn metrics(point: &PointResult) -> Vec<String> {
    let head = [
        "policy",
        "jobs",
        "missed",
        "+-",
        "above bound",
        "beyond h",
        "distance h",
        "tardiness h",
        "p99 h",
        "used",
        "local",
        "last end h",
    ];
    let mean = |of: Option<Interval>| of.map(|of| of.mean);
    let hours = |of: Option<Interval>| mean(of).map(|seconds| seconds / 3600.0);
    let missed = |of: Option<Interval>, replicas: usize| {
        let half_width = half_width(of, replicas).map(|part| 100.0 * part);
        [percent(mean(of), 1), fixed(half_width, 1)]
    };
    // The mean over the replicas: each may draw another number of generated jobs.
    let jobs = |jobs: u32, replicas: usize| fixed(f64::from(jobs) / replicas as f64, 0);
    let row = |policy: &PolicyResult| {
        let replicas = policy.replicas.iter().map(|replica| replica.jobs);
        let mut row = vec![
            policy.policy.clone(),
            jobs(replicas.sum(), policy.replicas.len()),
        ];
        row.extend(missed(policy.missed_fraction, policy.replicas.len()));
        row.extend([
            above_bound(policy),
            fixed(hours(policy.beyond_s), 2),
            fixed(hours(policy.distance_s), 2),
            fixed(hours(policy.tardiness_s), 2),
            fixed(hours(policy.tardiness_p99_s), 1),
            percent(mean(policy.utilisation), 1),
            percent(mean(policy.locality), 1),
            fixed(hours(policy.makespan_s), 1),
        ]);
        row
    };
    let bound = point.bound.iter().map(|bound| {
        let replicas = bound.replicas.iter().map(|replica| replica.jobs);
        let mut row = vec![
            "(bound)".to_string(),
            jobs(replicas.sum(), bound.replicas.len()),
        ];
        row.extend(missed(bound.missed_fraction, bound.replicas.len()));
        row.resize(head.len(), NONE.to_string());
        row
    });
    let rows: Vec<_> = point.policies.iter().map(row).chain(bound).collect();
    table(&head, &head[1..], &rows)
}

/// Returns the half width of the 95% confidence interval; `None` for a single replica, which has no interval.
fn half_width(of: Option<Interval>, replicas: usize) -> Option<f64> {
    of.filter(|_| replicas > 1).map(|of| of.half_width_95)
}

/// Formats the share of goals that the policy missed beyond the offline bound, which is the share
/// of goals that no scheduler can meet. The result is in percentage points, with the half width of
/// the confidence interval if there is one.
fn above_bound(policy: &PolicyResult) -> String {
    let mean = fixed(policy.above_bound.map(|above| 100.0 * above.mean), 1);
    match half_width(policy.above_bound, policy.replicas.len()) {
        Some(half) => format!("{mean} +- {}", fixed(100.0 * half, 1)),
        None => mean,
    }
}

/// Returns the table of the listed jobs; empty if there are none.
fn jobs(point: &PointResult) -> Vec<String> {
    let head = [
        "policy",
        "job",
        "submitted s",
        "goal s",
        "finished s",
        "took s",
        "+-",
        "met",
    ];
    let rows: Vec<Vec<String>> = (point.policies.iter())
        .flat_map(|policy| policy.jobs.iter().map(move |job| (policy, job)))
        .map(|(policy, job)| {
            let record = &job.record;
            // The times of a job that was never submitted may count from an end that never came.
            let submitted_s = Some(record.job.submitted_s).filter(|_| record.was_submitted);
            let goal_s = record.job.goal_s.filter(|_| record.was_submitted);
            vec![
                policy.policy.clone(),
                job.name.clone(),
                fixed(submitted_s, 0),
                fixed(goal_s, 0),
                fixed(record.finished_s, 0),
                fixed(job.took_s.map(|took| took.mean), 0),
                fixed(half_width(job.took_s, policy.replicas.len()), 0),
                percent(job.met_fraction, 0),
            ]
        })
        .collect();
    if rows.is_empty() {
        Vec::new()
    } else {
        table(&head, &head[2..], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario with two points, one for each value of a swept field. At the first point, no
    /// capacity is left for jobs. At the second, all of the capacity is left, but one of the jobs
    /// takes longer than the simulated time.
    const NEVER: &str = r#"
policies = ["fifo"]
offline_bound = true
[run]
horizon_s = 3600
[[nodes]]
count = 2
[availability]
kind = "constant"
fraction = 1.0
[applications.short]
map_s = 60
[applications.long]
map_s = 9000
[[job]]
name = "short"
application = "short"
maps = 2
[[job]]
name = "long"
application = "long"
maps = 1
goal_s = 1800
[[job]]
name = "next"
application = "short"
maps = 1
after = "long"
submitted_s = 5
[sweep]
"availability.fraction" = [0.0, 1.0]
"#;

    #[test]
    fn what_never_ended_and_what_there_is_not_is_a_dash() {
        let scenario = Scenario::parse("x.toml", NEVER).unwrap();
        let result = simulate(&scenario).unwrap();
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = |point: usize| -> Vec<String> {
            let point = &result.points[point];
            let all = metrics(point).into_iter().chain(jobs(point));
            all.map(|line| words(&line)).collect()
        };
        assert_eq!(
            lines(0)[1..],
            [
                "fifo 3 100.0% - 0.0 0.50 - 0.50 0.5 - - -",
                "(bound) 1 100.0% - - - - - - - - -",
                "policy job submitted s goal s finished s took s +- met",
                "fifo short 0 - - - - -",
                "fifo long 0 1800 - - - 0%",
                "fifo next - - - - - -",
            ]
        );
        let all = lines(1);
        assert_eq!(all[4], "fifo short 0 - 60 60 - -");
        assert_eq!(all[5], "fifo long 0 1800 - - - 0%");
        assert_eq!(all[6], "fifo next - - - - - -");
        let shown = [lines(0), all].concat().join("\n");
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    }
}
