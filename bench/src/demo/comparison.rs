//! A comparison of several days on the same input, each under another policy: the JSON, the table
//! for the terminal, and the page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::outcome::{JobOutcome, Latency, Outcome, time};
use super::picture;
use super::report::{STYLE, legend, table, write_as};
use crate::chart::escape;

/// The results of a comparison: one simulated day under each policy.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The outcome of each day, in the order in which the days ran. Each day has a different policy.
    pub runs: Vec<Outcome>,
}

impl Comparison {
    /// Returns the table that the terminal shows at the end of a comparison.
    pub fn table(&self) -> String {
        // Writing to a string does not fail, so the results of `writeln!` are ignored.
        let mut out = String::new();
        // All runs have the same jobs, the same goals and one measurement of the load alone.
        let jobs = self.runs.first().map_or(&[][..], |run| &run.jobs[..]);
        let heads: String = jobs.iter().map(|job| format!(" {:>9}", job.name)).collect();
        let _ = writeln!(
            out,
            "  {:<17} {:>6}{heads} {:>10} {:>10} {:>10}",
            "policy", "goals", "p50", "p99", "p99.9"
        );
        // Without runs there are no jobs either, so `runs[0]` exists where it is used.
        let goals: String = jobs
            .iter()
            .map(|job| format!(" {:>9}", self.runs[0].hour(job.goal_s)))
            .collect();
        let alone = self.runs.first().map(|run| run.transactional.alone);
        if let Some(alone) = alone {
            let [p50, p99, p999] = [alone.p50_us, alone.p99_us, alone.p999_us].map(time);
            let _ = writeln!(
                out,
                "  {:<17} {:>6}{goals} {p50:>10} {p99:>10} {p999:>10}",
                "(goal; alone)", ""
            );
        }
        for run in &self.runs {
            let (goals, met) = run.goals();
            let finished: String = run
                .jobs
                .iter()
                .map(|job| format!(" {:>9}", finished(run, job)))
                .collect();
            let with = run.transactional.with_analytics;
            let [p50, p99, p999] = [with.p50_us, with.p99_us, with.p999_us].map(time);
            let _ = writeln!(
                out,
                "  {:<17} {:>6}{finished} {p50:>10} {p99:>10} {p999:>10}",
                run.policy,
                format!("{met}/{goals}")
            );
        }
        let _ = writeln!(out, "\n  Finished at hour; ! after the goal.");
        let differences: usize = self
            .runs
            .iter()
            .map(|run| run.word_count_check.differences)
            .sum();
        let verdict = match differences {
            0 => "all word counts equal an independent count".to_string(),
            n => format!("{n} word counts DIFFER from an independent count"),
        };
        let _ = writeln!(out, "  {verdict} over the same snapshot.");
        for (run, caveat) in self.caveats() {
            let _ = writeln!(out, "  The day of {} means little: {caveat}.", run.policy);
        }
        out
    }

    /// Returns the days that mean little, with the reasons.
    fn caveats(&self) -> impl Iterator<Item = (&Outcome, String)> {
        let runs = self.runs.iter();
        runs.filter_map(|run| Some((run, run.caveat()?)))
    }

    /// Writes a page that compares the days, and the report of each day beside it. Returns the path
    /// of the page.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_report(&self, folder: &Path) -> Result<PathBuf> {
        // The policies of a comparison differ, so each report has a file of its own.
        for run in &self.runs {
            write_as(run, folder, &format!("-{}", run.policy))?;
        }
        let page = folder.join("compare.html");
        std::fs::write(&page, self.html())
            .with_context(|| format!("cannot write {}", page.display()))?;
        Ok(page)
    }

    /// Returns the HTML page that compares the days; empty without days.
    fn html(&self) -> String {
        let Some(first) = self.runs.first() else {
            return String::new();
        };
        let mut page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>ebb demo: policies compared</title><style>{STYLE}</style><main><h1>The same day, {} times</h1>\
             <p class=\"sub\">ebb demo: a day in {:.0} s on {} cores, the same jobs and the same load under each policy</p>",
            self.runs.len(),
            first.seconds,
            first.cores,
        );
        let mut heads = vec!["policy".to_string(), "goals met".to_string()];
        // All runs have the same jobs, the same goals and one measurement of the load alone.
        heads.extend(first.jobs.iter().map(|job| match job.goal_s {
            Some(_) => format!("{}, goal {}", job.name, first.hour(job.goal_s)),
            None => format!("{}, no goal", job.name),
        }));
        heads.extend(["p50", "p99", "p99.9"].map(String::from));
        let times = |of: Latency| [of.p50_us, of.p99_us, of.p999_us].map(time);
        let mut alone = vec!["the load alone".to_string()];
        // The empty cells are those of the goals met, and of the jobs.
        alone.resize(2 + first.jobs.len(), String::new());
        alone.extend(times(first.transactional.alone));
        let mut rows = vec![alone];
        for run in &self.runs {
            let (goals, met) = run.goals();
            let name = escape(&run.policy);
            let mut row = vec![
                format!("<a href=\"report-{name}.html\">{name}</a>"),
                format!("{met} of {goals}"),
            ];
            row.extend(run.jobs.iter().map(|job| {
                let class = match job.met {
                    Some(true) => "met",
                    Some(false) => "missed",
                    // Without a goal there is nothing to colour.
                    None => "",
                };
                let finished = run.hour(job.finished_s);
                format!("<span class=\"{class}\">{finished}</span>")
            }));
            row.extend(times(run.transactional.with_analytics));
            rows.push(row);
        }
        page += &table("The policies compared", &heads, &rows);
        for (run, caveat) in self.caveats() {
            let name = escape(&run.policy);
            let caveat = escape(&caveat);
            let _ = write!(page, "<p>The day of {name} means little: {caveat}.</p>");
        }
        // One legend for all pictures: the jobs are the same, and so are their colours.
        page += &legend(first);
        for run in &self.runs {
            let _ = write!(page, "<h2>{}</h2>", escape(&run.policy));
            page += &picture::cores(run);
            page += &picture::latency(run);
        }
        page + "</main></html>\n"
    }
}

/// Formats the hour at which a job finished, with "!" if that was after its goal; "-!" if a job
/// with a goal never finished.
fn finished(run: &Outcome, job: &JobOutcome) -> String {
    match job.met {
        Some(false) => format!("{}!", run.hour(job.finished_s)),
        _ => run.hour(job.finished_s),
    }
}

#[cfg(test)]
mod tests;
