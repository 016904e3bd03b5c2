//! The report of a day: one HTML file that loads nothing else, and a picture beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::picture::{self, JOB_COLOURS, LOAD_COLOUR, OTHERS_COLOUR};
use crate::chart::escape;

pub(super) const STYLE: &str = "
:root { --ink: #1d2733; --soft: #5b6775; --paper: #fff; --grid: #dfe4ea; --load: #c9d1da; --others: #8e9aa8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9aa7b5; --paper: #14191f; --grid: #2c353f; --load: #46525f; --others: #75818f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .sub { color: var(--soft); margin-top: .2rem; }
svg { width: 100%; height: auto; margin: .6rem 0; }
svg text { font-size: 12px; fill: var(--soft); } svg text.title { fill: var(--ink); font-weight: 600; font-size: 13px; }
.grid { stroke: var(--grid); } .goal { stroke-width: 1.5; stroke-dasharray: 5 4; }
.forecast { fill: none; stroke: var(--ink); stroke-width: 2; }
.p99 { fill: none; stroke: #ff725c; stroke-width: 1.5; } .p50 { fill: none; stroke: #4269d0; stroke-width: 1.5; }
.alone { fill: none; stroke: var(--soft); stroke-dasharray: 2 4; }
table { border-collapse: collapse; margin: .8rem 0; } th, td { padding: .25rem .9rem .25rem 0; text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--grid); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
.met { color: #1a8f5a; font-weight: 600; } .missed { color: #d6402b; font-weight: 600; }
.legend span { margin-right: 1.4em; white-space: nowrap; }
";

/// Writes the report, and the picture of cores over time beside it. Returns the path of the report.
///
/// # Errors
/// If a file cannot be written.
pub fn write(outcome: &Outcome, folder: &Path) -> Result<PathBuf> {
    write_as(outcome, folder, "")
}

/// Writes `page`, which the caller made, as the report, and the picture of cores over time beside
/// it. Returns the path of the report.
///
/// # Errors
/// If a file cannot be written.
pub fn write_page(page: &str, outcome: &Outcome, folder: &Path) -> Result<PathBuf> {
    write_files(page, outcome, folder, "")
}

/// Writes the report and its picture, with `suffix` in the names of the files.
pub(super) fn write_as(outcome: &Outcome, folder: &Path, suffix: &str) -> Result<PathBuf> {
    write_files(&html(outcome), outcome, folder, suffix)
}

fn write_files(page: &str, outcome: &Outcome, folder: &Path, suffix: &str) -> Result<PathBuf> {
    let report = folder.join(format!("report{suffix}.html"));
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&report, page)?;
    let cores = picture::cores_alone(outcome);
    write(&folder.join(format!("cores{suffix}.svg")), &cores)?;
    Ok(report)
}

fn html(outcome: &Outcome) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>ebb demo: {policy}</title><style>{STYLE}</style>\
         <h1>{headline}</h1>\
         <p class=\"sub\">ebb demo, policy {policy}: a day in {seconds:.0} s on {cores} cores; analytics threads run under {class}</p>",
        policy = escape(&outcome.policy),
        headline = escape(&outcome.headline()),
        seconds = outcome.seconds,
        cores = outcome.cores,
        class = escape(&outcome.scheduling_class),
    );
    page += &legend(outcome);
    page += &picture::cores(outcome).to_html();
    page += &picture::latency(outcome).to_html();
    page += "<p class=\"legend\"><span style=\"color:#ff725c\">p99</span><span style=\"color:#4269d0\">median</span>\
             <span>dotted: p99 without analytics</span></p>";
    page += &jobs(outcome);
    page += &load(outcome);
    if let Some(objective) = outcome.objective {
        page += &picture::guard(outcome).to_html();
        let _ = write!(
            page,
            "<p class=\"sub\">{}</p>",
            escape(&outcome.guard_line(objective))
        );
    }
    page += &notes(outcome);
    page + "</html>\n"
}

pub(super) fn legend(outcome: &Outcome) -> String {
    let mut html = String::from("<p class=\"legend\">");
    let key = |html: &mut String, colour: &str, what: &str| {
        let _ = write!(
            html,
            "<span><i class=\"key\" style=\"background:{colour}\"></i>{}</span>",
            escape(what)
        );
    };
    key(&mut html, LOAD_COLOUR, "transactional load");
    key(&mut html, OTHERS_COLOUR, "other processes");
    for (job, colour) in outcome.jobs.iter().zip(JOB_COLOURS) {
        key(
            &mut html,
            colour,
            &format!("{}: {}", job.name, job.application),
        );
    }
    html + "<span>thick line: f(t), forecast of what the load leaves</span></p>"
}

fn jobs(outcome: &Outcome) -> String {
    let mut html = String::from(
        "<table><tr><th>job<th>computes<th>submitted<th>goal<th>finished<th><th>tasks<th>MB read<th>CPU s</tr>",
    );
    for job in &outcome.jobs {
        let verdict = match (job.met, &job.failure) {
            (_, Some(cause)) => format!("<span class=\"missed\">failed: {}</span>", escape(cause)),
            (Some(true), _) => "<span class=\"met\">met</span>".into(),
            (Some(false), _) => "<span class=\"missed\">missed</span>".into(),
            (None, _) => "no goal".into(),
        };
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{verdict}<td>{}<td>{:.0}<td>{:.1}</tr>",
            escape(&job.name),
            escape(&job.application),
            outcome.hour(Some(job.submitted_s)),
            outcome.hour(job.goal_s),
            outcome.hour(job.finished_s),
            job.tasks,
            job.bytes as f64 / 1e6,
            job.cpu_s,
        );
    }
    html + "</table>"
}

fn load(outcome: &Outcome) -> String {
    let mut html =
        String::from("<table><tr><th>transactional load<th><th>p50<th>p99<th>p99.9<th>ops/s</tr>");
    for (name, latency) in [
        ("alone", outcome.transactional.alone),
        ("with analytics", outcome.transactional.with_analytics),
    ] {
        let _ = write!(
            html,
            "<tr><td>{name}<td><td>{:.0} us<td>{:.0} us<td>{:.0} us<td>{:.0}</tr>",
            latency.p50_us, latency.p99_us, latency.p999_us, latency.ops_per_s
        );
    }
    html + "</table>"
}

fn notes(outcome: &Outcome) -> String {
    let check = &outcome.word_count_check;
    let mut times = outcome.snapshot_create_us.clone();
    times.sort_unstable();
    let longest = times.last().copied().unwrap_or(0);
    format!(
        "<p class=\"sub\">Text: {} ({} files, {} rows, {:.1} MB). Word counts of {} jobs over {} words against an \
         independent count: {} differ. {} snapshots created on the busy store, the longest in {longest} us.</p>",
        escape(&outcome.corpus.description),
        outcome.corpus.files,
        outcome.corpus.rows,
        outcome.corpus.bytes as f64 / 1e6,
        check.jobs,
        check.words,
        check.differences,
        times.len(),
    )
}
