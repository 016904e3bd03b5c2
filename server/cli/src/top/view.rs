//! The screen.

use ebb_server::jobs::{BeyondHorizon, JobView};
use ebb_server::live::{Load, LoadPoint, ObjectiveView};
use indicatif::HumanBytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};

use super::model::Model;
use crate::print::counted;

/// The number of lines on the screen for the pictures of the load and of what jobs used.
const PICTURE_LINES: u16 = 6;
/// The greatest number of lines on the screen for backups and verifications.
const MAINTENANCE_LINES: u16 = 7;
/// The greatest number of lines on the screen for the tables of the database.
const TABLE_LINES: u16 = 8;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, pictures, jobs, maintenance, tables, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(PICTURE_LINES),
        Constraint::Min(4),
        Constraint::Length(table_lines(model.maintenance.len(), MAINTENANCE_LINES)),
        Constraint::Length(table_lines(model.tables.len(), TABLE_LINES)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    if let Some(load) = &model.load {
        frame.render_widget(Paragraph::new(summary(model, load)), head);
        draw_pictures(frame, load, pictures);
        draw_jobs(frame, model, load.now_unix_ms, jobs);
    }
    draw_maintenance(frame, model, maintenance);
    draw_tables(frame, model, tables);
    frame.render_widget(Paragraph::new(model.footer()).dim(), foot);
}

/// Returns the number of lines for a table of `rows` rows with its border and head, at most
/// `lines_max`; 0 if it has no rows.
fn table_lines(rows: usize, lines_max: u16) -> u16 {
    if rows == 0 {
        return 0;
    }
    u16::try_from(rows + 3).map_or(lines_max, |lines| lines.min(lines_max))
}

/// Returns three lines: the use of the cores; the requests and their latencies; the latency
/// objective and the slack, and the state of the guard, which limits jobs so that the objective is
/// met. Before the first sample, the second line is empty. While the server is silent, the first line
/// shows this in place of the use of the cores.
fn summary(model: &Model, load: &Load) -> Vec<Line<'static>> {
    let place = &model.place;
    let last = load.samples.last();
    let used = last.map_or_else(
        || "not measured yet".to_string(),
        |last| {
            format!(
                "load {:.2}  others {:.2}  jobs {:.2} of {:.2}",
                last.load_cores, last.others_cores, last.analytics_cores, last.capacity_cores
            )
        },
    );
    let first = match model.silence() {
        Some(silence) => {
            let seconds = counted(silence.as_secs(), "second");
            let text = format!(
                "{place}   the server has not responded for {seconds}: this is its last state"
            );
            Line::styled(text, Style::new().fg(Color::Red))
        }
        None => Line::from(format!("{place}   {} cores: {used}", load.cores)),
    };
    let latencies = last.map_or_else(String::new, |last| {
        format!(
            "{:.0} requests/s   p50 {}  p99 {}  p99.9 {}",
            last.requests_per_s,
            latency(last.p50_us),
            latency(last.p99_us),
            latency(last.p999_us)
        )
    });
    let mut third = vec![match &load.objective {
        Some(objective) => objective_span(objective, last),
        None => Span::raw("no objective"),
    }];
    if let Some(guard) = load.guard.last() {
        third.push(Span::raw(format!(
            "   guard: {}, allows {:.0}%",
            guard.action,
            guard.allowed_ratio * 100.0
        )));
    }
    vec![first.bold(), Line::from(latencies), Line::from(third)]
}

/// Returns the latency objective and the slack of the last sample, if there is one: in red if the
/// objective is missed.
fn objective_span(objective: &ObjectiveView, last: Option<&LoadPoint>) -> Span<'static> {
    let bound = match (objective.bound_us, objective.ratio) {
        (Some(bound_us), _) => time(bound_us),
        (None, Some(ratio)) => format!("{ratio}x alone"),
        (None, None) => "none".to_string(),
    };
    let text = format!("objective {} {bound}", objective.quantile);
    let Some(slack) = last.and_then(|last| slack_ratio(objective, last)) else {
        return Span::raw(text);
    };
    let text = format!("{text}, slack {:.0}%", slack * 100.0);
    if slack < 0.0 {
        Span::styled(text, Style::new().fg(Color::Red))
    } else {
        Span::raw(text)
    }
}

