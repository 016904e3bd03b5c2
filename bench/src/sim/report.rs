//! The report of a study or an analysis: one HTML file that contains its pictures, and each picture
//! in a file beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_scheduler::sim::Interval;

use super::analysis::Analysis;
use super::picture::{bars, running_tasks, satisfaction, shares};
use super::result::{PointResult, PolicyResult, StudyResult};
use crate::chart::escape;
use crate::number::{fixed, percent};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;max-width:1000px;\
    margin:2rem auto;padding:0 1rem}h1{margin-bottom:0}.sub{color:#5b6775}svg{width:100%;height:auto}\
    table{border-collapse:collapse;margin:.8rem 0}th,td{padding:.25rem .9rem .25rem 0;text-align:right}\
    th:first-child,td:first-child{text-align:left}th{color:#5b6775;font-weight:500;border-bottom:1px solid #dfe4ea}";

/// Writes `report.html` and the pictures into `folder`, which is created if it does not exist.
/// Returns the report's path.
///
/// # Errors
/// If a file cannot be written.
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

/// Writes the report of an analysis (the results of a formula) into `folder`, which is created if
/// it does not exist. Returns the report's path.
///
/// # Errors
/// If a file cannot be written.
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

/// Draws the bar charts that compare the policies at each combination of swept values. Returns the
/// name of each chart's file and its SVG.
fn swept(result: &StudyResult) -> Vec<(&'static str, String)> {
    let mut drawn = Vec::new();
    let bound = |point: &PointResult| Some(100.0 * point.bound.as_ref()?.missed_fraction?.mean);
    let mut draw = |name, title: &str, unit: &str, of: fn(&PolicyResult) -> Option<Interval>| {
        let level = |point: &PointResult| bound(point).filter(|_| name == "missed");
        drawn.push((name, bars(title, unit, &result.points, of, level)));
    };
    let policies = || result.points.iter().flat_map(|point| &point.policies);
    if result.points.iter().any(has_goals) {
        draw("missed", "Goals missed", "%", |policy| {
            percent_of(policy.missed_fraction)
        });
        draw(
            "beyond",
            "Time beyond the goal, of jobs that missed it",
            "h",
            |policy| hours(policy.beyond_s),
        );
        draw(
            "distance",
            "Time left until the goal, of jobs that met it",
            "h",
            |policy| hours(policy.distance_s),
        );
        draw(
            "tardiness",
            "Tardiness, mean over all jobs",
            "h",
            |policy| hours(policy.tardiness_s),
        );
    }
    let is_remote = |locality: Interval| locality.mean < 1.0;
    if policies().any(|policy| policy.locality.is_some_and(is_remote)) {
        draw(
            "locality",
            "Maps that ran where their input lies",
            "%",
            |policy| percent_of(policy.locality),
        );
    }
    if result.points.len() > 1 {
        draw("makespan", "End of the last job", "s", |policy| {
            policy.makespan_s
        });
    }
    drawn
}

fn percent_of(part: Option<Interval>) -> Option<Interval> {
    part.map(|part| part.scaled(100.0))
}

fn hours(seconds: Option<Interval>) -> Option<Interval> {
    seconds.map(|seconds| seconds.scaled(1.0 / 3600.0))
}

/// Draws the tasks and the shares that were recorded for one policy, with one combination of swept
/// values. Returns the name of each picture's file and its SVG.
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
    let mean = |of: Option<Interval>| of.map(|of| of.mean);
    let half_width = |part: Option<Interval>| part.map(|part| 100.0 * part.half_width_95);
    for policy in &point.policies {
        let cells = [
            escape(&policy.policy),
            percent(mean(policy.missed_fraction), 1),
            fixed(half_width(policy.missed_fraction), 1),
            fixed(mean(hours(policy.beyond_s)), 2),
            fixed(mean(hours(policy.distance_s)), 2),
            fixed(mean(hours(policy.tardiness_s)), 2),
            fixed(mean(hours(policy.tardiness_p99_s)), 1),
            percent(mean(policy.utilisation), 1),
            percent(mean(policy.locality), 1),
            fixed(mean(hours(policy.makespan_s)), 1),
        ];
        let _ = write!(html, "<tr><td>{}</tr>", cells.join("<td>"));
    }
    if let Some(bound) = &point.bound {
        let _ = write!(
            html,
            "<tr><td>(bound)<td>{}<td>{}</tr>",
            percent(mean(bound.missed_fraction), 1),
            fixed(half_width(bound.missed_fraction), 1),
        );
    }
    html + "</table>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::{Progress, run};
    use ebb_scheduler::sim::scenario::Scenario;

    struct Silent;

    impl Progress for Silent {
        fn run_done(&self) {}
    }

    /// Three jobs: "short" ends, "long" does not end within the run, and "next" waits for "long".
    /// At the first point of the sweep the jobs have no capacity, so none of them ends.
    const NEVER: &str = r#"
policies = ["fifo", "reverse-adaptive", "pandas"]
replicas = 2
offline_bound = true
[run]
horizon_s = 3000
shares_every_s = 0
tasks = true
[[nodes]]
count = 2
[availability]
kind = "constant"
fraction = 1.0
[applications.short]
map_s = 100
[applications.long]
map_s = 9000
[[job]]
name = "short"
application = "short"
maps = 2
goal_s = 600
[[job]]
name = "long"
application = "long"
maps = 1
goal_s = 9000
[[job]]
name = "next"
application = "short"
after = "long"
maps = 1
goal_s = 10
[sweep]
"availability.fraction" = [0.0, 1.0]
"#;

    fn study(text: &str) -> StudyResult {
        let scenario = Scenario::parse("x.toml", text).unwrap();
        run(&scenario, 2, &Silent).unwrap()
    }

    /// Returns the files of a report and the JSON, by name.
    fn outputs(result: &StudyResult) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        write(result, folder.path()).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (path.display().to_string(), text)
        });
        let json = serde_json::to_string(result).unwrap();
        files.chain([("JSON".to_string(), json)]).collect()
    }

    #[test]
    fn jobs_that_never_end_miss_their_goals_and_have_no_end() {
        let result = study(NEVER);
        let [nothing, all] = &result.points[..] else {
            panic!("two points");
        };
        for policy in &nothing.policies {
            assert_eq!(policy.missed_fraction.unwrap().mean, 1.0);
            assert_eq!((policy.makespan_s, policy.utilisation), (None, None));
            assert!(policy.jobs.iter().all(|job| job.took_s.is_none()));
            assert!(policy.jobs.iter().all(|job| job.met_fraction == Some(0.0)));
        }
        for policy in &all.policies {
            let took = |at: usize| policy.jobs[at].took_s.map(|took| took.mean);
            assert!(took(0).is_some_and(|took_s| took_s >= 100.0));
            assert_eq!((took(1), took(2)), (None, None));
            assert!(!policy.jobs[2].record.was_submitted);
            assert!((policy.missed_fraction.unwrap().mean - 2.0 / 3.0).abs() < 1e-9);
        }
        let row = table(nothing);
        assert!(
            row.contains("<td>fifo<td>100.0%<td>0.0<td>0.33<td>-<td>"),
            "{row}"
        );
        let json = serde_json::to_value(&result).unwrap();
        let fifo = &json["points"][0]["policies"][0];
        assert!(fifo["makespan_s"].is_null() && fifo["jobs"][0]["took_s"].is_null());
    }

    #[test]
    fn without_goals_nothing_is_missed_and_nothing_met() {
        let text = NEVER.lines().filter(|line| !line.starts_with("goal_s"));
        let result = study(&text.collect::<Vec<_>>().join("\n"));
        for point in &result.points {
            assert!(point.bound.as_ref().unwrap().missed_fraction.is_none());
            for policy in &point.policies {
                let goals = [policy.missed_fraction, policy.beyond_s, policy.tardiness_s];
                assert_eq!((goals, policy.above_bound), ([None; 3], None));
                assert!(policy.jobs.iter().all(|job| job.met_fraction.is_none()));
            }
        }
        let row = table(&result.points[0]);
        assert!(row.contains("<td>fifo<td>-<td>-<td>-<td>-<td>-"), "{row}");
    }

    /// No job is generated in most replicas, and the only sample is at time 0.
    const NOTHING: &str = r#"
