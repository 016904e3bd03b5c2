//! The report of a study or an analysis: one HTML file with its pictures inside,
//! and each picture beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_scheduler::sim::Interval;

use super::analysis::Analysis;
use super::picture::{bars, running_tasks, satisfaction, shares};
use super::result::{PointResult, PolicyResult, StudyResult};
use crate::chart::escape;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;max-width:1000px;\
    margin:2rem auto;padding:0 1rem}h1{margin-bottom:0}.sub{color:#5b6775}svg{width:100%;height:auto}\
    table{border-collapse:collapse;margin:.8rem 0}th,td{padding:.25rem .9rem .25rem 0;text-align:right}\
    th:first-child,td:first-child{text-align:left}th{color:#5b6775;font-weight:500;border-bottom:1px solid #dfe4ea}";

/// Writes `report.html` and the pictures into `folder`, which is made if it is
/// not there. Returns the report's path.
///
/// # Errors
/// When a file cannot be written.
pub fn write(result: &StudyResult, folder: &Path) -> Result<PathBuf> {
    make(folder)?;
    let write = |name: &str, text: &str| write_file(folder, name, text);
    let mut page = head(&result.title);
    let _ = write!(
        page,
        "<p class=\"sub\">{} replicas, {:.1} s of CPU</p>",
        result.replicas, result.cpu_s,
    );
    for (name, svg) in swept(result) {
        write(&format!("{name}.svg"), &svg)?;
        page += &svg;
    }
    for (number, point) in result.points.iter().enumerate() {
        let _ = write!(page, "<h2>{}</h2>", escape(&point.label()));
        page += &table(point);
        for policy in &point.policies {
            for (name, svg) in pictures(policy) {
                let policy = policy.policy.replace(':', "-");
                write(&format!("{name}-{}-{policy}.svg", number + 1), &svg)?;
                page += &svg;
            }
        }
    }
    write("report.html", &(page + "</html>\n"))?;
    Ok(folder.join("report.html"))
}

/// As [`write()`], of a formula.
///
/// # Errors
/// When a file cannot be written.
pub fn write_analysis(analysis: &Analysis, folder: &Path) -> Result<PathBuf> {
    make(folder)?;
    let mut page = head(&analysis.title);
    for (name, svg) in &analysis.pictures {
        write_file(folder, &format!("{name}.svg"), svg)?;
        page += svg;
    }
    let cells = |tag: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let rows: String = analysis.rows.iter().map(|row| cells("td", row)).collect();
    let _ = write!(page, "<table>{}{rows}</table>", cells("th", &analysis.head));
    write_file(folder, "report.html", &(page + "</html>\n"))?;
    Ok(folder.join("report.html"))
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

fn write_file(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn head(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1>",
        title = escape(title),
    )
}

/// One number of each policy at each point.
fn swept(result: &StudyResult) -> Vec<(&'static str, String)> {
    let mut drawn = Vec::new();
    let bound = |point: &PointResult| Some(100.0 * point.bound.as_ref()?.missed_fraction.mean);
    let mut draw = |name, title: &str, unit: &str, of: fn(&PolicyResult) -> Interval| {
        let level = |point: &PointResult| bound(point).filter(|_| name == "missed");
        drawn.push((name, bars(title, unit, &result.points, of, level)));
    };
    let policies = || result.points.iter().flat_map(|point| &point.policies);
    if result.points.iter().any(has_goals) {
        draw("missed", "Goals missed", "%", |policy| {
            policy.missed_fraction.scaled(100.0)
        });
        draw(
            "beyond",
            "Time beyond the goal, of jobs that missed it",
            "h",
            |policy| policy.beyond_s.scaled(1.0 / 3600.0),
        );
        draw(
            "distance",
            "Time left until the goal, of jobs that met it",
            "h",
            |policy| policy.distance_s.scaled(1.0 / 3600.0),
        );
        draw(
            "tardiness",
            "Tardiness, mean over all jobs",
            "h",
            |policy| policy.tardiness_s.scaled(1.0 / 3600.0),
        );
    }
    if policies().any(|policy| policy.locality.mean < 1.0) {
        draw(
            "locality",
            "Maps that ran where their input lies",
            "%",
            |policy| policy.locality.scaled(100.0),
        );
    }
    if result.points.len() > 1 {
        draw("makespan", "End of the last job", "s", |policy| {
            policy.makespan_s
        });
    }
    drawn
}

/// What was recorded of one policy at one point.
fn pictures(policy: &PolicyResult) -> Vec<(&'static str, String)> {
    let name = &policy.policy;
    let mut drawn = Vec::new();
    if !policy.tasks.is_empty() && !policy.jobs.is_empty() {
        let title = format!("Running tasks under {name}");
        drawn.push(("tasks", running_tasks(&title, policy)));
    }
    if !policy.shares.is_empty() {
        let title = format!("Cores held under {name}");
        drawn.push(("shares", shares(&title, policy)));
        let title = format!("Satisfaction under {name}");
        drawn.push(("satisfaction", satisfaction(&title, policy)));
    }
    drawn
}

fn has_goals(point: &PointResult) -> bool {
    let replicas = |policy: &PolicyResult| policy.replicas.iter().any(|m| m.with_goal > 0);
    point.policies.iter().any(replicas)
}

fn table(point: &PointResult) -> String {
    let mut html = String::from(
        "<table><tr><th>policy<th>goals missed<th>± (95%)<th>beyond, h<th>distance, h\
         <th>tardiness, h<th>p99, h<th>utilisation<th>local maps<th>last end, h</tr>",
    );
    for policy in &point.policies {
        let _ = write!(
            html,
            "<tr><td>{}<td>{:.1}%<td>{:.1}<td>{:.2}<td>{:.2}<td>{:.2}<td>{:.1}<td>{:.1}%<td>{:.1}%<td>{:.1}</tr>",
            escape(&policy.policy),
            100.0 * policy.missed_fraction.mean,
            100.0 * policy.missed_fraction.half_width_95,
            policy.beyond_s.mean / 3600.0,
            policy.distance_s.mean / 3600.0,
            policy.tardiness_s.mean / 3600.0,
            policy.tardiness_p99_s.mean / 3600.0,
            100.0 * policy.utilisation.mean,
            100.0 * policy.locality.mean,
            policy.makespan_s.mean / 3600.0,
        );
    }
    if let Some(bound) = &point.bound {
        let _ = write!(
            html,
            "<tr><td>(bound)<td>{:.1}%<td>{:.1}</tr>",
            100.0 * bound.missed_fraction.mean,
            100.0 * bound.missed_fraction.half_width_95,
        );
    }
    html + "</table>"
}