/// Returns (bound - latency) / bound of a sample, at the quantile of the objective. `None` without
/// requests, and while the bound is unknown.
fn slack_ratio(objective: &ObjectiveView, sample: &LoadPoint) -> Option<f64> {
    let latency_us = match &objective.quantile[..] {
        "p50" => sample.p50_us,
        "p99.9" => sample.p999_us,
        _ => sample.p99_us,
    };
    let latency_us = measured(latency_us)?;
    let bound_us = sample.bound_us?;
    Some((bound_us - latency_us) / bound_us)
}

/// Draws two pictures over time: the cores that the load and other processes used, and those that jobs used.
/// Points that are too old for the width of a picture are cut off at the left.
fn draw_pictures(frame: &mut Frame<'_>, load: &Load, area: Rect) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [left, right] = halves.areas(area);
    let cores = |sample: &LoadPoint| sample.load_cores + sample.others_cores;
    let jobs = |sample: &LoadPoint| sample.analytics_cores;
    let picture = |frame: &mut Frame<'_>, title, colour, area: Rect, of: &dyn Fn(&_) -> f64| {
        let block = Block::bordered().title(title);
        let room = block.inner(area).width as usize;
        let skipped = load.samples.len().saturating_sub(room);
        let hundredths = load.samples[skipped..]
            .iter()
            .map(|sample| of(sample) * 100.0);
        let data: Vec<u64> = hundredths.map(|cores| cores.max(0.0) as u64).collect();
        let sparkline = Sparkline::default()
            .block(block)
            .max(u64::from(load.cores) * 100)
            .style(Style::new().fg(colour))
            .data(data);
        frame.render_widget(sparkline, area);
    };
    picture(frame, "load and others, cores", Color::Gray, left, &cores);
    picture(frame, "jobs, cores", Color::Blue, right, &jobs);
}

fn draw_jobs(frame: &mut Frame<'_>, model: &Model, now_unix_ms: u64, area: Rect) {
    let head = [
        "job",
        "application",
        "state",
        "tasks",
        "cores",
        "done in",
        "goal in",
        "slack",
    ];
    let widths = [14, 14, 11, 11, 6, 10, 10, 10].map(Constraint::Length);
    let rows = model.jobs.iter().map(|job| job_row(job, now_unix_ms));
    let running = model.jobs.len() as u64;
    let run = if running == 1 { "runs" } else { "run" };
    let mut block = Block::bordered().title(format!("{} {run}", counted(running, "job")));
    if let Some(waits) = waits(model) {
        block = block.title_bottom(waits);
    }
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(block);
    let mut state = TableState::default().with_selected(model.chosen_of(&model.jobs));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_maintenance(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let head = [
        "job",
        "application",
        "bytes",
        "per second",
        "done in",
        "backup",
    ];
    let widths = [14, 14, 26, 12, 10].map(Constraint::Length);
    let widths = widths.into_iter().chain([Constraint::Fill(1)]);
    let table = Table::new(model.maintenance.iter().map(maintenance_row), widths)
        .header(Row::new(head).dim())
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title("backups, restores and verifications"));
    let chosen = model.chosen_of(&model.maintenance);
    let mut state = TableState::default().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

fn maintenance_row(job: &JobView) -> Row<'static> {
    let bytes = job.run.as_ref().and_then(|run| run.progress.bytes);
    let done = bytes.map(|bytes| {
        let [done, total] = [bytes.bytes_done, bytes.bytes_total].map(HumanBytes);
        format!("{done} of {total}")
    });
    let per_s = bytes.map(|bytes| HumanBytes(bytes.bytes_per_s as u64).to_string());
    // A rate of zero gives no time.
    let left = bytes.filter(|bytes| bytes.bytes_per_s > 0.0).map(|bytes| {
        let left_bytes = bytes.bytes_total.saturating_sub(bytes.bytes_done) as f64;
        span(left_bytes / bytes.bytes_per_s)
    });
    let made = job.record.backup_request().map(|request| request.target);
    let target = made.or_else(|| job.record.restored_backup().map(str::to_owned));
    Row::new([
        job.record.id.clone(),
        job.record.application.clone(),
        done.unwrap_or_default(),
        per_s.unwrap_or_default(),
        left.unwrap_or_default(),
        target.unwrap_or_default(),
    ])
}

/// Returns why the chosen job makes little progress. If no job is chosen, or no such reason is known for the
/// chosen one, returns the reason of the first job that has one; `None` if none has.
fn waits(model: &Model) -> Option<String> {
    let waits = |job: &JobView| Some(format!("{} waits: {}", job.record.id, job.waits()?));
    let chosen = model.chosen_of(&model.jobs);
    let chosen = chosen.and_then(|at| waits(&model.jobs[at]));
    chosen.or_else(|| model.jobs.iter().find_map(waits))
}

