//! Running a study with a progress bar, and its result as a table or as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use ebb_bench::sim::{self, PointResult, PolicyResult, StudyResult};
use ebb_scheduler::sim::scenario::Scenario;

use crate::print::{Printer, counted, table};
use crate::progress::run_bar;

/// Runs it on all cores.
pub(super) fn simulate(scenario: &Scenario) -> Result<StudyResult> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let policies = scenario.policies.len() as u64 + u64::from(scenario.offline_bound);
    let runs = scenario.points.len() as u64 * policies * u64::from(scenario.replicas);
    let bar = run_bar(runs);
    let result = sim::run(scenario, threads, &bar);
    bar.finish_and_clear();
    result
}

/// Writes JSON into a file.
pub(super) fn write_json(result: &StudyResult, path: &Path) -> Result<()> {
    let json = serde_json::to_string(result)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// A table per point, and one of its listed jobs.
pub(super) fn print(printer: &mut Printer, result: &StudyResult) -> Result<()> {
    let replicas = counted(result.replicas.into(), "replica");
    printer.line(format_args!(
        "{} ({replicas}, {:.1} s of CPU)",
        result.title, result.cpu_s
    ))?;
    for point in &result.points {
        printer.line("")?;
        if !point.set.is_empty() {
            printer.line(point.label())?;
        }
        for line in metrics(point) {
            printer.line(line)?;
        }
        for line in jobs(point) {
            printer.line(line)?;
        }
    }
    Ok(())
}

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
    let row = |policy: &PolicyResult| {
        let jobs = policy.replicas.iter().map(|replica| replica.jobs);
        let jobs = f64::from(jobs.sum::<u32>()) / policy.replicas.len() as f64;
        vec![
            policy.policy.clone(),
            format!("{jobs:.0}"),
            format!("{:.1}%", 100.0 * policy.missed_fraction.mean),
            format!("{:.1}", 100.0 * policy.missed_fraction.half_width_95),
            above_bound(policy),
            format!("{:.2}", policy.beyond_s.mean / 3600.0),
            format!("{:.2}", policy.distance_s.mean / 3600.0),
            format!("{:.2}", policy.tardiness_s.mean / 3600.0),
            format!("{:.1}", policy.tardiness_p99_s.mean / 3600.0),
            format!("{:.1}%", 100.0 * policy.utilisation.mean),
            format!("{:.1}%", 100.0 * policy.locality.mean),
            format!("{:.1}", policy.makespan_s.mean / 3600.0),
        ]
    };
    let bound = point.bound.iter().map(|bound| {
        let missed = bound.missed_fraction;
        let jobs = bound.replicas.iter().map(|replica| replica.jobs);
        let jobs = f64::from(jobs.sum::<u32>()) / bound.replicas.len() as f64;
        let mut row = vec!["(bound)".to_string(), format!("{jobs:.0}")];
        row.push(format!("{:.1}%", 100.0 * missed.mean));
        row.push(format!("{:.1}", 100.0 * missed.half_width_95));
        row.resize(head.len(), "-".to_string());
        row
    });
    let rows: Vec<_> = point.policies.iter().map(row).chain(bound).collect();
    table(&head, &head[1..], &rows)
}

/// In points, with the half width of its confidence interval.
fn above_bound(policy: &PolicyResult) -> String {
    policy.above_bound.map_or("-".to_string(), |above| {
        let (mean, half) = (100.0 * above.mean, 100.0 * above.half_width_95);
        format!("{mean:.1} +- {half:.1}")
    })
}

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
    let seconds = |t_s: Option<f64>| t_s.map_or("-".to_string(), |t_s| format!("{t_s:.0}"));
    let rows: Vec<Vec<String>> = (point.policies.iter())
        .flat_map(|policy| policy.jobs.iter().map(move |job| (policy, job)))
        .map(|(policy, job)| {
            let record = &job.record;
            let met = match record.met {
                None => "-".to_string(),
                Some(_) => format!("{:.0}%", 100.0 * job.met_fraction),
            };
            vec![
                policy.policy.clone(),
                job.name.clone(),
                seconds(Some(record.job.submitted_s)),
                seconds(record.job.goal_s),
                seconds(record.finished_s),
                format!("{:.0}", job.took_s.mean),
                format!("{:.0}", job.took_s.half_width_95),
                met,
            ]
        })
        .collect();
    match rows.is_empty() {
        true => Vec::new(),
        false => table(&head, &head[2..], &rows),
    }
}
