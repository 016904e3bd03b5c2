//! Charts with a row for each job over a common time axis.

use ebb_scheduler::model::{Pool, TaskKind};
use ebb_scheduler::sim::TaskRecord;

use crate::chart::{COLOURS, LEFT, Picture, Plane, escape, text};
use crate::sim::result::{JobResult, PolicyResult};

const ROW: f64 = 84.0;
const GAP: f64 = 18.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 44.0;
/// The number of equal parts into which the time axis is divided. Each part has one value of a line.
const PARTS: usize = 480;
/// The lower end of the axis of satisfaction; lower values are drawn at this end.
const UTILITY_MIN: f64 = -2.0;

/// A line within a row, with gaps at NaN.
struct Trace {
    /// A value for each of the [`PARTS`] parts of the time axis: the mean of the part for running
    /// tasks, and the value in its middle for CPU and satisfaction.
    values: Vec<f64>,
    /// The style of the line, as SVG attributes; empty for a solid line.
    how: &'static str,
}

struct Row {
    label: String,
    /// The lower and the upper end of the axis.
    y: (f64, f64),
    /// The value at which a horizontal line is drawn across the row; `None` for no line.
    level: Option<f64>,
    traces: Vec<Trace>,
    /// Times to mark, each with its text: S for the submission, D for the goal.
    marks: Vec<(f64, &'static str)>,
}

/// Draws the running tasks of each listed job, as an SVG file: maps solid, reduces dotted, maps on
/// accelerated nodes light. If there are such nodes, a horizontal line shows their number. Dashed
/// vertical lines mark submissions (S) and goals (D). If the used CPU was recorded, the last row
/// shows it, in percent of the capacity left to analytics.
#[must_use]
pub fn running_tasks(title: &str, result: &PolicyResult) -> String {
    let end_s = end_s(result);
    let accelerated = |task: &TaskRecord| {
        let pool = result.pools.get(task.node.0 as usize);
        pool == Some(&Pool::Accelerated)
    };
    let some_accelerated = result.pools.contains(&Pool::Accelerated);
    let mut rows: Vec<Row> = (result.jobs.iter())
        .map(|job| {
            let running = |keep: &dyn Fn(&TaskRecord) -> bool, how| Trace {
                values: mean_running(result, job, end_s, keep),
                how,
            };
            let mut traces = vec![running(&|task| task.task.kind == TaskKind::Map, "")];
            if job.record.reduces > 0 {
                traces.push(running(
                    &|task| task.task.kind == TaskKind::Reduce,
                    "stroke-dasharray=\"2 3\"",
                ));
            }
            if some_accelerated && job.record.accelerated_maps > 0 {
                traces.push(running(
                    &|task| task.task.kind == TaskKind::Map && accelerated(task),
                    "stroke-opacity=\"0.5\"",
                ));
            }
            Row {
                // Replaced below, when the axis of all rows is known.
                y: (0.0, 1.0),
                // The number of accelerated nodes, to compare the maps on them with.
                level: some_accelerated.then(|| {
                    let nodes = result.pools.iter();
                    nodes.filter(|pool| **pool == Pool::Accelerated).count() as f64
                }),
                ..Row::of(job, traces)
            }
        })
        .collect();
    // All rows get the same axis, up to the next ten tasks, so that jobs can be compared. It has room
    // for the level: a job may run fewer tasks than there are accelerated nodes.
    let traces = rows.iter().flat_map(|row| &row.traces);
    let values = traces.flat_map(|trace| trace.values.iter().copied());
    let levels = rows.iter().filter_map(|row| row.level);
    let most = values.chain(levels).fold(1.0, f64::max);
    for row in &mut rows {
        row.y.1 = (most / 10.0).ceil() * 10.0;
    }
    if !result.shares.is_empty() {
        // The last sample up to the time; before the first sample, that one.
        let used = |t_s: f64| {
            let after = result.shares.partition_point(|sample| sample.t_s <= t_s);
            let sample = &result.shares[after.saturating_sub(1)];
            100.0 * sample.used_hundredths / f64::from(sample.available_hundredths.max(1))
        };
        rows.push(Row {
            label: "CPU, %".into(),
            y: (0.0, 100.0),
            level: None,
            traces: vec![Trace {
                values: sampled(end_s, used),
                how: "",
            }],
            marks: Vec::new(),
        });
    }
    draw(title, end_s, &rows)
}

/// Draws the satisfaction of each listed job over time: its utility by equation (5) of the thesis,
/// which is negative while the job has too few slots for its goal.
#[must_use]
pub fn satisfaction(title: &str, result: &PolicyResult) -> String {
    let end_s = end_s(result);
    let row = |job: &JobResult| {
        let id = job.record.job.id;
        let utility = |t_s: f64| {
            let after = result.shares.partition_point(|sample| sample.t_s <= t_s);
            let sample = &result.shares[after.saturating_sub(1)];
            let found = sample.utilities.iter().find(|(job, _)| *job == id);
            match found {
                Some((_, utility)) if ends_after(job, t_s) => utility.max(UTILITY_MIN),
                _ => f64::NAN,
            }
        };
        Row {
            y: (UTILITY_MIN, 1.0),
            level: Some(0.0),
            ..Row::of(
                job,
                vec![Trace {
                    values: sampled(end_s, utility),
                    how: "",
                }],
            )
        }
    };
    let rows: Vec<Row> = result.jobs.iter().map(row).collect();
    draw(title, end_s, &rows)
}

impl Row {
    fn of(job: &JobResult, traces: Vec<Trace>) -> Self {
        let record = &job.record.job;
        // The goal of a job that was never submitted may be relative to an event that did not
        // happen.
        let mut marks = Vec::new();
        if job.record.was_submitted {
            marks.push((record.submitted_s, "S"));
            marks.extend(record.goal_s.map(|goal_s| (goal_s, "D")));
        }
        Self {
            label: job.name.clone(),
            y: (0.0, 1.0),
            level: None,
            traces,
            marks,
        }
    }
}

/// Returns whether the job has not ended before `t_s`.
fn ends_after(job: &JobResult, t_s: f64) -> bool {
    job.record.finished_s.is_none_or(|end_s| t_s <= end_s)
}

/// Returns the end of the time axis, 2% after the last event in the picture. The ends of jobs are
/// events. If a job never ended, the ends of recorded tasks and the times of recorded shares are
/// events, too. A goal is an event if it is at most 1.5 times as late as the last of these.
fn end_s(result: &PolicyResult) -> f64 {
    let ends_s = result.jobs.iter().filter_map(|job| job.record.finished_s);
    let some_never_ended = result
        .jobs
        .iter()
        .any(|job| job.record.finished_s.is_none());
    let recorded_s = (result.tasks.iter().map(|task| task.finished_s))
        .chain(result.shares.iter().map(|sample| sample.t_s))
        .filter(|_| some_never_ended);
    let last_s = ends_s.chain(recorded_s).fold(1.0, f64::max);
    let goals = result.jobs.iter().filter_map(|job| job.record.job.goal_s);
    1.02 * goals
        .filter(|goal_s| *goal_s <= 1.5 * last_s)
        .fold(last_s, f64::max)
}

/// Divides the time from 0 to `end_s` into [`PARTS`] equal parts, and returns the value of `at` in the
/// middle of each.
fn sampled(end_s: f64, at: impl Fn(f64) -> f64) -> Vec<f64> {
    let t_s = |part: usize| (part as f64 + 0.5) / PARTS as f64 * end_s;
    (0..PARTS).map(|part| at(t_s(part))).collect()
}

/// Divides the time from 0 to `end_s` into [`PARTS`] equal parts, and returns the mean number of
/// running tasks of the job in each. Counts only the tasks for which `keep` is true.
fn mean_running(
    result: &PolicyResult,
    job: &JobResult,
    end_s: f64,
    keep: &dyn Fn(&TaskRecord) -> bool,
) -> Vec<f64> {
    let part_s = end_s / PARTS as f64;
    let mut means = vec![0.0; PARTS];
    let tasks = result.tasks.iter();
    for task in tasks.filter(|task| task.task.job == job.record.job.id && keep(task)) {
        let first = ((task.started_s / part_s) as usize).min(PARTS - 1);
        let last = ((task.finished_s / part_s) as usize).min(PARTS - 1);
        for (part, mean) in means.iter_mut().enumerate().take(last + 1).skip(first) {
            let (from_s, until_s) = (part as f64 * part_s, (part + 1) as f64 * part_s);
            let within_s = task.finished_s.min(until_s) - task.started_s.max(from_s);
            *mean += within_s.max(0.0) / part_s;
        }
    }
    means
}

fn draw(title: &str, end_s: f64, rows: &[Row]) -> String {
    let step = ROW + GAP;
    let mut picture = Picture::new(title, TOP + step * rows.len() as f64 + BOTTOM);
    let svg = &mut picture.body;
    for (number, (row, colour)) in rows.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let top = TOP + step * number as f64;
        let plane = Plane::new(top, ROW, (0.0, end_s), row.y);
        plane.grid_y(svg, 3);
        text(
            svg,
            (LEFT, top - 5.0),
            r#"class="title""#,
            &escape(&row.label),
        );
        if let Some(level) = row.level {
            plane.across(svg, level, r#"class="level""#);
        }
        for &(t_s, what) in row.marks.iter().filter(|(t_s, _)| *t_s <= end_s) {
            plane.upright(svg, t_s, &format!(r#"class="mark" stroke="{colour}""#));
            text(svg, (plane.at_x(t_s) + 3.0, top + 10.0), "", what);
        }
        for trace in &row.traces {
            let how = format!(r#"class="curve" stroke="{colour}" {}"#, trace.how);
            plane.line(svg, trace.points(end_s), &how, "");
        }
        if number + 1 == rows.len() {
            plane.labels_x(svg, "seconds");
        }
    }
    picture.to_svg()
}

impl Trace {
    /// Returns a point in the middle of each of the [`PARTS`] of the time axis. Leaves out points
    /// that have the same value as their neighbours on both sides.
    fn points(&self, end_s: f64) -> impl Iterator<Item = (f64, f64)> {
        let is_within = |part: usize| {
            let neighbours = [part.wrapping_sub(1), part + 1].map(|part| self.values.get(part));
            neighbours == [self.values.get(part); 2]
        };
        let parts = self.values.iter().enumerate();
        parts
            .filter(move |(part, _)| !is_within(*part))
            .map(move |(part, value)| ((part as f64 + 0.5) / PARTS as f64 * end_s, *value))
    }
}
