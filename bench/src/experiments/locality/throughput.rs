//! Wang, figures 3 and 4: 1,000 nodes, with data on 800 of them.

use anyhow::{Result, anyhow};
use ebb_scheduler::queueing::{Measured, Model, Run, queueing_policy, simulate_observed};

use super::super::table::Table;
use super::{Part, Setting};
use crate::number::{fixed, percent};
use crate::queueing::{Case, QueueingRow, run_cases, stability_limit};
use crate::sim::{Curves, Line, Progress, in_parallel};

pub const FAIR: &str = "naive-fair";
pub const JSQ: &str = "jsq-maxweight-common";
/// The length of the run of figure 3a of Wang et al., as a fraction of that of the other runs,
/// which take 250,000 time slots by default.
const FIGURE_3A_PART: f64 = 0.4;
/// The number of waiting tasks at which a run ends early, as unstable. A run of 250,000 slots
/// counts as stable if its backlog grows by less than 0.1% of the arriving tasks; this number is
/// several times as large. At the largest load that naive fair sharing can serve, this many tasks
/// arrive in three thousand slots.
const BACKLOG_MAX: u64 = 1_000_000;
/// The load of figure 3a, in tasks per slot.
const FIGURE_3A_LOAD: f64 = 390.0;

/// Returns the loads from `from` to `to` tasks per slot, both included, in steps of `step`.
fn grid(from: u32, to: u32, step: usize) -> impl Iterator<Item = f64> {
    (from..=to).step_by(step).map(f64::from)
}

/// Simulates two policies at loads of at least `from` tasks per slot, and draws pictures. With
/// `only`, simulates only the policy of this name, without pictures.
pub fn run(setting: &Setting, only: Option<&str>, from: f64) -> Result<Part> {
    let model = Model::wang();
    let case = |policy: &str, tasks_per_slot| Case {
        policy: policy.into(),
        tasks_per_slot,
    };
    let fair = grid(100, 300, 100).chain(grid(310, 380, 10));
    let jsq = grid(100, 600, 100).chain(grid(610, 670, 10));
    let cases: Vec<Case> = (fair.map(|load| case(FAIR, load)))
        .chain(jsq.map(|load| case(JSQ, load)))
        .filter(|case| case.tasks_per_slot >= from)
        .filter(|case| only.is_none_or(|only| case.policy == only))
        .collect();
    let bar = Setting::bar(cases.len() + 2);
    let run = Run {
        backlog_max: BACKLOG_MAX,
        ..setting.run(4)
    };
    let rows = run_cases(&model, &cases, run, setting.threads, &bar)?;
    let limits = [FAIR, JSQ].map(|policy| stability_limit(&rows, policy));
    let tables = vec![loads(&rows), limit_table(limits)];
    let pictures = match only {
        None => figures(&rows, &concurrent_jobs(&model, setting, &bar)?),
        Some(_) => Vec::new(),
    };
    bar.finish_and_clear();
    Ok(Part {
        name: "throughput",
        tables,
        pictures,
        measured: vec![("wang".into(), rows)],
    })
}

fn figures(rows: &[QueueingRow], series: &Series) -> Vec<(String, String)> {
    let over_load = |title, unit, y_max, of: fn(&QueueingRow) -> Option<f64>| {
        figure(rows, title, unit, y_max, of)
    };
    let jobs = over_load("Figure 3b: concurrent jobs", "jobs", 1000.0, |row| {
        row.measured.jobs
    });
    let job_delay = over_load("Figure 4a: job delay", "slots", 250.0, |row| {
        row.measured.job_delay
    });
    let task_delay = over_load("Figure 4b: task delay", "slots", 5000.0, |row| {
        row.measured.task_delay
    });
    vec![
        ("wang-3a".into(), figure_3a(series)),
        ("wang-3b".into(), jobs),
        ("wang-4a".into(), job_delay),
        ("wang-4b".into(), task_delay),
    ]
}

