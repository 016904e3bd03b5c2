//! The report of a day: one HTML file that loads nothing else, and a picture beside it. A window as
//! narrow as a phone shows all of it: pictures have a narrow drawing, and rows of tables are cards.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::outcome::{JobOutcome, Latency, Outcome, Transactional};
use super::picture::{self, JOB_COLOURS, LOAD_COLOUR, OTHERS_COLOUR};
use crate::chart::escape;

pub(super) const STYLE: &str = "
:root { --ink: #1d2733; --soft: #5b6775; --paper: #fff; --grid: #dfe4ea; --load: #c9d1da; --others: #8e9aa8;
        --good: #137a4a; --bad: #c6341f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9aa7b5; --paper: #14191f; --grid: #2c353f; --load: #46525f; --others: #75818f;
          --good: #4cc38a; --bad: #ff8370; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .sub { color: var(--soft); margin-top: .2rem; overflow-wrap: break-word; }
a { color: inherit; } figure { margin: 1rem 0; } figcaption { font-weight: 600; font-size: 13px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--soft); }
svg text.name { fill: var(--ink); stroke: var(--paper); stroke-width: 3px; paint-order: stroke; }
/* Below 840 pixels the text of a wide drawing would have less than 10. */
.narrow { display: none; max-width: 480px; }
@media (max-width: 840px) { .wide { display: none; } .narrow { display: block; } }
.grid { stroke: var(--grid); } .goal { stroke-width: 1.5; stroke-dasharray: 5 4; }
.forecast { fill: none; stroke: var(--ink); stroke-width: 2; }
.p99 { fill: none; stroke: #ff725c; stroke-width: 1.5; } .p50 { fill: none; stroke: #4269d0; stroke-width: 1.5; }
.alone { fill: none; stroke: var(--soft); stroke-dasharray: 2 4; }
table { border-collapse: collapse; margin: .8rem 0; } th, td { padding: .25rem .9rem .25rem 0; text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--grid); }
@media (max-width: 840px) {
  table, tbody { display: block; } th { position: absolute; clip-path: inset(50%); }
  tr:nth-child(n+2) { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1rem; padding: .5rem 0;
                      border-bottom: 1px solid var(--grid); }
  td, td:nth-child(2) { padding: 0; text-align: left; overflow-wrap: anywhere; } td:empty { display: none; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; }
  td:nth-child(n+2)::before { content: attr(data-label) ' '; color: var(--soft); }
}
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
.met { color: var(--good); font-weight: 600; } .missed { color: var(--bad); font-weight: 600; }
.legend span { display: inline-block; margin-right: 1.4em; }
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
         <main><h1>{headline}</h1>\
         <p class=\"sub\">ebb demo, policy {policy}: a day in {seconds:.0} s on {cores} cores; analytics threads run under {class}</p>",
        policy = escape(&outcome.policy),
        headline = escape(&outcome.headline()),
        seconds = outcome.seconds,
        cores = outcome.cores,
        class = escape(&outcome.scheduling_class),
    );
    page += &legend(outcome);
    page += &picture::cores(outcome);
    page += &picture::latency(outcome);
    page += "<p class=\"legend\"><span><i class=\"key\" style=\"background:#ff725c\"></i>p99</span>\
             <span><i class=\"key\" style=\"background:#4269d0\"></i>median</span>\
             <span>dotted: p99 without analytics</span></p>";
    page += &jobs(outcome);
    page += &load(outcome);
    if let Some(objective) = outcome.objective {
        page += &picture::guard(outcome);
        let _ = write!(
            page,
            "<p class=\"sub\">{}</p>",
            escape(&outcome.guard_line(objective))
        );
    }
    page += &notes(outcome);
    page + "</main></html>\n"
}

/// Returns a table with a column for each of `heads`, which are texts. `rows` has the cells of each row, as HTML.
/// A narrow window shows each row as a card, where each cell has the head of its column before it. The roles keep
/// the table a table for screen readers there.
pub(super) fn table(label: &str, heads: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(|head| escape(head.as_ref())).collect();
    let mut html = format!(
        "<table role=\"table\" aria-label=\"{}\"><tr role=\"row\">",
        escape(label)
    );
    for head in &heads {
        let _ = write!(html, "<th role=\"columnheader\">{head}");
    }
    html += "</tr>";
    for row in rows {
        html += "<tr role=\"row\">";
        for (cell, head) in row.iter().zip(&heads) {
            let _ = write!(html, "<td role=\"cell\" data-label=\"{head}\">{cell}");
        }
        html += "</tr>";
    }
    html + "</table>\n"
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
    let heads = [
        "job",
        "computes",
        "submitted",
        "goal",
        "finished",
        "result",
        "tasks",
        "MB read",
        "CPU s",
    ];
    let row = |job: &JobOutcome| {
        let verdict = match (job.met, &job.failure) {
            (_, Some(cause)) => format!("<span class=\"missed\">failed: {}</span>", escape(cause)),
            (Some(true), _) => "<span class=\"met\">met</span>".into(),
            (Some(false), _) => "<span class=\"missed\">missed</span>".into(),
            (None, _) => "no goal".into(),
        };
        vec![
            escape(&job.name),
            escape(&job.application),
            outcome.hour(Some(job.submitted_s)),
            outcome.hour(job.goal_s),
            outcome.hour(job.finished_s),
            verdict,
            job.tasks.to_string(),
            format!("{:.0}", job.bytes as f64 / 1e6),
            format!("{:.1}", job.cpu_s),
        ]
    };
    let rows: Vec<_> = outcome.jobs.iter().map(row).collect();
    table("Jobs", &heads, &rows)
}

fn load(outcome: &Outcome) -> String {
    let heads = ["transactional load", "ops/s", "p50", "p99", "p99.9"];
    let row = |name: &str, latency: Latency| {
        vec![
            name.to_string(),
            format!("{:.0}", latency.ops_per_s),
            format!("{:.0} us", latency.p50_us),
            format!("{:.0} us", latency.p99_us),
            format!("{:.0} us", latency.p999_us),
        ]
    };
    let Transactional {
        alone,
        with_analytics,
        ..
    } = outcome.transactional;
    let rows = [row("alone", alone), row("with analytics", with_analytics)];
    table("Latency of the transactional load", &heads, &rows)
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