fn job_row(job: &JobView, now_unix_ms: u64) -> Row<'static> {
    let run = job.run.as_ref();
    let status = run.map(|run| &run.progress.status);
    let seconds = |at_unix_ms: u64| (at_unix_ms as f64 - now_unix_ms as f64) / 1e3;
    let done = match (&job.prediction, &job.beyond_horizon) {
        (Some(prediction), _) => span(seconds(prediction.finish_unix_ms)),
        (None, Some(_)) => "> 1 week".to_string(),
        (None, None) => String::new(),
    };
    let goal_s = goal_unix_ms(job).map(seconds);
    let (slack, is_late) = slack(job, goal_s);
    let slack = Cell::from(slack);
    Row::new([
        Cell::from(job.record.id.clone()),
        Cell::from(job.record.application.clone()),
        Cell::from(status.map_or_else(String::new, |status| {
            format!("{:?}", status.state).to_lowercase()
        })),
        Cell::from(status.map_or_else(String::new, |status| {
            let done = status.maps_done + status.reduces_done;
            format!("{done}/{}", status.maps_total + status.reduces_total)
        })),
        Cell::from(status.map_or_else(String::new, |status| {
            format!("{:.2}", f64::from(status.share_hundredths) / 100.0)
        })),
        Cell::from(done),
        Cell::from(goal_s.map_or_else(String::new, span)),
        if is_late {
            slack.style(Style::new().fg(Color::Red))
        } else {
            slack
        },
    ])
}

/// Returns the time by which a job should end, in milliseconds since 1970; `None` for a job without a goal. A
/// server that predicts the end moves the goal with its clock, if that is set. Without such a goal, it counts
/// from the latest start of the job.
fn goal_unix_ms(job: &JobView) -> Option<u64> {
    let predicted = (job.prediction.as_ref()).and_then(|prediction| prediction.goal_unix_ms);
    let beyond = (job.beyond_horizon.as_ref()).and_then(|beyond| beyond.goal_unix_ms);
    predicted.or(beyond).or_else(|| {
        let goal_s = job.record.request["goal_s"].as_f64()?;
        Some(
            job.record
                .begun_unix_ms()
                .saturating_add((goal_s * 1e3) as u64),
        )
    })
}

/// Returns the slack of a job as text, and whether the job is late. `goal_s` is the time to its goal, in
/// seconds. The slack is known from a prediction. Without one, a job is late once its goal has passed.
fn slack(job: &JobView, goal_s: Option<f64>) -> (String, bool) {
    let predicted_s = (job.prediction.as_ref()).and_then(|prediction| prediction.slack_s);
    let passed_s = goal_s.filter(|goal_s| *goal_s < 0.0 && job.prediction.is_none());
    match predicted_s.or(passed_s) {
        Some(slack_s) => (span(slack_s), slack_s < 0.0),
        None if (job.beyond_horizon.as_ref()).is_some_and(BeyondHorizon::is_late) => {
            ("late".to_string(), true)
        }
        None => (String::new(), false),
    }
}

fn draw_tables(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let row = |table: &ebb_server::http::TableSummary| {
        Row::new([
            format!("{}.{}", table.keyspace, table.table),
            table.runs.to_string(),
            HumanBytes(table.live_bytes).to_string(),
            HumanBytes(table.pinned_bytes).to_string(),
        ])
    };
    let widths = [30, 6, 12, 12].map(Constraint::Length);
    let table = Table::new(model.tables.iter().map(row), widths)
        .header(Row::new(["table", "runs", "live", "pinned"]).dim())
        .block(Block::bordered().title("tables"));
    frame.render_widget(table, area);
}

/// Returns a quantile of a sample, in microseconds; `None` without requests. An older server sends 0 then.
fn measured(us: Option<f64>) -> Option<f64> {
    us.filter(|us| *us > 0.0)
}

/// Formats a quantile of a sample, which is given in microseconds: `-` without requests.
fn latency(us: Option<f64>) -> String {
    measured(us).map_or_else(|| "-".to_string(), time)
}

/// Formats a time that is given in microseconds.
fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us => format!("{:.2} ms", us / 1000.0),
    }
}

/// Formats the time from now to an event, given in seconds; a time before now has a minus.
fn span(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    match seconds.abs() {
        s if s < 99.95 => format!("{sign}{s:.1} s"),
        s if s < 5_940.0 => format!("{sign}{:.1} min", s / 60.0),
        s => format!("{sign}{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests;
