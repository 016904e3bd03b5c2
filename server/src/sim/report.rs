//! The report of a study: one HTML file with its pictures inside, and each
//! picture beside it.

use super::picture::{escape, missed_bars, shares};
use super::result::{PointResult, StudyResult};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

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
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1><p class=\"sub\">{} replicas, {:.1} s of CPU</p>",
        result.replicas,
        result.cpu_s,
        title = escape(&result.title),
    );
    let points: Vec<&PointResult> = result.points.iter().collect();
    if result.points.iter().any(has_goals) {
        for (number, some) in points.chunks(6).enumerate() {
            let svg = missed_bars("Goals missed", some);
            write(&format!("missed-{}.svg", number + 1), &svg)?;
            page += &svg;
        }
    }
    for (number, point) in result.points.iter().enumerate() {
        let _ = write!(page, "<h2>{}</h2>", escape(&point.label()));
        page += &table(point);
        for policy in point
            .policies
            .iter()
            .filter(|policy| !policy.shares.is_empty())
        {
            let svg = shares(&format!("Cores held under {}", policy.policy), policy);
            write(
                &format!("shares-{}-{}.svg", number + 1, policy.policy),
                &svg,
            )?;
            page += &svg;
        }
    }
    write("report.html", &(page + "</html>\n"))?;
    Ok(folder.join("report.html"))
}

fn has_goals(point: &PointResult) -> bool {
    let replicas = |policy: &super::PolicyResult| policy.replicas.iter().any(|m| m.with_goal > 0);
    point.policies.iter().any(replicas)
}

fn table(point: &PointResult) -> String {
    let mut html = String::from(
        "<table><tr><th>policy<th>goals missed<th>± (95%)<th>beyond, h<th>distance, h\
         <th>utilisation<th>local maps<th>last end, h</tr>",
    );
    for policy in &point.policies {
        let _ = write!(
            html,
            "<tr><td>{}<td>{:.1}%<td>{:.1}<td>{:.2}<td>{:.2}<td>{:.1}%<td>{:.1}%<td>{:.1}</tr>",
            escape(&policy.policy),
            100.0 * policy.missed_fraction.mean,
            100.0 * policy.missed_fraction.half_width_95,
            policy.beyond_s.mean / 3600.0,
            policy.distance_s.mean / 3600.0,
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