policies = ["fifo"]
offline_bound = true
[run]
horizon_s = 3000
shares_every_s = 9000
tasks = true
[[nodes]]
count = 2
[applications.a]
map_s = 100
[workload]
application = "a"
span_s = 3000
jobs = 0.001
maps_mean = 1
goal_factor = [1.5, 2.0]
[[job]]
application = "a"
maps = 1
"#;

    /// A job with fewer tasks than there are accelerated nodes.
    const ACCELERATED: &str = r#"
policies = ["fifo"]
[run]
horizon_s = 3000
tasks = true
[[nodes]]
count = 12
accelerated = true
[applications.a]
map_s = 100
speedup = 2
[[job]]
name = "a"
application = "a"
maps = 2
"#;

    #[test]
    fn the_level_of_accelerated_nodes_lies_in_the_row_of_a_small_job() {
        let result = study(ACCELERATED);
        let svg = running_tasks("x", &result.points[0].policies[0]);
        let (_, level) = svg.split_once(r#"class="level""#).expect("a level");
        let (_, y) = level.split_once("y1=\"").expect("a line");
        let y: f64 = y.split('"').next().unwrap().parse().unwrap();
        // The row begins 52 pixels from the top, and is 84 pixels high.
        assert!((52.0..=136.0).contains(&y), "{y}: {svg}");
    }

    #[test]
    fn no_page_picture_or_json_of_a_study_has_nan_or_inf() {
        let no_jobs = NOTHING.split("[[job]]").next().unwrap();
        for text in [NEVER, NOTHING, no_jobs] {
            for (name, text) in outputs(&study(text)) {
                // Matches "+inf" and "inf%", but no longer word.
                let mut words = text.split(|char: char| !char.is_ascii_alphabetic());
                let wrong = words.find(|word| ["NaN", "inf", "Infinity"].contains(word));
                assert_eq!(wrong, None, "{name}: {text}");
            }
        }
    }
}