fn loads(rows: &[QueueingRow]) -> Table {
    let words = [
        "policy",
        "load",
        "jobs",
        "job delay",
        "task delay",
        "local",
        "growth",
        "CPU s",
    ];
    let row = |row: &QueueingRow| {
        let m = &row.measured;
        vec![
            row.policy.clone(),
            format!("{:.0}", row.tasks_per_slot),
            fixed(m.jobs, 1),
            fixed(m.job_delay, 2),
            fixed(m.task_delay, 2),
            percent(m.local as f64 / m.finished as f64, 1),
            growth(m),
            format!("{:.1}", row.cpu_s),
        ]
    };
    Table {
        title: "Wang, figures 3b and 4: load in tasks per slot, delays in slots".into(),
        head: words.map(String::from).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}

fn growth(measured: &Measured) -> String {
    if measured.overflowed {
        "overflow".into()
    } else {
        percent(measured.growth, 3)
    }
}

fn limit_table(limits: [Option<f64>; 2]) -> Table {
    let ratio = (limits[0].zip(limits[1])).map(|(fair, jsq)| jsq / fair);
    let row = |name: &str, paper: &str, here: String| vec![name.into(), paper.into(), here];
    Table {
        title: "Stability limit: the backlog grows by less than 0.1% of the arrivals, and no \
                more than a million tasks wait"
            .into(),
        head: ["", "paper", "here"].map(String::from).to_vec(),
        rows: vec![
            row(FAIR, "350", fixed(limits[0], 0)),
            row(JSQ, "630", fixed(limits[1], 0)),
            row("ratio", "1.80", fixed(ratio, 2)),
        ],
    }
}

/// Unfinished jobs over time, for each policy.
type Series = Vec<(&'static str, Vec<(f64, f64)>)>;

fn concurrent_jobs(model: &Model, setting: &Setting, progress: &dyn Progress) -> Result<Series> {
    let slots = (setting.slots as f64 * FIGURE_3A_PART) as u64;
    let every = (slots / 500).max(1);
    in_parallel(&[JSQ, FAIR], setting.threads, |&name| {
        let policy = queueing_policy(name).ok_or_else(|| anyhow!("there is no policy {name}"))?;
        let model = model.at_load(FIGURE_3A_LOAD);
        let mut points = Vec::new();
        let run = Run {
            warmup_slots: 0,
            ..Run::new(slots, setting.seed)
        };
        simulate_observed(&model, policy.build(&model)?.as_mut(), run, |end| {
            if end.slot % every == 0 {
                points.push((end.slot as f64, end.jobs as f64));
            }
        })?;
        progress.run_done();
        Ok((name, points))
    })
}

fn figure_3a(series: &Series) -> String {
    let ends = series.iter().flat_map(|(_, points)| points);
    let (x, y) = ends.fold((0.0_f64, 0.0_f64), |(x, y), p| (x.max(p.0), y.max(p.1)));
    let lines = series.iter().map(|(name, points)| Line {
        name: (*name).into(),
        points: points.clone(),
    });
    let curves = Curves {
        title: "Figure 3a: concurrent jobs at 390 tasks per slot",
        x_label: "slot",
        x: (0.0, x),
        y_label: "jobs",
        y: (0.0, y),
        lines: lines.collect(),
        level: None,
    };
    curves.to_svg()
}

/// Draws one quantity over the load, with a line for each policy. A line ends before the first
/// value that is missing or above `y_max`, the end of the paper's axis, and before the first run
/// that ended early.
fn figure(
    rows: &[QueueingRow],
    title: &str,
    unit: &str,
    y_max: f64,
    of: impl Fn(&QueueingRow) -> Option<f64>,
) -> String {
    let line = |policy: &str| Line {
        name: policy.into(),
        points: (rows.iter().filter(|row| row.policy == policy))
            .take_while(|row| !row.measured.overflowed)
            .map_while(|row| Some((row.tasks_per_slot, of(row).filter(|y| *y <= y_max)?)))
            .collect(),
    };
    let curves = Curves {
        title,
        x_label: "tasks per slot",
        x: (0.0, 800.0),
        y_label: unit,
        y: (0.0, y_max),
        lines: [JSQ, FAIR].map(line).to_vec(),
        level: None,
    };
    curves.to_svg()
}
